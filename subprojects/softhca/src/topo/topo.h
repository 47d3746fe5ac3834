/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TOPO_H
#define SOFTHCA_TOPO_H

/*
 * topo.h - the devices that the software HCA shows ("rails")
 *
 * A fabric is a set of processes that share the same devices (fabric/fabric.h). The link model
 * (xport/link.h) delays messages as a network would.
 *
 * A topology has no pointers, so it can be copied into shared memory. It is made from a
 * number of rails or from a text file:
 *
 *	# one rail per line; the default of a missing key may depend on the rail's index
 *	name=mlx5_0 pci=0000:17:00.0 numa=0 link=ib   rate_mbps=200000 latency_ns=600
 *	name=mlx5_1 pci=0000:b1:00.0 numa=1 link=roce gid=::ffff:10.0.0.1 mtu=1024
 *
 * Usage:
 *	struct softhca_topology t;
 *	char err[160];
 *	if (softhca_topology_from_env(&t, err, sizeof(err)))
 *		errx(2, "%s", err);
 *	for (uint32_t i = 0; i < t.nrails; i++)
 *		puts(t.rails[i].name);
 *
 * Threads: no state is kept; every function may be called from any thread.
 */

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SOFTHCA_RAILS_MAX 16
#define SOFTHCA_GIDS_MAX 8
#define SOFTHCA_PKEYS_MAX 8
#define SOFTHCA_NAME_MAX 16 /* device and netdev name, with the NUL */
#define SOFTHCA_PAUSES_MAX 90
#define SOFTHCA_NUMA_MAX 64 /* NUMA nodes are 0 .. 63, or -1 */

enum softhca_link {
	SOFTHCA_LINK_IB = 0,
	SOFTHCA_LINK_ROCE = 1,
};

struct softhca_pci_addr {
	uint16_t domain;
	uint8_t bus;
	uint8_t device; /* 0 .. 31 */
	uint8_t function; /* 0 .. 7 */
	uint8_t reserved[3];
};

struct softhca_rail {
	char name[SOFTHCA_NAME_MAX]; /* "mlx5_0"; unique in the topology */
	char netdev[SOFTHCA_NAME_MAX]; /* RoCE: the Ethernet interface's name; IB: "" */
	struct softhca_pci_addr pci; /* unique in the topology */
	int32_t numa; /* node, or -1 when unknown */
	uint32_t link; /* enum softhca_link */
	uint64_t rate_mbps; /* link model: bandwidth, megabits a second, > 0 */
	uint32_t latency_ns; /* link model: one-way latency */
	uint32_t mtu; /* bytes: 256, 512, 1024, 2048 or 4096 */
	uint64_t guid; /* node GUID = system image GUID = port GUID, host order */
	uint16_t lid; /* IB: 1 .. 0xbfff, unique; RoCE: 0 */
	uint8_t grh_required; /* IB: paths without a global route header are refused */
	uint8_t no_atomics; /* the device refuses remote atomic access */
	uint8_t down; /* the port is down when the fabric is made */
	uint8_t pauses; /* link model: maximum percentage of time in pauses (xport/pause.h) */
	uint8_t udp; /* RoCE: GIDs of other fabrics are reached by UDP */
	uint8_t reserved;
	uint32_t service_ns; /* link model: time that a message occupies a context, at each end */
	uint32_t npkeys; /* pkey_tbl_len; 1 .. SOFTHCA_PKEYS_MAX */
	uint16_t pkeys[SOFTHCA_PKEYS_MAX]; /* host order; bit 15: full member */
	uint32_t ngids; /* gid_tbl_len; 1 .. SOFTHCA_GIDS_MAX */
	uint8_t gids[SOFTHCA_GIDS_MAX][16]; /* network order; RoCE: all of type RoCE v2 */
};

struct softhca_topology {
	uint32_t nrails; /* 1 .. SOFTHCA_RAILS_MAX */
	uint32_t reserved;
	struct softhca_rail rails[SOFTHCA_RAILS_MAX];
};

/*
 * Fills *t with nrails InfiniBand rails mlx5_0 .. on NUMA node 0, at 200 Gb/s.
 * Returns 0, or -EINVAL with *t unchanged if nrails is not in 1 .. SOFTHCA_RAILS_MAX.
 */
int softhca_topology_default(struct softhca_topology *t, uint32_t nrails);

/* Returns the index of the rail with that name, or nrails. */
uint32_t softhca_topology_find(const struct softhca_topology *t, const char *name);

/*
 * Reads a topology file. Returns 0; -EINVAL if the file is not a topology; -errno if it
 * cannot be read. After an error *t is unchanged, and err (errlen bytes) has one line, without
 * a newline, that says which line is wrong and which values are valid.
 */
int softhca_topology_load(const char *path, struct softhca_topology *t, char *err, size_t errlen);

/* Does the same as softhca_topology_load() for text in memory. @name: the path in messages. */
int softhca_topology_parse(const char *text, const char *name, struct softhca_topology *t,
	char *err, size_t errlen);

/*
 * Gets the topology that the environment describes: the file that SOFTHCA_TOPOLOGY names, else
 * SOFTHCA_RAILS default rails, else one default rail. Returns the same as softhca_topology_load().
 */
int softhca_topology_from_env(struct softhca_topology *t, char *err, size_t errlen);

/* Reads an IPv6 or IPv4 address as a GID. Returns false if @text is neither. */
bool softhca_gid_read(const char *text, uint8_t gid[16]);

#define SOFTHCA_GID_TEXT 40

/* Writes a GID as sysfs shows it. */
void softhca_gid_write(const uint8_t gid[16], char text[SOFTHCA_GID_TEXT]);

/* Returns true if the rail has that GID. */
static inline bool softhca_rail_has_gid(const struct softhca_rail *r, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < r->ngids; i++)
		if (!memcmp(r->gids[i], gid, 16))
			return true;
	return false;
}

/*
 * Returns the lane speed (IB_SPEED_* bit of QUERY_PORT's active_speed) of the slowest 4X link that
 * carries rate_mbps; the width is always 4X (active_width 2). Writes that link's rate to *gbps_p
 * and its generation ("HDR") to *name_p, as in "rate" of sysfs. If rate_mbps exceeds all
 * generations, the fastest one is used.
 */
uint8_t softhca_rate_speed(uint64_t rate_mbps, uint32_t *gbps_p, const char **name_p);

/*
 * Returns the number of NUMA nodes, at least 1: one more than the highest node of the rails. If
 * this machine has all nodes of the rails, the number is also greater than the machine's highest
 * node.
 */
uint32_t softhca_topology_nodes(const struct softhca_topology *t);

/*
 * Gets the CPUs of NUMA node numa (-1: all that programs may use). If this machine has all nodes of
 * the topology, these are the CPUs of the machine's node. Otherwise the machine's CPUs are divided
 * into contiguous parts for nodes 0 .. highest; with fewer CPUs than nodes the last nodes get none,
 * and *cpus_p is empty.
 */
void softhca_numa_cpus(const struct softhca_topology *t, int numa, cpu_set_t *cpus_p);

#define SOFTHCA_MASK_TEXT (CPU_SETSIZE / 32 * 11 + 1)

/*
 * Writes a mask of CPUs: 32-bit words, highest first, with commas, without the leading words of 0.
 * @prefix: written before each word, at most two characters. Returns text.
 */
const char *softhca_mask_write(const cpu_set_t *cpus, const char *prefix,
	char text[SOFTHCA_MASK_TEXT]);

/*
 * Reads a list such as "0-3,8" from a file of the machine's sysfs. Returns false if there is no
 * such file.
 */
bool softhca_read_cpulist(const char *path, cpu_set_t *cpus_p);

#endif
