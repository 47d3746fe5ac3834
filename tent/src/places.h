/* SPDX-License-Identifier: MIT */
/*
 * Places of memory. A request has memory on both sides, and the tier of a pair of rails is the
 * higher one of its two rails, each for the memory of its own side. The peer's buffers fall into
 * sets with the same tiers; a location of the scheduler is a set and a location here. Set 0 is
 * memory without known tiers; buffers beyond the most sets belong to it.
 */
#ifndef TENT_PLACES_H
#define TENT_PLACES_H

#include "sched.h"
#include "tent.h"

struct place_sets {
	uint32_t n, max; /* max: up to SCHED_MAX_LOCATIONS */
	const uint8_t *tiers[SCHED_MAX_LOCATIONS]; /* of the peer's rails */
};

/* With set 0. */
void place_sets_init(struct place_sets *sets, uint32_t max);
/* The set of these TENT_MAX_RAILS tiers, which stay where they are. */
uint32_t place_set(struct place_sets *sets, const uint8_t *tiers);

#endif
