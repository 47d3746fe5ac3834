/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on one word in shared memory, and being woken, without a lost wake-up:
 *
 *	sleeper				publisher
 *	sleep_prepare(word)		store what the sleeper looks for
 *	look again; if there:		sleep_fence(), once for a burst
 *		sleep_cancel(word)	sleep_wake(word)
 *	else sleep_enter(word, ns)
 *
 * Each side stores, fences, then loads what the other side stores; so at least one sees
 * the other. Without either fence both loads may pass the stores, and the sleeper sleeps
 * on what is there. The one sleeper stores ASLEEP, and whoever takes that away owes the
 * wake, so that a burst makes one system call however late the sleeper runs.
 */
#ifndef BASE_SLEEP_H
#define BASE_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/futex.h"

#define SLEEP_RUNNING 0u
#define SLEEP_WAITING 1u /* awake, with nothing to do; not used here, left to the layer */
#define SLEEP_ASLEEP 2u
#define SLEEP_ON_FD 3u /* asleep in poll(2); see base/wakefd.h */

/* Orders what was stored before against the load in sleep_wake(); see above. */
static inline void sleep_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* After a fence. */
static inline bool sleep_is_asleep(const uint32_t *word)
{
	/* Relaxed: the fence before it pairs with the one in sleep_prepare_as(). */
	return __atomic_load_n(word, __ATOMIC_RELAXED) >= SLEEP_ASLEEP;
}

/* Takes a sleeper's word away: how it slept. Whoever gets that owes the wake. */
static inline uint32_t sleep_take(uint32_t *word)
{
	/* Acquire: pairs with the release in sleep_prepare_as(): where to wake it is written. */
	return __atomic_exchange_n(word, SLEEP_RUNNING, __ATOMIC_ACQUIRE);
}

/* After a fence. True if somebody was asleep on the word. */
static inline bool sleep_wake(uint32_t *word)
{
	if (!sleep_is_asleep(word) || sleep_take(word) != SLEEP_ASLEEP)
		return false;
	futex_wake(word, 1);
	return true;
}

static inline void sleep_prepare_as(uint32_t *word, uint32_t how)
{
	/* Release: pairs with the acquire in sleep_take(). */
	__atomic_store_n(word, how, __ATOMIC_RELEASE);
	/* Orders the store against the second look; pairs with sleep_fence(). */
	sleep_fence();
}

static inline void sleep_prepare(uint32_t *word)
{
	sleep_prepare_as(word, SLEEP_ASLEEP);
}

static inline void sleep_cancel(uint32_t *word)
{
	__atomic_store_n(word, SLEEP_RUNNING, __ATOMIC_RELAXED);
}

/* After sleep_prepare() and a second look. Like futex_wait(); the word is reset. */
static inline int sleep_enter(uint32_t *word, uint64_t timeout_ns)
{
	int err = futex_wait(word, SLEEP_ASLEEP, timeout_ns);

	sleep_cancel(word);
	return err;
}

#endif
