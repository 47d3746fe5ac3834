/* SPDX-License-Identifier: MIT */
/*
 * A hash assigns each key to a rank and a shard, so that any key range, and the hot keys of any
 * distribution, spread over all daemons. Every rank computes the same assignment.
 */
#ifndef BENCHKV_PLACE_H
#define BENCHKV_PLACE_H

#include <stdint.h>

#include "msg.h"

struct placement {
	uint32_t ranks; /* 1 .. 65,535 */
	uint32_t shards; /* of each rank: one per daemon */
};

static inline uint32_t place_rank(const struct placement *p, uint64_t key)
{
	return (uint32_t)((mix64(key) >> 32) * p->ranks >> 32);
}

static inline uint32_t place_shard(const struct placement *p, uint64_t key)
{
	return (uint32_t)((mix64(key) & UINT32_MAX) * p->shards >> 32);
}

#endif
