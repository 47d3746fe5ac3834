/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/hwtopo.h"
#include "text.h"

/* The processors or the nodes of an option. */
struct choice {
	const char *option, *value;
	hwloc_const_bitmap_t allowed;
	hwloc_bitmap_t chosen;
};

static int near_device(hwloc_topology_t hw, const struct choice *c, const char *device,
	bool of_nodes, char *why, size_t size)
{
	hwloc_obj_t obj = hwtopo_device(hw, device);

	if (!obj)
		return fail(why, size, -ENODATA,
			"%s near: hwloc does not know where %.40s is: give a list", c->option,
			device);
	hwloc_bitmap_and(c->chosen, of_nodes ? obj->nodeset : obj->cpuset, c->allowed);
	return 0;
}

static int choose(hwloc_topology_t hw, const struct choice *c, const char *device, bool of_nodes,
	char *why, size_t size)
{
	char *list = NULL;
	int err = 0;

	if (!strcmp(c->value, "near") && !device)
		return 0;
	if (!strcmp(c->value, "near"))
		err = near_device(hw, c, device, of_nodes, why, size);
	else if (hwloc_bitmap_list_sscanf(c->chosen, c->value))
		hwloc_bitmap_zero(c->chosen);
	if (err ||
		(!hwloc_bitmap_iszero(c->chosen) && hwloc_bitmap_isincluded(c->chosen, c->allowed)))
		return err;
	if (hwloc_bitmap_list_asprintf(&list, c->allowed) < 0)
		return -ENOMEM;
	err = fail(why, size, -EINVAL, "%s %.40s is not valid: give near or some of %.80s",
		c->option, c->value, list);
	free(list);
	return err;
}

static int bind_cpus(hwloc_topology_t hw, hwloc_const_bitmap_t set)
{
	return hwloc_set_cpubind(hw, set, HWLOC_CPUBIND_THREAD) ? -errno : 0;
}

static int bind_nodes(hwloc_topology_t hw, hwloc_const_bitmap_t set)
{
	return hwloc_set_membind(hw, set, HWLOC_MEMBIND_BIND,
		       HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT) ?
		       -errno :
		       0;
}

/* Binds the thread or its memory to the choice. If @device is NULL, only checks the choice. */
static int apply(hwloc_topology_t hw, struct choice *c, const char *device, bool of_nodes,
	char *why, size_t size)
{
	int err;

	if (!c->value)
		return 0;
	c->chosen = hwloc_bitmap_alloc();
	if (!c->chosen)
		return -ENOMEM;
	err = choose(hw, c, device, of_nodes, why, size);
	if (!err && device) {
		err = of_nodes ? bind_nodes(hw, c->chosen) : bind_cpus(hw, c->chosen);
		if (err)
			fail(why, size, err, "%s: %s: leave it out", c->option, strerror(-err));
	}
	hwloc_bitmap_free(c->chosen);
	return err;
}

int place_bind(const char *cpus, const char *nodes, const char *device, char *why, size_t size)
{
	struct choice cpu = {"--cpu", cpus, NULL, NULL}, numa = {"--numa", nodes, NULL, NULL};
	hwloc_topology_t hw;
	int err;

	if (!cpus && !nodes)
		return 0;
	err = hwtopo_load(&hw);
	if (err)
		return fail(why, size, err, "hwloc cannot read the machine: %s", strerror(-err));
	cpu.allowed = hwloc_topology_get_allowed_cpuset(hw);
	numa.allowed = hwloc_topology_get_allowed_nodeset(hw);
	err = apply(hw, &numa, device, true, why, size);
	if (!err)
		err = apply(hw, &cpu, device, false, why, size);
	hwloc_topology_destroy(hw);
	return err;
}

/* Adds a set as text. */
static void add_set(json_t *o, const char *key, hwloc_const_bitmap_t set)
{
	char *list = NULL;

	if (hwloc_bitmap_list_asprintf(&list, set) >= 0)
		json_object_set_new(o, key, json_string(list));
	free(list);
}

json_t *place_json(void)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	hwloc_membind_policy_t policy;
	hwloc_topology_t hw;
	json_t *o = NULL;

	if (set && !hwtopo_load(&hw)) {
		o = json_object();
		if (!hwloc_get_cpubind(hw, set, HWLOC_CPUBIND_THREAD))
			add_set(o, "cpus", set);
		if (!hwloc_get_membind(hw, set, &policy,
			    HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET))
			add_set(o, "nodes", set);
		hwloc_topology_destroy(hw);
	}
	hwloc_bitmap_free(set);
	return o;
}
