/* SPDX-License-Identifier: MIT */
/*
 * The state with which one side of a region (base/shm.h), the server or a client, waits for its
 * peer. The functions that wait are in base/waitclient.h and base/waitserver.h, which delegrpc and
 * shmipc include.
 */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include <errno.h>

#include "base/clock.h"
#include "base/live.h"
#include "base/shm.h"
#include "base/sleep.h"
#include "base/wait.h"
#include "base/wakefd.h"

/* Puts the layer's name, WAITER_LAYER, before a name: LAYER(server) is shmipc_server in shmipc. */
#define LAYER_JOIN(layer, name) layer##_##name
#define LAYER_NAME(layer, name) LAYER_JOIN(layer, name)
#define LAYER(name) LAYER_NAME(WAITER_LAYER, name)

/*
 * The longest sleep on the futex. After this time at the latest a sleeper checks again, even if its
 * peer has died or has overwritten the sleep word (base/sleep.h).
 */
#define WAITER_SLICE_NS (100 * NSEC_PER_MSEC)

struct waiter {
	struct shm_region region;
	struct wakefd wake;
	struct live_record *live;
	/* Pointers into the region: to this side's sleep word, and to its descriptor's address. */
	uint32_t *word;
	struct wakefd_addr *addr;
	uint64_t sleeps; /* on the futex, and times that client_arm() or server_arm() returned 0 */
	uint64_t wakes; /* times that this side woke a peer */

	/* The other fields are used by clients only. The first two point into the region. */
	uint32_t *server_word;
	struct wakefd_addr *server_addr;
	int err; /* why the connection is over, or 0 */
	bool left; /* the client's place in the region has been freed */
	int wake_err; /* why the sleeping server could not be woken the last time, or 0 */
	uint32_t given_up; /* blocking calls that failed, and whose response is still due */
	/*
	 * Called for responses to other calls during a blocking call. NULL: no other call may be
	 * open.
	 */
	void (*other)(void *arg, uint64_t token, const void *resp, uint32_t len);
	void *other_arg;
	uint64_t looked_ns; /* time of the last check that the server is alive */
	/* When the wait began, or when look_again() last tried to wake the server. */
	uint64_t tried_ns;
	uint64_t idle_ns; /* time of the last reading of the clock between empty polls */
};

/* For base/live.h: the names of the sleep word's values, and the fields of struct waiter. */
#define WAITER_STATES "running waiting asleep armed"
#define WAITER_FIELDS(type, waiter)                                                                \
	{"state", .size = 4, .form = LIVE_WORD, LIVE_VIA(type, waiter.word)},                      \
		{"sleeps", LIVE_AT(type, waiter.sleeps)},                                          \
	{                                                                                          \
		"wakes", LIVE_AT(type, waiter.wakes)                                               \
	}

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

/*
 * Sleeps on the futex at most @ns, and at most WAITER_SLICE_NS. The caller must have called
 * sleep_prepare() and then checked again. Returns 0 or -EINTR.
 */
static inline int waiter_sleep(struct waiter *w, uint64_t ns)
{
	int err = sleep_enter(w->word, ns < WAITER_SLICE_NS ? ns : WAITER_SLICE_NS);

	return err == -EINTR ? err : 0;
}

/* Stores @state, which is SLEEP_RUNNING or SLEEP_WAITING. */
static inline void waiter_say(struct waiter *w, uint32_t state)
{
	/*
	 * Relaxed: pairs with the server's loads of the word. A server yields its core to clients
	 * that wait; a late value only delays or wastes a yield.
	 */
	__atomic_store_n(w->word, state, __ATOMIC_RELAXED);
}

/*
 * Wakes a server that has a descriptor, whatever its sleep word says: another client may have set
 * the word to SLEEP_RUNNING and died before it sent the wake-up.
 * Returns 0, or an error of wakefd_try().
 */
static inline int waiter_wake_anyway(struct waiter *w)
{
	int woken = 0;

	/* Relaxed: pairs with the store in wakefd_publish(). */
	if (__atomic_load_n(&w->server_addr->name, __ATOMIC_RELAXED))
		woken = wakefd_try(&w->wake, w->server_addr);
	return woken < 0 ? woken : 0;
}

/*
 * A client must call this function at the end of connect, after it has stored its network namespace
 * and executed a fence. The fence pairs with the one in server_fd(): either the server sees the
 * namespace, or this client sees the server's address. Returns 0, or -errno if the server has a
 * descriptor that this process cannot wake.
 */
static inline int waiter_check_reach(struct waiter *w)
{
	if (!__atomic_load_n(&w->server_addr->name, __ATOMIC_RELAXED))
		return 0;
	if (!wakefd_reaches(__atomic_load_n(&w->addr->netns, __ATOMIC_RELAXED),
		    __atomic_load_n(&w->server_addr->netns, __ATOMIC_RELAXED)))
		return -ENETUNREACH;
	return waiter_wake_anyway(w);
}

/*
 * Returns true if a client whose connect has failed with err should try again: a server may start,
 * or a place may become free, before the deadline. Sleeps before it returns true. The caller sets
 * *nap_p to 0 before the first call.
 */
static inline bool waiter_again(int err, const struct waiter_deadline *d, uint64_t *nap_p)
{
	const uint64_t longest = 16 * NSEC_PER_MSEC;
	uint64_t left = waiter_left(d);

	if (!left || (err != -ENOENT && err != -ECONNREFUSED && err != -EAGAIN && err != -EUSERS))
		return false;
	*nap_p = !*nap_p ? NSEC_PER_MSEC / 2 : *nap_p < longest ? 2 * *nap_p : longest;
	clock_nap(left < *nap_p ? left : *nap_p);
	return true;
}

/*
 * Client @w takes over the region of client @fresh, which has just connected, and keeps its own
 * descriptor. @fresh must not be used any more.
 */
static inline void waiter_adopt(struct waiter *w, struct waiter *fresh)
{
	wakefd_close(&fresh->wake);
	shm_close(&w->region);
	shm_move(&w->region, &fresh->region);
	w->word = fresh->word;
	w->addr = fresh->addr;
	w->server_word = fresh->server_word;
	w->server_addr = fresh->server_addr;
	w->err = w->wake_err = 0;
	w->left = false;
	w->given_up = 0;
	w->looked_ns = fresh->looked_ns;
	if (w->wake.fd >= 0)
		wakefd_publish(&w->wake, w->addr);
}

/* Returns 0 if @w has no descriptor, or if the server of @fresh can wake it; else -ENETUNREACH. */
static inline int waiter_keeps_fd(const struct waiter *w, const struct waiter *fresh)
{
	if (w->wake.fd < 0 ||
		wakefd_reaches(wakefd_netns(),
			__atomic_load_n(&fresh->server_addr->netns, __ATOMIC_RELAXED)))
		return 0;
	return -ENETUNREACH;
}

#define INTRODUCE_TRIES 200 /* while the server's queue is full, one per millisecond */

/*
 * Sends an introduction (base/wakefd.h) to the server's socket at @addr. If addr->name is 0, the
 * server wants no introductions, and nothing is done. A client must call this function after it has
 * locked its byte and before the server can see that the client has come. notify(arg) makes a
 * server whose queue is full read introductions. If all tries fail, the server does not get the ids
 * of this process.
 */
static inline void waiter_introduce(const struct waiter *w, const struct wakefd_addr *addr,
	uint32_t index, void (*notify)(void *arg), void *arg)
{
	if (!__atomic_load_n(&addr->name, __ATOMIC_RELAXED))
		return;
	for (int i = 0; i < INTRODUCE_TRIES; i++) {
		if (wakefd_introduce(addr, index, w->region.fd) != -EAGAIN)
			return;
		notify(arg);
		clock_nap(NSEC_PER_MSEC);
	}
}

#endif
