/* SPDX-License-Identifier: MIT */
/* The locations of this host, and the tiers of its rails, from hwloc; the rules are in topo.h. */
#include <stdio.h>

#include "base/hwtopo.h"
#include "topo.h"
#include "why.h"

/* hwloc's latencies between NUMA nodes, or NULL. */
static struct hwloc_distances_s *get_distances(hwloc_topology_t hw)
{
	struct hwloc_distances_s *d = NULL;
	unsigned n = 1;

	if (hwloc_distances_get_by_type(hw, HWLOC_OBJ_NUMANODE, &n, &d,
		    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) ||
		!n)
		return NULL;
	return d;
}

/* 0: not known. */
static uint64_t distance(struct hwloc_distances_s *d, hwloc_obj_t from, hwloc_obj_t to)
{
	hwloc_uint64_t there = 0, back = 0;

	if (!d || hwloc_distances_obj_pair_values(d, from, to, &there, &back))
		return 0;
	return there;
}

/* The shortest distance to a node that is not the device's own; 0: not known. */
static uint64_t nearest(hwloc_topology_t hw, struct hwloc_distances_s *d, hwloc_obj_t home,
	hwloc_const_nodeset_t own)
{
	hwloc_obj_t node = NULL;
	uint64_t least = 0, x;

	while ((node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node))) {
		x = distance(d, home, node);
		if (x && !hwloc_bitmap_isset(own, node->os_index) && (!least || x < least))
			least = x;
	}
	return least;
}

static uint8_t tier_of(hwloc_topology_t hw, struct hwloc_distances_s *d, hwloc_obj_t device,
	hwloc_obj_t node)
{
	unsigned first = (unsigned)hwloc_bitmap_first(device->nodeset);
	hwloc_obj_t home = hwloc_get_numanode_obj_by_os_index(hw, first), package;
	uint64_t least;

	if (!home || hwloc_bitmap_isset(device->nodeset, node->os_index))
		return 0;
	least = nearest(hw, d, home, device->nodeset);
	if (least)
		return distance(d, home, node) == least ? 1 : 2;
	package = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, home);
	if (package && package == hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, node))
		return 1;
	return 2;
}

static int add_node(struct topo *t, hwloc_topology_t hw, struct hwloc_distances_s *d,
	hwloc_obj_t node, struct tent_why *why)
{
	char name[TENT_NAME_LEN];
	int err;

	snprintf(name, sizeof(name), "cpu:%u", node->os_index);
	err = topo_add_location(t, name, why);
	for (uint32_t r = 0; r < t->n_rails && !err; r++) {
		hwloc_obj_t device = hwtopo_device(hw, t->rails[r]);

		t->tiers[t->n_locations - 1][r] = device ? tier_of(hw, d, device, node) : 0;
	}
	return err;
}

int topo_from_hwloc(struct topo *t, struct tent_why *why)
{
	struct hwloc_distances_s *d = NULL;
	hwloc_topology_t hw;
	hwloc_obj_t node = NULL;
	int err = hwtopo_load(&hw);

	if (err)
		return why_say(why, err, "hwloc cannot read the topology of this machine");
	d = get_distances(hw);
	while (!err && t->n_locations < TOPO_MAX_LOCATIONS &&
		(node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node)))
		err = add_node(t, hw, d, node, why);
	if (d)
		hwloc_distances_release(hw, d);
	hwloc_topology_destroy(hw);
	return err;
}
