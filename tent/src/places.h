/* SPDX-License-Identifier: MIT */
/*
 * Each buffer has a tier per rail of its side (0: the rail is near the memory). A request uses a
 * buffer on each side; the request's tier for a pair of rails is the higher one of the tiers of the
 * two rails. The peer's buffers with the same tiers form a set. A place, which the scheduler calls
 * a location, is a combination of a set of the peer and a local location (see topo.h). Set 0 has
 * the buffers whose tiers are all 0; if there are too many sets, also the remaining buffers.
 */
#ifndef TENT_PLACES_H
#define TENT_PLACES_H

#include "sched.h"
#include "tent.h"

struct place_sets {
	uint32_t n, max; /* max: up to SCHED_MAX_LOCATIONS */
	uint8_t tiers[SCHED_MAX_LOCATIONS][TENT_MAX_RAILS]; /* of the peer's rails */
};

/* Makes set 0. */
void place_sets_init(struct place_sets *sets, uint32_t max);
/* Finds or adds the set of these TENT_MAX_RAILS tiers. */
uint32_t place_set(struct place_sets *sets, const uint8_t *tiers);

#endif
