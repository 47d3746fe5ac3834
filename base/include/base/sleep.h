/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word in shared memory without lost wake-ups:
 *
 *	sleeper				publisher
 *	sleep_prepare(word)		store what the sleeper waits for
 *	check again; if found:		sleep_fence(), once for a burst
 *		sleep_cancel(word)	if sleep_is_asleep(word) and sleep_take(word) is ASLEEP:
 *	else sleep_enter(word, ns)		futex_wake(word, 1)
 *
 * Each side stores, fences, and then loads what the other side stores, so at least one of them
 * sees the other's store. Without the fences both loads could be executed before the stores, and
 * the sleeper would miss the message. A word has one sleeper. Only the publisher that resets the
 * word from ASLEEP wakes the sleeper, so a burst needs one system call.
 */
#ifndef BASE_SLEEP_H
#define BASE_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/futex.h"

#define SLEEP_RUNNING 0u
#define SLEEP_WAITING 1u /* polls, but has found no work; set by the layers, not by this file */
#define SLEEP_ASLEEP 2u
#define SLEEP_ON_FD 3u /* asleep in poll(2); see base/wakefd.h */

/* Orders all earlier stores before the load in sleep_is_asleep(); see the top of this file. */
static inline void sleep_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Returns true if a sleeper sleeps on the word. The caller must call sleep_fence() before. */
static inline bool sleep_is_asleep(const uint32_t *word)
{
	/* Relaxed: the fence before it pairs with the one in sleep_prepare_as(). */
	return __atomic_load_n(word, __ATOMIC_RELAXED) >= SLEEP_ASLEEP;
}

/*
 * Resets the word and returns its old value. If that is SLEEP_ASLEEP or SLEEP_ON_FD, the caller
 * must wake the sleeper.
 */
static inline uint32_t sleep_take(uint32_t *word)
{
	/* Acquire: pairs with sleep_prepare_as(), so that the sleeper's address is visible. */
	return __atomic_exchange_n(word, SLEEP_RUNNING, __ATOMIC_ACQUIRE);
}

static inline void sleep_prepare_as(uint32_t *word, uint32_t how)
{
	/* Release: pairs with the acquire in sleep_take(). */
	__atomic_store_n(word, how, __ATOMIC_RELEASE);
	/* Orders the store before the second check; pairs with sleep_fence(). */
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

/*
 * Sleeps, after sleep_prepare() and a second check. Returns futex_wait()'s result; resets the word.
 */
static inline int sleep_enter(uint32_t *word, uint64_t timeout_ns)
{
	int err = futex_wait(word, SLEEP_ASLEEP, timeout_ns);

	sleep_cancel(word);
	return err;
}

#endif
