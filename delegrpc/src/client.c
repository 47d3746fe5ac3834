/* SPDX-License-Identifier: MIT */
/* The client's side of delegrpc, without the hot path: publishing and waiting. */
#include <assert.h>
#include <errno.h>

#include "base/probe.h"
#include "client.h"

#define CLIENT_ALIVE_NS (100 * NSEC_PER_MSEC) /* between two checks of the server's lock */

uint32_t delegrpc_client_index(const struct delegrpc_client *client)
{
	return container_of(client, struct client, hot)->id;
}

void delegrpc_client_get_stats(const struct delegrpc_client *client,
	struct delegrpc_client_stats *stats_p, size_t size)
{
	const struct client *c = container_of(client, struct client, hot);
	const struct delegrpc_client_stats stats = {
		.calls = client->sent + client->staged - client->staged_posts + c->dropped,
		.responses = client->done - c->late - c->bad,
		.late_responses = c->late,
		.bad_responses = c->bad,
		.flushes = c->flushes,
		.full = c->full,
		.sleeps = c->w.sleeps,
		.wakes = c->w.wakes,
		.posts = c->posted + client->staged_posts,
	};

	sized_out(stats_p, size, &stats, sizeof(stats));
}

/* ---- publication ---- */

/*
 * Returns true if a batch may be reserved. Two conditions must hold:
 *	- The requests of our predecessors, the former clients of this id, have been given back.
 *	- There is room: at most ring_depth positions may be in use. If the calls of all clients fit
 *	  into the ring, there is always room. Otherwise at most `limit` positions may be in use
 *	  before a reservation. `limit` leaves room for one batch of each client, because all
 *	  clients may check at the same time and then reserve.
 */
static bool has_room(struct client *c)
{
	uint64_t head;

	if (!c->admitted) {
		/* Acquire: pairs with delegrpc_server_advance_tail(). The slots have been read. */
		c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
		if ((int64_t)(c->tail - c->start) < 0)
			return false;
		c->admitted = true;
		/* Relaxed: a successor loads it only after the kernel has freed our lock. */
		__atomic_store_n(&c->hot.line->published, c->hot.generation, __ATOMIC_RELAXED);
		c->watch = !ring_holds_all(&c->layout.attr);
		if (!c->watch)
			return true;
	}
	/*
	 * Relaxed, but after the load of tail. By coherence the value includes our last
	 * reservation.
	 */
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	if (head - c->tail <= c->limit)
		return true;
	c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	return head - c->tail <= c->limit;
}

static unsigned char *request_slot(const struct client *c, uint64_t pos)
{
	return c->requests + (pos & (c->layout.attr.ring_depth - 1)) * (size_t)c->hot.req_stride;
}

/*
 * Prefetches the slots after our last batch. The next batch gets them unless another client has
 * reserved some of them.
 */
static inline void prefetch_slots(const struct client *c, uint32_t n)
{
	const unsigned char *slot = NULL;

	for (uint32_t i = 0; i < n; i++) {
		slot = request_slot(c, c->last + i);
		cellring_own(slot, 1);
	}
	/* The last slot may end in another line; the other slots end where the next one begins. */
	cellring_own(slot + c->hot.req_stride - 1, 1);
}

/*
 * Copies a record except its first word into its slot, word by word. This may copy more than the
 * payload, but not more than the slot, which is ours.
 */
static inline void fill_slot(uint64_t *slot, const uint64_t *rec)
{
	uint32_t len = (uint32_t)(rec[0] >> DELEGRPC_REQ_LEN_SHIFT);

	__atomic_store_n(&slot[1], rec[1], __ATOMIC_RELAXED);
	for (uint32_t at = 2; at < 2 + (len + 7) / 8; at += 2) {
		__atomic_store_n(&slot[at], rec[at], __ATOMIC_RELAXED);
		__atomic_store_n(&slot[at + 1], rec[at + 1], __ATOMIC_RELAXED);
	}
}

/*
 * The laps are stored last, so that the server, which polls the first of them, does not take
 * away cache lines that are half written. They are stored in order, so that the server gets the
 * beginning of the batch if the client dies here.
 */
static void fill_batch(struct client *c, uint64_t pos, uint32_t n)
{
	uint64_t head = (uint64_t)(cellring_limit(c->hot.pending) - 1) << DELEGRPC_REQ_BURST_SHIFT |
			(uint64_t)c->id << DELEGRPC_REQ_CLIENT_SHIFT;
	/* Local copies, because the compiler must assume that the stores may change the fields. */
	uint64_t mask = c->layout.attr.ring_depth - 1, shift = c->ring_shift;
	size_t stride = c->hot.req_stride;
	unsigned char *requests = c->requests, *rec = c->hot.stage;

	for (uint64_t at = pos; at != pos + n; at++, rec += stride)
		fill_slot((void *)(requests + (at & mask) * stride), (void *)rec);
	rec = c->hot.stage;
	for (uint64_t at = pos; at != pos + n; at++, rec += stride) {
		uint64_t *slot = (void *)(requests + (at & mask) * stride);
		uint64_t len = *(uint64_t *)(void *)rec;

		/* Release, after the rest: pairs with the acquire in delegrpc_priv_filled(). */
		__atomic_store_n(slot, len | head | (uint32_t)((at >> shift) + 1),
			__ATOMIC_RELEASE);
	}
}

/*
 * Publishes all staged calls and posts. Returns 0, -EAGAIN or -EPIPE.
 *
 * If this client dies in this function, its claim tells the server which positions may not have
 * been filled. The claim is stored with release: a reader that sees a later claim sees everything
 * that was filled under the earlier one.
 */
int delegrpc_priv_publish(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	uint32_t n = client->staged, calls = n - client->staged_posts;
	uint64_t pos;

	if (unlikely(!delegrpc_priv_alive(client->header)))
		return -EPIPE;
	/* Possible in a response function: its response is in a slot, and not in `done` yet. */
	if (unlikely(client->sent + calls - client->done > client->resp_depth))
		return -EAGAIN;
	if (unlikely(c->watch) && !has_room(c)) {
		c->full++;
		return -EAGAIN;
	}
	prefetch_slots(c, n);
	/* The fence of a wake test takes little time here: the addition to head would wait for the
	 * same stores. */
	if (unlikely(client->unfenced >= DELEGRPC_UNFENCED))
		delegrpc_priv_client_wake_test(client);
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_INTENT, __ATOMIC_RELEASE);
	/*
	 * Release: if skip_holes() sees the reservation, it sees the intent.
	 * Acquire: the server has read the former contents of the slots. Clients with earlier
	 * reservations have acquired the server's reads by responses (delegrpc_client_poll()) or by
	 * tail (has_room(), oldest_is_consumed()), and have released them by their additions to
	 * head.
	 */
	pos = __atomic_fetch_add(&c->control->head, n, __ATOMIC_ACQ_REL);
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_AT(pos, n), __ATOMIC_RELEASE);
	fill_batch(c, pos, n);
	c->last = pos + n;
	client->sent += calls;
	if (client->staged_posts)
		posts_sent(c, pos);
	PROBE(delegrpc, client_publish, client, client->staged);
	client->staged = 0;
	c->flushes++;
	client->unfenced++;
	return 0;
}

/* ---- rare cases of the hot path ---- */

/* Handles a response that belongs to no open call. */
void delegrpc_priv_client_odd(struct delegrpc_client *client, uint32_t id)
{
	struct client *c = client_of(client);

	if (id >= client->resp_depth || client->calls[id].next != DELEGRPC_ID_LATE) {
		c->bad++;
		return;
	}
	client->calls[id].next = client->free_id;
	client->free_id = id;
	c->late++;
	c->w.given_up--;
}

/* ---- posts ---- */

static void take_back(struct client *c)
{
	if (c->hot.posts && posts_take_back(c) && c->hot.idle)
		delegrpc_priv_client_resume(&c->hot);
}

/*
 * Must be called if no id is free or the stage is full. Returns 0, or an error of
 * delegrpc_client_call().
 */
COLD int delegrpc_priv_make_room(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	int err = 0;

	if (client->free_id == DELEGRPC_ID_NONE)
		take_back(c);
	if (client->free_id == DELEGRPC_ID_NONE)
		err = -EAGAIN;
	else if (client->staged == DELEGRPC_BATCH)
		err = delegrpc_priv_publish(client);
	if (err)
		posts_ask(c);
	return err;
}

int delegrpc_client_post(struct delegrpc_client *client, const void *req, uint32_t len)
{
	int err = delegrpc_priv_admit(client, len);

	if (err)
		return err;
	delegrpc_priv_stage(client, req, len, DELEGRPC_POST_INDEX);
	posts_add(client_of(client));
	if (++client->staged == DELEGRPC_BATCH)
		delegrpc_priv_publish(client);
	return 0;
}

uint32_t delegrpc_client_posts(struct delegrpc_client *client)
{
	take_back(client_of(client));
	posts_ask(client_of(client));
	return client->posts;
}

/* ---- waiting ---- */

static bool client_ready(const struct client *c)
{
	const struct delegrpc_client *client = &c->hot;

	return (uint32_t)delegrpc_priv_response_word(delegrpc_priv_response(client)) ==
	       delegrpc_priv_stamp(client->done, client->resp_shift, client->generation);
}

static bool client_room(struct client *c)
{
	return !c->w.err && posts_room(c);
}

static bool client_pending(const struct client *c)
{
	return c->hot.pending || posts_asked(c);
}

static bool client_publish(struct client *c)
{
	return c->hot.staged && delegrpc_priv_publish(&c->hot) == -EAGAIN;
}

static int client_call(struct client *c, const void *req, uint32_t len)
{
	int err = delegrpc_priv_admit(&c->hot, len);
	uint32_t id = c->hot.free_id;

	if (!err)
		err = delegrpc_client_call(&c->hot, req, len, 0);
	return err ? err : (int)id;
}

static int client_poll(struct client *c, delegrpc_response_fn *fn, void *arg)
{
	return delegrpc_client_poll(&c->hot, fn, arg);
}

static bool client_is_open(const struct client *c, uint32_t id)
{
	return c->hot.calls[id].next == DELEGRPC_ID_BUSY;
}

static void client_give_up(struct client *c, uint32_t id)
{
	c->hot.calls[id].next = DELEGRPC_ID_LATE;
	c->hot.pending--;
}

static bool server_ended(const struct client *c)
{
	return !delegrpc_priv_alive(c->hot.header);
}

/* Tells the other clients that the server has died. */
static void server_died(struct client *c)
{
	/* Release, as in announce_end(): pairs with the acquire in delegrpc_priv_alive(). */
	__atomic_store_n(&c->hot.header->server_alive, 0, __ATOMIC_RELEASE);
}

/* Nothing to do: a call fails as long as server_alive is 0. */
static void client_closed(struct client *c)
{
}

#include "base/waitclient.h"

/* The public header cannot include base, so it repeats the value. */
static_assert(DELEGRPC_IDLE_POLLS == IDLE_POLLS, "the public header includes nothing of base");

int delegrpc_priv_client_wake_test(struct delegrpc_client *client)
{
	return client_wake(client_of(client));
}

int delegrpc_client_wait(struct delegrpc_client *client, uint64_t timeout_ns)
{
	return client_wait(client_of(client), timeout_ns);
}

int delegrpc_client_arm(struct delegrpc_client *client)
{
	return client_arm(client_of(client));
}

int delegrpc_client_call_wait(struct delegrpc_client *client, const void *req, uint32_t len,
	void *resp, uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p)
{
	if (!client_of(client)->w.other && client->pending)
		return -EBUSY;
	return client_call_wait(client_of(client), req, len, resp, capacity, timeout_ns, len_p);
}

int delegrpc_client_abort(struct delegrpc_client *client, delegrpc_response_fn *fn, void *arg)
{
	struct client *c = client_of(client);
	uint32_t polls = client->resp_depth + IDLE_POLLS; /* a limit, for forged responses */
	int n = 0;

	/* If a call or a flush noticed the server's end first, there may be unread responses. */
	while (!c->w.err && server_ended(c) && polls--)
		delegrpc_client_poll(client, fn, arg);
	if (!c->w.err)
		return -EBUSY;
	c->dropped += client->staged - client->staged_posts;
	client->staged = client->staged_posts;
	for (uint32_t id = 0; id < client->resp_depth; id++) {
		struct delegrpc_call *call = &client->calls[id];

		if (!client_is_open(c, id))
			continue;
		call->next = DELEGRPC_ID_NONE; /* not freed: the client makes no more calls */
		client->pending--;
		n++;
		fn(arg, call->token, NULL, 0);
	}
	c->w.given_up = 0;
	return n;
}
