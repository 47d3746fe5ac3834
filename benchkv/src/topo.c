/* SPDX-License-Identifier: MIT */
#include "topo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/boot.h"
#include "base/hwtopo.h"
#include "msg.h"

struct topo {
	hwloc_topology_t hw;
	hwloc_bitmap_t allowed;
	int *units; /* in the order of their use */
	uint32_t planned; /* number of threads that have a unit */
	/* The input of the last topo_plan(). */
	char device[64]; /* empty: no preference */
	uint32_t near_cores; /* usable cores near the device; 0: none, or its position is unknown */
	uint32_t index, sharers, threads;
};

/* Finds the units that the system allows and to which the launcher has bound the process. */
static int find_allowed(struct topo *t)
{
	hwloc_bitmap_t bound = hwloc_bitmap_alloc();

	t->allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t->hw));
	if (!bound || !t->allowed) {
		hwloc_bitmap_free(bound);
		return -ENOMEM;
	}
	if (hwloc_topology_is_thissystem(t->hw) &&
		!hwloc_get_cpubind(t->hw, bound, HWLOC_CPUBIND_PROCESS) &&
		hwloc_bitmap_intersects(bound, t->allowed))
		hwloc_bitmap_and(t->allowed, t->allowed, bound);
	hwloc_bitmap_free(bound);
	return 0;
}

int topo_open(struct topo **t_p)
{
	struct topo *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	err = hwtopo_load(&t->hw);
	if (!err)
		err = find_allowed(t);
	if (err) {
		topo_close(t);
		return err;
	}
	*t_p = t;
	return 0;
}

void topo_close(struct topo *t)
{
	if (!t)
		return;
	free(t->units);
	hwloc_bitmap_free(t->allowed);
	if (t->hw)
		hwloc_topology_destroy(t->hw);
	free(t);
}

static uint64_t hash_text(uint64_t sum, const char *s)
{
	while (*s)
		sum = mix64_add(sum, (uint8_t)*s++);
	return sum;
}

uint64_t topo_cores_id(const struct topo *t)
{
	char boot[BOOT_LEN], *cores = NULL;
	uint64_t id = 0;

	/* The host name may differ between containers or simulated nodes of one machine. */
	boot_id(boot);
	id = hash_text(id, boot);
	if (hwloc_bitmap_asprintf(&cores, t->allowed) >= 0)
		id = hash_text(id, cores);
	free(cores);
	return id;
}

/* The cores near the device; NULL: no device, or hwloc does not find it. */
static hwloc_const_bitmap_t near_device(const struct topo *t, const char *device)
{
	hwloc_obj_t obj = device ? hwtopo_device(t->hw, device) : NULL;

	return obj ? obj->cpuset : NULL;
}

uint32_t topo_units(const struct topo *t)
{
	int n = hwloc_get_nbobjs_inside_cpuset_by_type(t->hw, t->allowed, HWLOC_OBJ_PU);

	return n > 0 ? (uint32_t)n : 0;
}

/* The k-th hardware thread of a core, of those that the process may use; or -1. */
static int core_unit(const struct topo *t, hwloc_obj_t core, uint32_t k)
{
	unsigned pu;

	hwloc_bitmap_foreach_begin(pu, core->cpuset)
	{
		if (hwloc_bitmap_isset(t->allowed, pu) && !k--)
			return (int)pu;
	}
	hwloc_bitmap_foreach_end();
	return -1;
}

/*
 * Appends to @units the k-th hardware threads of all near cores, or of all other cores. Returns the
 * new number of units. If @units is NULL, only counts.
 */
static uint32_t append_units(const struct topo *t, int *units, uint32_t n, uint32_t k,
	hwloc_const_bitmap_t near, bool want_near)
{
	hwloc_obj_t core = NULL;

	while ((core = hwloc_get_next_obj_by_type(t->hw, HWLOC_OBJ_CORE, core))) {
		bool is_near = near && hwloc_bitmap_isincluded(core->cpuset, near);
		int unit = is_near == want_near ? core_unit(t, core, k) : -1;

		if (unit >= 0 && units)
			units[n] = unit;
		n += unit >= 0;
	}
	return n;
}

static uint32_t order_units(const struct topo *t, const char *device, int *units, uint32_t all)
{
	hwloc_const_bitmap_t near = near_device(t, device);
	uint32_t n = 0, before;

	for (uint32_t k = 0; n < all; k++) {
		before = n;
		n = append_units(t, units, n, k, near, true);
		n = append_units(t, units, n, k, near, false);
		if (n == before)
			break;
	}
	return n;
}

void topo_explain(const struct topo *t, char *text, size_t size)
{
	char near[160];

	if (!t->planned) {
		snprintf(text, size,
			"%u are too few for %u threads per rank (number of ranks with these cores: "
			"%u); polling threads on one unit would wait for each other's time slices",
			topo_units(t), t->threads, t->sharers);
		return;
	}
	if (!t->device[0])
		snprintf(near, sizeof(near), "in the order of the cores");
	else if (!t->near_cores)
		snprintf(near, sizeof(near), "hwloc does not know where %s is", t->device);
	else
		snprintf(near, sizeof(near), "the %u cores near %s first", t->near_cores,
			t->device);
	snprintf(text, size,
		"%s; first hardware threads before second ones; rank %u of %u with these cores; "
		"daemons before clients",
		near, t->index, t->sharers);
}

bool topo_plan(struct topo *t, const char *device, uint32_t index, uint32_t sharers,
	uint32_t threads)
{
	uint32_t all = topo_units(t), n;

	free(t->units);
	t->units = calloc(all + 1, sizeof(*t->units));
	snprintf(t->device, sizeof(t->device), "%s", device ? device : "");
	t->near_cores = append_units(t, NULL, 0, 0, near_device(t, device), true);
	t->index = index;
	t->sharers = sharers;
	t->threads = threads;
	n = t->units ? order_units(t, device, t->units, all) : 0;
	t->planned = (n + sharers - 1 - index) / sharers >= threads ? threads : 0;
	return t->planned;
}

int topo_unit(const struct topo *t, uint32_t thread)
{
	return thread < t->planned ? t->units[t->index + thread * t->sharers] : -1;
}

void topo_pin_self(const struct topo *t, uint32_t thread)
{
	int unit = topo_unit(t, thread);
	hwloc_bitmap_t set;

	if (unit < 0 || !hwloc_topology_is_thissystem(t->hw))
		return;
	set = hwloc_bitmap_alloc();
	if (!set)
		return;
	hwloc_bitmap_only(set, (unsigned)unit);
	hwloc_set_cpubind(t->hw, set, HWLOC_CPUBIND_THREAD);
	hwloc_bitmap_free(set);
}
