/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYSFS_H
#define SOFTHCA_SYSFS_H

/*
 * sysfs.h - the part of /sys that RDMA programs read, as a directory tree
 *
 *	<root>/class/infiniband_verbs/{abi_version,uverbsN/...}
 *	<root>/class/infiniband/mlx5_N -> ../../devices/pciDDDD:BB/DDDD:BB:DD.F/infiniband/mlx5_N
 *	<root>/class/misc/rdma_cm/{abi_version,dev}
 *	<root>/devices/pciDDDD:BB/DDDD:BB:DD.F/{vendor,device,numa_node,local_cpus,...}
 *
 * and the same devices for hwloc (<root>/hwloc.xml), because hwloc reads only the machine's
 * own sysfs.
 *
 * Usage (SYSFS_PATH for libibverbs is then root):
 *	rc = softhca_sysfs_build("/dev/shm/softhca-0-x/sysfs", &topology);
 *
 * Threads: no state is kept. If two threads build the same root, the first one wins.
 */

#include <stdint.h>

struct softhca_topology;

#define SOFTHCA_UVERBS_MAJOR 231
#define SOFTHCA_UVERBS_MINOR 192 /* of uverbs0; uverbsN has 192 + N */
#define SOFTHCA_CM_MAJOR 10 /* miscellaneous devices */
#define SOFTHCA_CM_MINOR 60 /* kernels assign any number at run time */
#define SOFTHCA_CM_ABI 4

/* Attributes of every adapter in sysfs. */
#define SOFTHCA_VENDOR_ID 0x15b3
#define SOFTHCA_PART_ID 0x101b /* ConnectX-6 */
#define SOFTHCA_FW_VER "20.31.1014"
#define SOFTHCA_SM_LID 1 /* IB; RoCE: 0 */
#define SOFTHCA_PORT_CAPS(ib) ((ib) ? 0x2651e848u : 0x00010000u)

/*
 * Builds the tree beside root (root plus a unique suffix) and renames it, so that readers see
 * all of it or nothing. Returns 0; -EEXIST if root exists already, and is left unchanged; or
 * -errno of the call that failed, with nothing left behind.
 */
int softhca_sysfs_build(const char *root, const struct softhca_topology *t);

/* Counters of a port, from the time when the fabric was made. */
enum softhca_port_counter {
	SOFTHCA_TX_BYTES,
	SOFTHCA_RX_BYTES,
	SOFTHCA_TX_PACKETS,
	SOFTHCA_RX_PACKETS,
	SOFTHCA_TX_PAUSE_NS,
	SOFTHCA_RX_PAUSE_NS,
	SOFTHCA_NO_RECEIVES,
	SOFTHCA_RNR_RETRIES,
	SOFTHCA_TIMEOUT_RETRIES,
	SOFTHCA_RX_WRITES,
	SOFTHCA_RX_READS,
	SOFTHCA_RX_ATOMICS,
	SOFTHCA_BAD_PKEYS,
	SOFTHCA_BAD_PACKETS,
	SOFTHCA_BAD_ICRCS,
	SOFTHCA_PORT_COUNTERS,
};

/*
 * Returns the name of the i-th file of counters, below the port's directory; NULL: there are no
 * more.
 */
const char *softhca_sysfs_counter(unsigned int i);

/*
 * Writes the files of counters of the port with this directory. Two threads must not call it for
 * the same port at the same time. Errors are ignored: the files keep older values.
 */
void softhca_sysfs_count(const char *port, const uint64_t values[SOFTHCA_PORT_COUNTERS]);

/*
 * Writes the hwloc 2 XML of this machine with t's rails in it. Load it with
 * HWLOC_XMLFILE=path HWLOC_THISSYSTEM=1. NUMA nodes are those of
 * softhca_numa_cpus(). Returns 0 or -errno.
 */
int softhca_hwloc_write(const char *path, const struct softhca_topology *t);

#endif
