/* SPDX-License-Identifier: MIT */
/* Finds out with hwloc near which cores and memory an adapter of this machine is. */
#ifndef BASE_HWTOPO_H
#define BASE_HWTOPO_H

#include <errno.h>
#include <hwloc.h>
#include <string.h>

#include "base/compiler.h"

/*
 * Loads the topology without the plugins that open graphics drivers or read the names of all PCI
 * devices. They are not needed to find the position of an adapter. Returns 0, -ENOMEM, or -ENOSYS.
 */
static inline int hwtopo_load(hwloc_topology_t *hw_p)
{
	static const char *const unwanted[] = {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero",
		"gl"};
	hwloc_topology_t hw;

	if (hwloc_topology_init(&hw))
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
			unwanted[i]);
	hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (hwloc_topology_load(hw)) {
		hwloc_topology_destroy(hw);
		return -ENOSYS;
	}
	*hw_p = hw;
	return 0;
}

/* Returns the machine, package, ... that contains the device of this name, or NULL. */
static inline hwloc_obj_t hwtopo_device(hwloc_topology_t hw, const char *name)
{
	hwloc_obj_t obj = NULL;

	while ((obj = hwloc_get_next_osdev(hw, obj))) {
		if (obj->name && !strcmp(obj->name, name))
			return hwloc_get_non_io_ancestor_obj(hw, obj);
	}
	return NULL;
}

#endif
