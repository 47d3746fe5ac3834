/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "fabric/tally.h"
#include "hca/objects.h"
#include "hca/port.h"
#include "softhca.h"

#define API __attribute__((visibility("default")))

API int softhca_counters_self(struct softhca_counters *out)
{
	sigset_t saved;

	if (!fabric_self.arena)
		return -ENODEV;
	if (fabric_enter(&saved))
		return -EIO;
	tally_process(fabric_self.slot, out);
	fabric_leave(&saved);
	return 0;
}

API int softhca_fabric_info(struct softhca_fabric_info *out)
{
	struct softhca_fabric_info info = {0};
	sigset_t saved;

	if (!fabric_self.arena)
		return -ENODEV;
	if (fabric_enter(&saved))
		return -EIO;
	for (uint32_t i = 0; i < arena()->procs_high; i++)
		info.processes += arena()->procs[i].used && fabric_alive(i);
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++)
		info.qps += arena()->qps[i].obj.used;
	info.recoveries = arena()->recoveries;
	info.virtual_ns = arena()->virtual_ns;
	info.replays = arena()->replays;
	fabric_leave(&saved);
	*out = info;
	return 0;
}

/* Enters the fabric to change an adapter. */
static int enter(const char *device, uint32_t *rail_p, sigset_t *saved)
{
	if (!fabric_self.arena)
		return -ENODEV;
	*rail_p = softhca_topology_find(&arena()->topo, device);
	if (*rail_p == arena()->topo.nrails)
		return -EINVAL;
	return fabric_enter(saved) ? -EIO : 0;
}

API int softhca_link_set(const char *device, bool up)
{
	sigset_t saved;
	uint32_t rail;
	int r = enter(device, &rail, &saved);

	if (r)
		return r;
	port_set_link(rail, up);
	fabric_leave(&saved);
	return 0;
}

API int softhca_gid_set(const char *device, unsigned index, const char *address)
{
	uint8_t gid[16] = {0};
	sigset_t saved;
	uint32_t rail;
	int r;

	if (address && !softhca_gid_read(address, gid))
		return -EINVAL;
	r = enter(device, &rail, &saved);
	if (r)
		return r;
	r = port_set_gid(rail, index, gid);
	fabric_leave(&saved);
	return r;
}
