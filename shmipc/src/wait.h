/* SPDX-License-Identifier: MIT */
/* How both sides sleep, and wake each other. */
#ifndef SHMIPC_WAIT_H
#define SHMIPC_WAIT_H

#include "base/clock.h"
#include "base/futex.h"
#include "base/wait.h"
#include "layout.h"

/* No sleep is longer, so a peer that dies or that spoils the word costs no more. */
#define SHMIPC_SLEEP_NS (100 * NSEC_PER_MSEC)

struct shmipc_deadline {
	uint64_t start, timeout;
};

static inline struct shmipc_deadline shmipc_deadline(uint64_t timeout_ns)
{
	return (struct shmipc_deadline){ clock_ns(), timeout_ns };
}

static inline uint64_t shmipc_deadline_left(const struct shmipc_deadline *d)
{
	uint64_t spent = clock_ns() - d->start;

	return spent < d->timeout ? d->timeout - spent : 0;
}

/* The owner of the word; whoever reads it has fenced, or only takes it for a hint. */
static inline void shmipc_state_set(uint32_t *state, enum shmipc_state value)
{
	/* Relaxed: pairs with the loads in the two flushes, ordered by the fences. */
	__atomic_store_n(state, (uint32_t)value, __ATOMIC_RELAXED);
}

/*
 * Between announcing and this the caller has looked once more and found nothing. A word
 * that was changed meanwhile ends it at once. 0 or -EINTR.
 */
static inline int shmipc_sleep(const uint32_t *state, uint64_t left_ns)
{
	int err = futex_wait(state, SHMIPC_ASLEEP,
		left_ns < SHMIPC_SLEEP_NS ? left_ns : SHMIPC_SLEEP_NS);

	return err == -EINTR ? err : 0;
}

/* "I am about to sleep": what is published after this fence is published by who sees it. */
static inline void shmipc_sleep_announce(uint32_t *state)
{
	shmipc_state_set(state, SHMIPC_ASLEEP);
	/* Pairs with the fence in shmipc_client_flush() or shmipc_server_flush(). */
	shmipc_fence();
}

/* Wakes the owner of the word if it sleeps; true when it did. */
static inline bool shmipc_wake(uint32_t *state)
{
	uint32_t asleep = SHMIPC_ASLEEP;

	/* Changing the word keeps one who is only about to sleep from it. */
	if (!__atomic_compare_exchange_n(state, &asleep, SHMIPC_AWAKE, false, __ATOMIC_RELAXED,
		    __ATOMIC_RELAXED))
		return false;
	futex_wake(state, 1);
	return true;
}

#endif
