/* SPDX-License-Identifier: MIT */
/*
 * The puts of a client, regenerated from its stream for the audit, in which another client reads
 * their keys. The two functions use different algorithms, so that their results can be compared.
 * They can take seconds, and return -EINTR when the flag of stop.h is raised.
 */
#ifndef BENCHKV_PUTS_H
#define BENCHKV_PUTS_H

#include <stdint.h>

#include "workload.h"

/*
 * Lists the operations from @first to @end - 1 that are the last puts of their keys, newest first.
 * The caller must free *ops_p; *n_p is the number. 0, -ENOMEM or -EINTR.
 */
int puts_last(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint64_t **ops_p, uint32_t *n_p);

/*
 * Counts the different keys that these operations put. Fewer than 2^32 operations. 0, -ENOMEM or
 * -EINTR.
 */
int puts_count(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint32_t *n_p);

#endif
