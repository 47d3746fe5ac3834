/* SPDX-License-Identifier: MIT */
/*
 * The rails, and their tiers for the locations of memory, from hwloc or from a file.
 *
 * Location 0 is "*", memory whose place is not known: all rails are in tier 0 for it. The
 * other locations are NUMA nodes, "cpu:N", and those that a file names, such as a GPU, "cuda:N".
 *
 * hwloc: a rail is in tier 0 for the node of its device, in tier 1 for the nearest other nodes by
 * hwloc's distances (without distances: the nodes of the same package), and in tier 2 for the
 * rest. A device that hwloc does not list is in tier 0 for all nodes.
 *
 * A file has one of two forms. Rails that a location does not list are of tier 2 for it:
 *
 *	{"nics": [{"name": "mlx5_0"}], "mems": [{"name": "cpu:0",
 *	 "device_list": {"rank0": ["mlx5_0"], "rank1": [], "rank2": []}}]}
 *	{"cpu:0": [["mlx5_0"], ["mlx5_1"]]}
 *
 * In the first form the rails are the `nics`, whose other members are ignored, and lists may
 * contain positions in `nics` in place of names. In the second form all names are rails.
 */
#ifndef TENT_TOPO_H
#define TENT_TOPO_H

#include "tent.h"
#include "sched.h"

#define TOPO_MAX_LOCATIONS 64

struct topo {
	uint32_t n_rails, n_locations;
	char rails[TENT_MAX_RAILS][TENT_NAME_LEN];
	char locations[TOPO_MAX_LOCATIONS][TENT_NAME_LEN];
	uint8_t tiers[TOPO_MAX_LOCATIONS][TENT_MAX_RAILS];
};

/* Makes a topology without rails and with the location "*" only. */
void topo_init(struct topo *t);

/*
 * Appends a rail, in tier 2 for all locations but "*". -EINVAL: the name is bad or exists already,
 * or there are too many rails.
 */
int topo_add_rail(struct topo *t, const char *name, struct tent_why *why);
/* Appends a location. Returns the same as topo_add_rail(). */
int topo_add_location(struct topo *t, const char *name, struct tent_why *why);

/*
 * Adds the host's locations, and the tiers of the rails in @t. If there are too many NUMA nodes, the
 * last ones are no locations. 0; -ENOSYS, -ENOMEM: hwloc fails.
 */
int topo_from_hwloc(struct topo *t, struct tent_why *why);

/*
 * Reads rails, locations and tiers from a file. 0; -EINVAL: an error in the text, see @why; or
 * -errno: the file cannot be opened. *t_p is written on success only.
 */
int topo_load(const char *path, struct topo *t_p, struct tent_why *why);

/* The number of a location, 0 for NULL and "*"; -1: no location has this name. */
int topo_location(const struct topo *t, const char *name);
/* The number of a rail; -1: no rail has this name. */
int topo_rail(const struct topo *t, const char *name);

#endif
