/* SPDX-License-Identifier: MIT */
#include "topo/topo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo_rail.h"

/* An EUI-64 with the "locally administered" bit, which no vendor uses. */
#define GUID_BASE UINT64_C(0x025f48fffe000000)
#define BUS_FIRST 0x11
#define BUS_STEP 0x0b
#define LID_FIRST 16 /* the subnet manager has 1 */

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

void softhca_rail_init(struct softhca_rail *rail, uint32_t index)
{
	*rail = (struct softhca_rail){
		.pci.bus = (uint8_t)(BUS_FIRST + BUS_STEP * index),
		.link = SOFTHCA_LINK_IB,
		.rate_mbps = 200000,
		.latency_ns = 600,
		.mtu = 4096,
		.guid = GUID_BASE + index,
	};
	snprintf(rail->name, sizeof(rail->name), "mlx5_%u", index);
}

static void gid_link_local(uint8_t gid[16], uint64_t guid)
{
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (int i = 0; i < 8; i++)
		gid[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
}

/* ::ffff:10.95.<rail>.1 */
static void gid_ipv4(uint8_t gid[16], uint32_t index)
{
	const uint8_t tail[6] = {0xff, 0xff, 10, 95, (uint8_t)index, 1};

	memcpy(gid + 10, tail, sizeof(tail));
}

void softhca_rail_complete(struct softhca_rail *rail, uint32_t index)
{
	if (rail->link == SOFTHCA_LINK_ROCE) {
		/* libibverbs needs an existing interface. */
		if (!rail->netdev[0])
			strcpy(rail->netdev, "lo");
	} else if (!rail->lid) {
		rail->lid = (uint16_t)(LID_FIRST + index);
	}
	if (!rail->npkeys)
		rail->pkeys[rail->npkeys++] = 0xffff;
	if (rail->ngids)
		return;
	gid_link_local(rail->gids[rail->ngids++], rail->guid);
	if (rail->link == SOFTHCA_LINK_ROCE)
		gid_ipv4(rail->gids[rail->ngids++], index);
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
