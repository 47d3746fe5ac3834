/* SPDX-License-Identifier: MIT */
/*
 * Counters of a port, as the kernel shows them: the files of counters/ and hw_counters/ in
 * sysfs, and the statistics of its network interface (ethtool -S), among which are the
 * tx/rx_vport_rdma_unicast and the tx/rx_prio3_pause counters of mlx5.
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
	uint32_t n;
	struct counter c[COUNTERS_MAX];
};

/* Reads what there is; of a device that offers none, none. @class: /sys/class/infiniband. */
void counters_read(const char *class, const char *device, unsigned port, struct counters *c_p);

/* The value, or 0 if there is none; *has_p says which. */
uint64_t counters_get(const struct counters *c, const char *name, int *has_p);

#endif
