/* SPDX-License-Identifier: MIT */
/*
 * Counters of a port from the kernel: the files of counters/ and hw_counters/ in sysfs, and the
 * statistics of its network interface (ethtool -S). The latter include mlx5's
 * tx/rx_vport_rdma_unicast and tx/rx_prio3_pause.
 */
#ifndef RDMABENCH_COUNTERS_H
#define RDMABENCH_COUNTERS_H

#include <stdint.h>

#define COUNTERS_MAX 4096
#define COUNTER_NAME 64

struct counter {
	char name[COUNTER_NAME];
	uint64_t value;
};

struct counters {
	uint64_t read_ns; /* of the clock of side.h, when they were read; set by the caller */
	uint32_t n;
	struct counter c[COUNTERS_MAX];
};

/* Reads all counters of a port. @class: /sys/class/infiniband, or a test's copy of it. */
void counters_read(const char *class, const char *device, unsigned port, struct counters *c_p);

/* Returns the value, or 0 if there is none; *has_p distinguishes the two. */
uint64_t counters_get(const struct counters *c, const char *name, int *has_p);

#endif
