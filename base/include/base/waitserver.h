/* SPDX-License-Identifier: MIT */
/*
 * Implements the functions with which a server of delegrpc or shmipc waits. The layer's source file
 * that implements the server includes this file.
 *
 * Before it includes this file, the layer defines WAITER_LAYER, which is its name, and
 *
 *	server_of(server)	the struct server of a LAYER(server) (base/waiter.h)
 *	struct server		with a struct waiter w, and hot, which has the field max_clients
 *	CLIENT_BYTE(i)		the byte of the region's file that client i locks
 *	server_poll(s)		returns a positive number if there are requests or events, 0 if
 *				there are none, or -errno
 *	server_flush(s)		publishes replies and wakes clients
 *	server_rest(s)		called before the poll that precedes a sleep; returns true if the
 *				server must poll again instead of sleeping
 *	server_owes(s)		true if the server must poll after WAITER_SLICE_NS even if no client
 *				wakes it: a client may have died, or could not be woken
 *	announce_end(s)		stores in the region that the server has ended, and wakes the
 *				clients that sleep
 *	server_free(s)		frees the server's memory in this process
 *	server_client(s, i)	returns the struct wakefd_addr of client i, or NULL if there is no
 *				such client; tests that with an acquire load, so that addr->netns is
 *				visible
 */
#ifndef BASE_WAITSERVER_H
#define BASE_WAITSERVER_H

#include "base/members.h"
#include "base/probe.h"
#include "base/waiter.h"

static void announce_end(struct server *s);
static void server_free(struct server *s);

/*
 * Wakes a client if it sleeps. Returns wakefd_wake()'s result. The caller must call sleep_fence()
 * before; that fence pairs with the fence in sleep_prepare_as().
 */
static int server_wake(struct server *s, uint32_t client, uint32_t *word,
	const struct wakefd_addr *addr)
{
	int woken = wakefd_wake(&s->w.wake, word, addr);

	if (unlikely(woken > 0)) {
		s->w.wakes++;
		PROBE(WAITER_LAYER, server_wake, &s->hot, client);
	}
	return woken;
}

/* ---- waiting ---- */

/*
 * Returns the result of server_poll() if that is not 0, -EINTR if a signal has interrupted the
 * sleep, and otherwise 0: the caller must poll.
 */
static int server_sleep(struct server *s, uint64_t ns)
{
	int n;

	if (server_rest(s))
		return 0;
	sleep_prepare(s->w.word);
	n = server_poll(s);
	if (n) {
		sleep_cancel(s->w.word);
		return n;
	}
	s->w.sleeps++;
	PROBE(WAITER_LAYER, server_sleep, &s->hot, ns);
	n = waiter_sleep(&s->w, ns);
	PROBE(WAITER_LAYER, server_awake, &s->hot, n);
	return n;
}

/* Waits by yielding the core, then sleeping. Returns the result of the last server_poll(). */
static int server_wait_long(struct server *s, struct wait *step, uint64_t timeout_ns)
{
	struct waiter_deadline d = waiter_deadline(timeout_ns);
	uint64_t left = timeout_ns;
	bool interrupted;
	int n;

	do {
		n = 0;
		if (wait_step(step)) {
			live_wait(s->w.live, d.start);
			n = server_sleep(s, left);
		}
		interrupted = n == -EINTR; /* return to the caller, which handles the signal */
		if (!n || interrupted)
			n = server_poll(s);
		left = waiter_left(&d);
	} while (!n && left && !interrupted);
	live_wake(s->w.live);
	return n;
}

/*
 * Returns 1 if there are requests or events, 0 if the time has passed or a signal came, or -errno.
 */
int LAYER(server_wait)(struct LAYER(server) * server, uint64_t timeout_ns)
{
	struct server *s = server_of(server);
	struct wait step = WAIT_INIT;
	int n = server_poll(s);

	while (!n && timeout_ns && step.empty < WAIT_SPINS) {
		wait_step(&step);
		n = server_poll(s);
	}
	if (!n) {
		server_flush(s);
		n = timeout_ns ? server_wait_long(s, &step, timeout_ns) : 0;
	}
	return n > 0 ? 1 : n;
}

/* ---- waiting on a descriptor ---- */

/*
 * Returns true if every connected client that lives can wake this server, and this thread is in the
 * network namespace in which the server was created.
 */
static bool all_reach(const struct server *s)
{
	uint64_t netns = wakefd_netns();

	for (uint32_t i = 0; i < s->hot.max_clients; i++) {
		const struct wakefd_addr *addr = server_client(s, i);

		/*
		 * Relaxed: server_client() has loaded with acquire. A dead client need not be able
		 * to wake the server.
		 */
		if (addr &&
			!wakefd_reaches(netns, __atomic_load_n(&addr->netns, __ATOMIC_RELAXED)) &&
			shm_locked(&s->w.region, CLIENT_BYTE(i)) != 0)
			return false;
	}
	return wakefd_reaches(netns, s->w.addr->netns);
}

int LAYER(server_fd)(struct LAYER(server) * server)
{
	struct server *s = server_of(server);
	int err;

	if (s->w.wake.fd >= 0)
		return s->w.wake.fd;
	if (s->w.region.fd < 0) /* a forked child */
		return -EBADF;
	err = wakefd_open(&s->w.wake, s->w.addr);
	if (err)
		return err;
	/* Pairs with the fence before waiter_check_reach(). */
	sleep_fence();
	if (all_reach(s))
		return s->w.wake.fd;
	__atomic_store_n(&s->w.addr->name, 0, __ATOMIC_RELAXED);
	wakefd_close_waiting(&s->w.wake); /* the socket of wakefd_door() stays open */
	return -ENETUNREACH;
}

int LAYER(server_arm)(struct LAYER(server) * server)
{
	struct server *s = server_of(server);

	if (s->w.wake.fd < 0)
		return -EBADF;
	server_flush(s);
	if (server_rest(s))
		return 1;
	wakefd_prepare(&s->w.wake, s->w.word);
	if (server_poll(s)) {
		sleep_cancel(s->w.word);
		return 1;
	}
	wakefd_timer(&s->w.wake, server_owes(s) ? WAITER_SLICE_NS : 0);
	s->w.sleeps++;
	PROBE(WAITER_LAYER, server_arm, &s->hot);
	return 0;
}

/* ---- the end ---- */

int LAYER(server_unlink)(struct LAYER(server) * server)
{
	return shm_remove_name(&server_of(server)->w.region);
}

void LAYER(server_destroy)(struct LAYER(server) * server)
{
	struct server *s;

	if (!server)
		return;
	s = server_of(server);
	if (s->w.region.fd >= 0) /* it is -1 in a forked child; the parent continues to serve */
		announce_end(s);
	live_remove(s->w.live);
	wakefd_close(&s->w.wake);
	shm_close(&s->w.region);
	server_free(s);
}

#endif
