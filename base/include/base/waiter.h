/* SPDX-License-Identifier: MIT */
/*
 * The state of one side of a region, server or client, while it waits for its peer. The functions
 * are in base/waitclient.h and base/waitserver.h, which delegrpc and shmipc share.
 */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include <errno.h>

#include "base/clock.h"
#include "base/shm.h"
#include "base/sleep.h"
#include "base/wait.h"
#include "base/wakefd.h"

/* The longest sleep. It limits the delay if a peer dies or overwrites the word. */
#define WAITER_SLICE_NS (100 * NSEC_PER_MSEC)

struct waiter {
	struct shm_region region;
	struct wakefd wake;
	/* In the region: this side's sleep word, and the address of its descriptor. */
	uint32_t *word;
	struct wakefd_addr *addr;
	uint64_t sleeps; /* including the times that it was armed */
	uint64_t wakes; /* times that this side woke its peer */

	/* The rest is used by clients only. The first two are in the region. */
	uint32_t *server_word;
	struct wakefd_addr *server_addr;
	int err; /* why the connection is over, or 0 */
	int wake_err; /* why the sleeping server could not be woken the last time, or 0 */
	uint32_t given_up; /* calls that timed out, and whose response is to be dropped */
	uint64_t looked_ns; /* time of the last check that the server is alive */
	uint64_t tried_ns; /* time of the last check for a server that sleeps on a descriptor */
	uint64_t idle_ns; /* time of the last reading of the clock between empty polls */
};

struct waiter_deadline {
	uint64_t start, timeout;
};

static inline struct waiter_deadline waiter_deadline(uint64_t timeout_ns)
{
	return (struct waiter_deadline){clock_ns(), timeout_ns};
}

static inline uint64_t waiter_left(const struct waiter_deadline *d)
{
	uint64_t spent = clock_ns() - d->start;

	return spent < d->timeout ? d->timeout - spent : 0;
}

/* Sleeps at most @ns or WAITER_SLICE_NS, after sleep_prepare() and a second check. 0 or -EINTR. */
static inline int waiter_sleep(struct waiter *w, uint64_t ns)
{
	int err = sleep_enter(w->word, ns < WAITER_SLICE_NS ? ns : WAITER_SLICE_NS);

	return err == -EINTR ? err : 0;
}

/* Publishes whether this side waits. The functions of base/sleep.h set the states of a sleep. */
static inline void waiter_say(struct waiter *w, uint32_t state)
{
	/* Relaxed: a hint for the server's yields; pairs with the server's loads of the word. */
	__atomic_store_n(w->word, state, __ATOMIC_RELAXED);
}

/*
 * A client must call it at the end of connect, after it has stored its network namespace and
 * fenced. The fence pairs with the one in server_fd(): either the server sees the namespace, or
 * this client sees the server's address. Returns 0, or -errno if the server sleeps on a descriptor
 * that this process cannot wake.
 */
static inline int waiter_check_reach(struct waiter *w)
{
	int woken;

	if (!__atomic_load_n(&w->server_addr->name, __ATOMIC_RELAXED))
		return 0;
	if (!wakefd_reaches(__atomic_load_n(&w->addr->netns, __ATOMIC_RELAXED),
		    __atomic_load_n(&w->server_addr->netns, __ATOMIC_RELAXED)))
		return -ENETUNREACH;
	woken = wakefd_try(&w->wake, w->server_addr);
	return woken < 0 ? woken : 0;
}

#endif
