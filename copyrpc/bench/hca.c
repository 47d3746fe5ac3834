/* SPDX-License-Identifier: MIT */
/* copyrpc-bench: finds devices, and reads the counters of a software HCA. */
#include <dlfcn.h>

#include "base/underhca.h"
#include "bench.h"
#include "mlx5dvl.h"
#include "softhca.h"

#define DEVICES_MAX 64

/* True if the device exists. If @device is NULL: true if any device exists. Writes the names of all
 * devices. */
static bool find(const char *device, char *text, size_t size)
{
	char names[DEVICES_MAX][MLX5DVL_NAME_LEN];
	int n = mlx5dvl_devices(DEVICES_MAX, names);
	bool found = false;
	size_t at = 0;

	text[0] = 0;
	for (int i = 0; i < n; i++) {
		found |= !device || !strcmp(names[i], device);
		if (at < size)
			at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "",
				names[i]);
	}
	return found;
}

void hca_check(const char *device, char **argv)
{
	char names[512], why[256] = "";

	if (find(device, names, sizeof(names)))
		return;
	if (names[0])
		refuse("--ib-dev=%s: give one of: %s", device, names);
	if (device)
		refuse("--ib-dev=%s: there is no mlx5 device: give none, or run under softhca-run",
			device);
	fputs("copyrpc-bench: no mlx5 device: running under the software HCA\n", stderr);
	fail(why, underhca_again(argv, SOFTHCA_RUN_BUILT, why, sizeof(why)));
}

bool hca_counts(struct counts *c)
{
	int (*ask)(struct softhca_counters *);
	struct softhca_counters n;

	*(void **)&ask = dlsym(RTLD_DEFAULT, "softhca_counters_self");
	if (!ask || ask(&n))
		return false;
	c->doorbells = n.doorbells;
	c->wqes = 0;
	for (int i = 0; i < SOFTHCA_OPCODES; i++)
		c->wqes += n.wqes[i];
	return true;
}
