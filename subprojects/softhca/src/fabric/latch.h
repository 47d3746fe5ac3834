/* SPDX-License-Identifier: MIT */
/*
 * Latches: the locks of QPs, SRQs and CQs. The holder of a lane takes the latch of each object that
 * its message changes, in the order of their addresses in the arena: one QP, one SRQ, the CQs. The
 * holder of the mutex needs no latch, because no lane has an owner then.
 *
 * A latch names the lane of its owner and the lane's `use`. If the owner loses the lane, because it
 * has died or is stopped, the holder of the mutex completes the owner's step and then changes the
 * lane's `use`. The latch counts as free from then on.
 */
#ifndef SOFTHCA_FABRIC_LATCH_H
#define SOFTHCA_FABRIC_LATCH_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

#define LATCHES_MAX 4 /* maximum number of latches that a message needs: QP, SRQ and two CQs */
#define LATCH_USE (1ull << LANE_BITS)

/* The latches of this thread, in the order in which it has taken them. */
struct latches {
	uint64_t use; /* of the thread's lane; 0: the thread holds the mutex */
	uint32_t n;
	struct latch *at[1 + LATCHES_MAX]; /* at[0] is NULL */
};

extern __thread struct latches latches __attribute__((tls_model("initial-exec")));

/* Returns true if a latch with this word is free. */
static inline bool latch_is_free(uint64_t word)
{
	const struct lane *of = &arena()->lanes[word & (LATCH_USE - 1)];

	/* Relaxed: `use` changes only while no lane has an owner; see latches_renew(). */
	return !word || __atomic_load_n(&of->use, __ATOMIC_RELAXED) != word;
}

/* Returns true if this thread holds the latch, or the mutex. */
static inline bool latch_held(const struct latch *l)
{
	/* Relaxed: only this thread stores its own word. */
	return !latches.use || __atomic_load_n(&l->word, __ATOMIC_RELAXED) == latches.use;
}

/* Takes the latch if its word is @seen. */
static inline bool latch_replace(struct latch *l, uint64_t seen)
{
	/* Acquire: pairs with the release in latches_free(). */
	if (!__atomic_compare_exchange_n(&l->word, &seen, latches.use, false, __ATOMIC_ACQUIRE,
		    __ATOMIC_RELAXED))
		return false;
	claim_acquired(l);
	assert(latches.at[latches.n] < l);
	latches.at[++latches.n] = l;
	return true;
}

/* Waits until the latch is free, and takes it. Returns false if the latch is not free soon. */
bool latch_wait(struct latch *l);

/*
 * Takes the latch, unless this thread holds it or the mutex. Returns false if the thread must
 * exchange its lane for the mutex (fabric_widen()).
 */
static inline bool latch_take(struct latch *l)
{
	return latch_held(l) || latch_replace(l, 0) || latch_wait(l);
}

/* Frees all latches of this thread but the first @keep ones. */
static inline void latches_free(uint32_t keep)
{
	while (latches.n > keep) {
		struct latch *l = latches.at[latches.n--];

		claim_releases(l);
		/* Release: pairs with the acquire in latch_replace(). */
		__atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
	}
}

/*
 * Frees the latches of all owners that are dead or have lost their lanes. The caller must hold the
 * mutex.
 */
void latches_renew(void);

#endif
