/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo_rail.h"

struct generation {
	uint32_t gbps; /* of a 4X link */
	uint8_t speed; /* IB_SPEED_* */
	const char *name;
};

static const struct generation generations[] = {
	{10, 1, "SDR"},
	{20, 2, "DDR"},
	{40, 4, "QDR"},
	{56, 16, "FDR"},
	{100, 32, "EDR"},
	{200, 64, "HDR"},
	{400, 128, "NDR"},
};
#define NGENERATIONS (sizeof(generations) / sizeof(generations[0]))

uint8_t softhca_rate_speed(uint64_t rate_mbps, uint32_t *gbps_p, const char **name_p)
{
	size_t i = 0;

	while (i < NGENERATIONS - 1 && generations[i].gbps * UINT64_C(1000) < rate_mbps)
		i++;
	*gbps_p = generations[i].gbps;
	*name_p = generations[i].name;
	return generations[i].speed;
}

uint32_t softhca_topology_find(const struct softhca_topology *t, const char *name)
{
	uint32_t i = 0;

	while (i < t->nrails && strcmp(t->rails[i].name, name) != 0)
		i++;
	return i;
}

int softhca_topology_default(struct softhca_topology *t, uint32_t nrails)
{
	if (!nrails || nrails > SOFTHCA_RAILS_MAX)
		return -EINVAL;
	memset(t, 0, sizeof(*t));
	t->nrails = nrails;
	for (uint32_t i = 0; i < nrails; i++) {
		softhca_rail_init(&t->rails[i], i);
		softhca_rail_complete(&t->rails[i], i);
	}
	return 0;
}

int softhca_topology_from_env(struct softhca_topology *t, char *err, size_t errlen)
{
	const char *path = getenv("SOFTHCA_TOPOLOGY");
	const char *rails = getenv("SOFTHCA_RAILS");
	unsigned long n = 1;
	char *end;

	if (path && *path)
		return softhca_topology_load(path, t, err, errlen);
	if (rails && *rails) {
		n = strtoul(rails, &end, 10);
		if (*end || !n || n > SOFTHCA_RAILS_MAX) {
			snprintf(err, errlen, "SOFTHCA_RAILS=%s: give 1 to %d rails", rails,
				SOFTHCA_RAILS_MAX);
			return -EINVAL;
		}
	}
	return softhca_topology_default(t, (uint32_t)n);
}
