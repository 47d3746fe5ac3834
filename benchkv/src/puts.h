/* SPDX-License-Identifier: MIT */
/*
 * The puts of a client, made again from its stream: for the audit, in which another client reads
 * their keys. Two functions that share nothing but the stream, so that one can be compared with
 * the other.
 */
#ifndef BENCHKV_PUTS_H
#define BENCHKV_PUTS_H

#include <stdint.h>

#include "workload.h"

/*
 * Lists the operations from first up to end that are the last puts of their keys, newest first.
 * *ops_p is the caller's, to be freed, and *n_p their number. 0 or -ENOMEM.
 */
int puts_last(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint64_t **ops_p, uint32_t *n_p);

/* Counts the keys that these operations put. 0 or -ENOMEM. At most 2^32 operations, for both. */
int puts_count(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint32_t *n_p);

#endif
