/* SPDX-License-Identifier: MIT */
#include "topo.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "why.h"

void topo_init(struct topo *t)
{
	*t = (struct topo){.n_locations = 1, .locations = {"*"}};
}

static int find(const char (*names)[TENT_NAME_LEN], uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(name, names[i]))
			return (int)i;
	}
	return -1;
}

int topo_location(const struct topo *t, const char *name)
{
	return name ? find(t->locations, t->n_locations, name) : 0;
}

int topo_rail(const struct topo *t, const char *name)
{
	return find(t->rails, t->n_rails, name);
}

/* Appends a name. @first: the number of names that are not counted in the message of a limit. */
static int add_name(char (*names)[TENT_NAME_LEN], uint32_t *n, uint32_t max, uint32_t first,
	const char *what, const char *name, struct tent_why *why)
{
	size_t len = strlen(name), i = 0;

	while (i < len && name[i] > ' ' && name[i] <= '~')
		i++;
	if (!len || len >= TENT_NAME_LEN || i < len)
		return why_say(why, -EINVAL,
			"a name is not valid: give 1 to %d printable characters without spaces",
			TENT_NAME_LEN - 1);
	if (find((const char(*)[TENT_NAME_LEN])names, *n, name) >= 0)
		return why_say(why, -EINVAL, "%s %s stands twice: give it once", what, name);
	if (*n == max)
		return why_say(why, -EINVAL, "too many %ss: give up to %u", what, max - first);
	strcpy(names[(*n)++], name);
	return 0;
}

int topo_add_rail(struct topo *t, const char *name, struct tent_why *why)
{
	int err = add_name(t->rails, &t->n_rails, TENT_MAX_RAILS, 0, "rail", name, why);

	for (uint32_t l = 1; l < t->n_locations && !err; l++)
		t->tiers[l][t->n_rails - 1] = TENT_TIERS - 1;
	return err;
}

int topo_add_location(struct topo *t, const char *name, struct tent_why *why)
{
	int err = add_name(t->locations, &t->n_locations, TOPO_MAX_LOCATIONS, 1, "location", name,
		why);

	if (!err)
		memset(t->tiers[t->n_locations - 1], TENT_TIERS - 1, sizeof(t->tiers[0]));
	return err;
}

/* The place of the rail's device in the topology, or NULL. */
static hwloc_obj_t find_device(hwloc_topology_t hw, const char *name)
{
	hwloc_obj_t obj = NULL;

	while ((obj = hwloc_get_next_osdev(hw, obj))) {
		if (obj->name && !strcmp(obj->name, name))
			return hwloc_get_non_io_ancestor_obj(hw, obj);
	}
	return NULL;
}

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
		hwloc_obj_t device = find_device(hw, t->rails[r]);

		t->tiers[t->n_locations - 1][r] = device ? tier_of(hw, d, device, node) : 0;
	}
	return err;
}

/*
 * Excludes the plugins that open graphics drivers or read the names of all PCI devices: they are
 * not needed for the position of an adapter.
 */
static int load(hwloc_topology_t *hw_p)
{
	static const char *const unwanted[] = {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero",
		"gl"};

	if (hwloc_topology_init(hw_p))
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		hwloc_topology_set_components(*hw_p, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			unwanted[i]);
	hwloc_topology_set_io_types_filter(*hw_p, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (!hwloc_topology_load(*hw_p))
		return 0;
	hwloc_topology_destroy(*hw_p);
	return -ENOSYS;
}

int topo_from_hwloc(struct topo *t, struct tent_why *why)
{
	struct hwloc_distances_s *d = NULL;
	hwloc_topology_t hw;
	hwloc_obj_t node = NULL;
	int err = load(&hw);

	if (err)
		return why_say(why, err, "hwloc cannot read the topology of this machine");
	d = get_distances(hw);
	while (!err && (node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node)))
		err = add_node(t, hw, d, node, why);
	if (d)
		hwloc_distances_release(hw, d);
	hwloc_topology_destroy(hw);
	return err;
}
