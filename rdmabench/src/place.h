/* SPDX-License-Identifier: MIT */
/* The processors and the memory of an engine. */
#ifndef RDMABENCH_PLACE_H
#define RDMABENCH_PLACE_H

#include <jansson.h>
#include <stddef.h>

/*
 * Binds the calling thread to processors, and the memory that it allocates from now on to NUMA
 * nodes, each given as "near" (near the device) or as a list like "0-3,8"; NULL: not bound. Returns
 * 0. -EINVAL: the machine does not have all of them, or this process may not use them. -ENODATA:
 * hwloc does not know where the device is. -ENOMEM, -ENOSYS, or an error of the system. After an
 * error other than -ENOMEM @why contains one line; after -EINVAL it names the valid values.
 *
 * If @device is NULL, because it is not known yet, only checks the values, and accepts "near".
 */
int place_bind(const char *cpus, const char *nodes, const char *device, char *why, size_t size);

/*
 * Returns the processors and nodes to which the thread is bound: {"cpus": "0-3", "nodes": "0"}, or
 * NULL.
 */
json_t *place_json(void);

#endif
