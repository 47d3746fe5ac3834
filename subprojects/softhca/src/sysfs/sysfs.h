/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYSFS_H
#define SOFTHCA_SYSFS_H

/*
 * sysfs.h - the part of /sys that RDMA programs read, as a directory tree
 *
 *	<root>/class/infiniband_verbs/{abi_version,uverbsN/...}
 *	<root>/class/infiniband/mlx5_N -> ../../devices/pciDDDD:BB/DDDD:BB:DD.F/infiniband/mlx5_N
 *	<root>/devices/pciDDDD:BB/DDDD:BB:DD.F/{vendor,device,numa_node,local_cpus,...}
 *
 * and the same devices as hwloc sees them (<root>/hwloc.xml), because hwloc does
 * not look into a sysfs that is not the machine's own.
 *
 * Usage (SYSFS_PATH for libibverbs is then root):
 *	rc = softhca_sysfs_build("/dev/shm/softhca-0-x/sys", &topology);
 *	...
 *	softhca_sysfs_remove("/dev/shm/softhca-0-x/sys");
 *
 * Threads: no state is kept. Two builders of one root are safe: the first wins.
 */

#include <sys/types.h>

struct softhca_topology;

#define SOFTHCA_UVERBS_MAJOR 231
#define SOFTHCA_UVERBS_MINOR 192 /* of uverbs0; uverbsN has 192 + N */

/*
 * Builds the tree beside root (root plus a suffix of its own) and renames it, so
 * that readers see all of it or nothing. Returns 0; -EEXIST when root already
 * exists (it is left as it is: use it, or remove it first); -errno of the failing
 * call otherwise, with nothing left behind.
 */
int softhca_sysfs_build(const char *root, const struct softhca_topology *t);

/*
 * Removes path with all that is below it, never following a symbolic link and
 * never leaving path's file system. Returns 0 (also when there is no such path)
 * or -errno of the first failure.
 */
int softhca_sysfs_remove(const char *path);

/*
 * Writes the hwloc 2 XML of this machine with t's rails in it. Load it with
 * HWLOC_XMLFILE=path HWLOC_THISSYSTEM=1. Rails on NUMA nodes that this machine
 * has are shown there; if a node is missing, this machine's CPUs are dealt out in
 * equal contiguous parts to nodes 0 .. highest. Returns 0 or -errno.
 */
int softhca_hwloc_write(const char *path, const struct softhca_topology *t);

#endif
