/* SPDX-License-Identifier: MIT */
/*
 * The functions with which a client of delegrpc or shmipc waits. The layer's source file that
 * implements the client includes this file.
 *
 * A client polls without system calls, except in two cases:
 *	- Every IDLE_POLLS empty polls (base/idle.h), client_idle() executes the slow path. It
 *	  checks that the server is alive, and returns an error if the server could not be woken.
 *	  After TELL slow paths it sets the client's sleep word to SLEEP_WAITING.
 *	- A wake test, client_wake(), executes a fence, and wakes the server if the server sleeps. A
 *	  wake test is due after the client has published something.
 * A wait function spins, yields and then sleeps on a futex (see base/wait.h). After client_arm()
 * the program itself sleeps, in poll(2) on the client's descriptor.
 *
 * Before it includes this file, the layer defines WAITER_LAYER, which is its name, and
 *
 *	client_of(client)	the struct client of a LAYER(client)
 *	struct client		with a struct waiter w, and hot, which has the fields idle_left
 *				(empty polls until the slow path), idle (slow paths since this wait
 *				began, at most TELL; a sleep sets it to TELL) and unfenced (not 0: a
 *				wake test is due)
 *	CLIENT_ALIVE_NS		time between two checks that the server is alive
 *	client_ready(c)		true if a response has arrived
 *	client_room(c)		true if the client waits for room for a call or post, and there is
 *				room
 *	client_pending(c)	true if the client waits for a response, a push or room
 *	client_publish(c)	publishes calls; returns true if some are left because the ring is
 *				full
 *	client_closed(c)	called when the connection ends, and again by each later slow path
 *	client_call(c, ...)	makes a call and returns its id, or -errno
 *	client_poll(c, ...)	polls
 *	client_is_open(c, id)	true if the response to this call has not come
 *	client_give_up(c, id)	makes client_poll() drop the response to this call and decrement
 *				w.given_up
 *	server_ended(c)		true if the region says that the server has ended (with acquire, so
 *				that the server's last responses are visible)
 *	server_died(c)		called when the server is found dead
 */
#ifndef BASE_WAITCLIENT_H
#define BASE_WAITCLIENT_H

#include "base/idle.h"
#include "base/probe.h"
#include "base/waiter.h"

#define TELL 3 /* slow paths of a wait before the client writes SLEEP_WAITING: about 1 us */
#define VAIN 8 /* empty polls of a wait before its wake test */
#define ROOM_NS NSEC_PER_MSEC /* longest sleep with unpublished calls: room wakes no client */

/* ---- waking the server ---- */

COLD static void wake_sleeping(struct client *c)
{
	int woken = wakefd_wake_cold(&c->w.wake, c->w.server_word, c->w.server_addr);

	if (woken > 0) {
		c->w.wakes++;
		PROBE(WAITER_LAYER, client_wake, &c->hot);
	}
	if (woken < 0) {
		c->w.wake_err = woken;
		c->hot.unfenced = 1; /* try again next time */
		c->hot.idle_left = 1; /* the next empty poll returns wake_err */
	}
}

/*
 * Wakes the server if it sleeps. One fence serves all publications since the previous wake test.
 * Returns 0 or -errno.
 */
static int client_wake(struct client *c)
{
	c->hot.unfenced = 0;
	c->w.wake_err = 0;
	/* Pairs with the fence in sleep_prepare_as(), which server_sleep() and server_arm() use. */
	sleep_fence();
	if (unlikely(sleep_is_asleep(c->w.server_word)))
		wake_sleeping(c);
	return c->w.wake_err;
}

/* ---- the slow path of an empty poll ---- */

/*
 * Wakes a server that sleeps on its descriptor although another client has reset its sleep word.
 * That client failed to send the wake-up, or died before it sent one. Does nothing until this
 * client has waited for 100 ms, and acts about every 100 ms from then on.
 *
 * A client that failed to send has restored SLEEP_ON_FD, so a wake test is enough. A client that
 * died has left SLEEP_RUNNING. So if the word is not SLEEP_ON_FD, this function sends a wake-up
 * whatever the word says. A server that is awake ignores the wake-up.
 */
static void look_again(struct client *c, uint64_t now)
{
	if (now - c->w.tried_ns < WAITER_SLICE_NS || !client_pending(c))
		return;
	c->w.tried_ns = now;
	/* Relaxed: pairs with the store in sleep_prepare_as(). An old value does no harm. */
	if (__atomic_load_n(c->w.server_word, __ATOMIC_RELAXED) != SLEEP_ON_FD)
		waiter_wake_anyway(&c->w); /* ignore errors: the server may be awake */
	else if (!c->hot.unfenced)
		c->hot.unfenced = 1;
}

/*
 * Stores the time of a wait's first slow path, at which the wait begins. Must be called before
 * hot.idle is increased.
 */
static void wait_begin(struct client *c, uint64_t now)
{
	if (!c->hot.idle)
		c->w.tried_ns = now;
}

/* Returns true if the server has ended. If it was killed, only its lock shows that. */
static bool server_has_gone(struct client *c, uint64_t now)
{
	if (server_ended(c))
		return true;
	if (now - c->w.looked_ns < CLIENT_ALIVE_NS)
		return false;
	c->w.looked_ns = now;
	look_again(c, now);
	if (shm_locked(&c->w.region, SHM_SERVER) != 0)
		return false;
	server_died(c);
	return true;
}

/* Ends the connection: from now on every empty poll executes the slow path, and returns err. */
static int client_end(struct client *c, int err)
{
	c->w.err = err;
	c->hot.idle_left = 0;
	client_closed(c);
	return err;
}

/*
 * Everything that the server published is visible once its lock is found to be free. So the ring is
 * read after the check, and an error is returned only if the ring is empty.
 */
COLD static int client_idle(struct client *c)
{
	uint64_t now;
	bool gone;

	if (c->w.err)
		return client_end(c, c->w.err);
	now = clock_ns();
	c->hot.idle_left = idle_polls(&c->w.idle_ns, now);
	wait_begin(c, now);
	if (c->hot.idle < TELL && client_pending(c) && ++c->hot.idle == TELL)
		waiter_say(&c->w, SLEEP_WAITING);
	gone = server_has_gone(c, now);
	if (client_ready(c))
		return 0;
	return gone ? client_end(c, -EPIPE) : c->w.wake_err;
}

COLD int LAYER(priv_client_idle)(struct LAYER(client) * client)
{
	return client_idle(client_of(client));
}

/*
 * Must be called if a wait that had a slow path has ended: a poll has found a response, or the
 * client has found that its posts were consumed.
 */
COLD void LAYER(priv_client_resume)(struct LAYER(client) * client)
{
	struct client *c = client_of(client);

	if (c->hot.idle == TELL)
		waiter_say(&c->w, SLEEP_RUNNING);
	c->hot.idle = 0;
}

/* ---- waiting ---- */

/*
 * Returns 1 if there is a response, or the room that the client waits for; 0 if not yet; or -errno.
 */
static int client_look(struct client *c, bool slept)
{
	if (client_ready(c) || client_room(c))
		return 1;
	if (slept)
		c->hot.idle_left = 1;
	if (--c->hot.idle_left > 0)
		return 0;
	return client_idle(c);
}

static int client_sleep(struct client *c, uint64_t ns)
{
	int r;

	c->hot.idle = TELL; /* so that client_idle() does not write the word */
	sleep_prepare(c->w.word);
	r = client_look(c, true);
	if (!r) {
		c->w.sleeps++;
		PROBE(WAITER_LAYER, client_sleep, &c->hot, ns);
		r = waiter_sleep(&c->w, ns);
		PROBE(WAITER_LAYER, client_awake, &c->hot, r);
	}
	waiter_say(&c->w, SLEEP_WAITING); /* until a poll has found a response */
	return r;
}

/* Waits by yielding the core, then sleeping. */
static int client_wait_long(struct client *c, struct wait *step, uint64_t timeout_ns)
{
	struct waiter_deadline d = waiter_deadline(timeout_ns);
	uint64_t left = timeout_ns;
	bool interrupted;
	int r;

	do {
		if (client_publish(c) && left > ROOM_NS)
			left = ROOM_NS;
		if (unlikely(c->hot.unfenced))
			client_wake(c);
		r = 0;
		if (wait_step(step)) {
			live_wait(c->w.live, d.start);
			r = client_sleep(c, left);
		}
		interrupted = r == -EINTR; /* return to the caller, which handles the signal */
		if (!r || interrupted)
			r = client_look(c, false);
		left = waiter_left(&d);
	} while (!r && left && !interrupted);
	live_wake(c->w.live);
	return r;
}

static int client_wait(struct client *c, uint64_t timeout_ns)
{
	struct wait step = WAIT_INIT;
	int r;

	client_publish(c);
	while (client_pending(c) && step.empty < WAIT_SPINS) {
		r = client_look(c, false);
		if (r)
			return r;
		if (!timeout_ns)
			break;
		if (step.empty == VAIN && c->hot.unfenced)
			client_wake(c);
		wait_step(&step);
	}
	if (c->hot.unfenced)
		client_wake(c);
	if (!timeout_ns || !client_pending(c))
		return c->w.wake_err;
	return client_wait_long(c, &step, timeout_ns);
}

/* ---- waiting on a descriptor ---- */

int LAYER(client_fd)(struct LAYER(client) * client)
{
	struct client *c = client_of(client);
	int err;

	if (c->w.wake.fd >= 0)
		return c->w.wake.fd;
	if (c->w.region.fd < 0) /* in a forked child, or after a reconnect that failed */
		return -EBADF;
	if (!wakefd_reaches(wakefd_netns(),
		    __atomic_load_n(&c->w.server_addr->netns, __ATOMIC_RELAXED)))
		return -ENETUNREACH;
	err = wakefd_open(&c->w.wake, c->w.addr);
	return err ? err : c->w.wake.fd;
}

static int client_arm(struct client *c)
{
	bool full;

	if (c->w.wake.fd < 0)
		return -EBADF;
	full = client_publish(c);
	if (c->hot.unfenced)
		client_wake(c);
	if (c->w.wake_err) /* do not sleep while the server cannot be woken */
		return c->w.wake_err;
	wait_begin(c, clock_ns());
	c->hot.idle = TELL; /* as in client_sleep() */
	wakefd_prepare(&c->w.wake, c->w.word);
	if (client_look(c, true)) {
		waiter_say(&c->w, SLEEP_WAITING);
		return 1;
	}
	c->hot.idle_left = 1; /* the next empty poll executes the slow path */
	wakefd_timer(&c->w.wake, !client_pending(c) ? 0 : full ? ROOM_NS : WAITER_SLICE_NS);
	c->w.sleeps++;
	PROBE(WAITER_LAYER, client_arm, &c->hot);
	return 0;
}

/* ---- the blocking call ---- */

struct answer {
	struct client *c;
	void *resp;
	uint32_t id, capacity, len;
	bool done; /* the response has arrived, or the call has not been made yet */
};

void LAYER(client_others)(struct LAYER(client) * client, LAYER(response_fn) * fn, void *arg)
{
	client_of(client)->w.other = fn;
	client_of(client)->w.other_arg = arg;
}

static void answer_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct answer *a = arg;

	if (a->done || client_is_open(a->c, a->id)) {
		a->c->w.other(a->c->w.other_arg, token, resp, len);
		return;
	}
	cellring_copy(a->resp, resp, len < a->capacity ? len : a->capacity);
	a->len = len;
	a->done = true;
}

static int answer_wait(struct client *c, struct answer *a, uint64_t timeout_ns)
{
	struct waiter_deadline d = waiter_deadline(timeout_ns);
	int r;

	for (;;) {
		r = client_poll(c, answer_take, a);
		if (a->done)
			return 0;
		if (r < 0)
			return r;
		r = client_wait(c, waiter_left(&d));
		if (r < 0)
			return r;
		if (r != 1 && !waiter_left(&d))
			return -ETIMEDOUT;
	}
}

static int client_call_wait(struct client *c, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p)
{
	struct answer a = {.c = c, .resp = resp, .capacity = capacity, .done = true};
	int id, err;

	if (c->w.given_up) { /* frees the ids of late responses */
		err = client_poll(c, answer_take, &a);
		if (err < 0 && err != c->w.wake_err)
			return err;
	}
	id = client_call(c, req, len);
	if (id < 0)
		return id;
	a.id = (uint32_t)id;
	a.done = false;
	err = answer_wait(c, &a, timeout_ns);
	if (err) {
		client_give_up(c, a.id);
		c->w.given_up++;
	} else if (len_p) {
		*len_p = a.len;
	}
	return err;
}

#endif
