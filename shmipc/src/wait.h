/* SPDX-License-Identifier: MIT */
/* How long both sides wait. base/sleep.h has the handshake. */
#ifndef SHMIPC_WAIT_H
#define SHMIPC_WAIT_H

#include "base/clock.h"
#include "base/sleep.h"
#include "base/wait.h"
#include "layout.h"

/* The longest sleep. It limits the delay if a peer dies or overwrites the word. */
#define SHMIPC_SLEEP_NS (100 * NSEC_PER_MSEC)

struct shmipc_deadline {
	uint64_t start, timeout;
};

static inline struct shmipc_deadline shmipc_deadline(uint64_t timeout_ns)
{
	return (struct shmipc_deadline){clock_ns(), timeout_ns};
}

static inline uint64_t shmipc_deadline_left(const struct shmipc_deadline *d)
{
	uint64_t spent = clock_ns() - d->start;

	return spent < d->timeout ? d->timeout - spent : 0;
}

/* Sleeps. Called after sleep_prepare() and a second look. 0, or -EINTR. */
static inline int shmipc_sleep(uint32_t *word, uint64_t left_ns)
{
	int err = sleep_enter(word, left_ns < SHMIPC_SLEEP_NS ? left_ns : SHMIPC_SLEEP_NS);

	return err == -EINTR ? err : 0;
}

/* Sets a side's own word. The functions of base/sleep.h set the states of a sleep. */
static inline void shmipc_state_set(uint32_t *word, uint32_t state)
{
	/* Relaxed: a hint; pairs with the loads in the two flushes. */
	__atomic_store_n(word, state, __ATOMIC_RELAXED);
}

#endif
