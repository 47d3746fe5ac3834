/* SPDX-License-Identifier: MIT */
/* The client's side of delegrpc, without the hot path: publishing and waiting. */
#include <assert.h>
#include <errno.h>

#include "base/idle.h"
#include "base/probe.h"
#include "client.h"

#define TELL 3 /* slow paths of a wait until the server is told: about 1 us */
#define ALIVE_NS (100 * NSEC_PER_MSEC) /* between two looks at the server's lock */
#define ROOM_SLICE_NS NSEC_PER_MSEC /* nobody wakes a client that waits for room in the ring */

static_assert(DELEGRPC_IDLE_POLLS == IDLE_POLLS, "the public header includes nothing of base");

void delegrpc_client_get_attr(const struct delegrpc_client *client, struct delegrpc_attr *attr_p)
{
	const struct client *c = container_of(client, struct client, hot);

	attr_of(&c->attr, &c->region, attr_p);
}

uint32_t delegrpc_client_index(const struct delegrpc_client *client)
{
	return container_of(client, struct client, hot)->id;
}

void delegrpc_client_get_stats(const struct delegrpc_client *client,
	struct delegrpc_client_stats *stats_p)
{
	const struct client *c = container_of(client, struct client, hot);

	*stats_p = (struct delegrpc_client_stats){
		.calls = client->sent + client->staged,
		.responses = client->done - c->late - c->bad,
		.late_responses = c->late,
		.bad_responses = c->bad,
		.flushes = c->flushes,
		.full = c->full,
		.sleeps = c->sleeps,
		.wakes = c->wakes,
	};
}

/* ---- publication ---- */

/*
 * Whether a batch may be reserved. Never more than ring_depth positions are in use.
 *
 * It may not while a predecessor's requests may be in the ring. After that it always may if all
 * calls in flight fit into the ring. Otherwise the margin decides: after the last moment at which
 * `limit` or fewer were in use, each client can reserve one batch for which it had checked the
 * room before that moment, and none for which it checked after.
 */
static bool has_room(struct client *c)
{
	uint64_t head;

	if (!c->admitted) {
		/* Acquire: pairs with delegrpc_server_advance_tail(); those slots have been read. */
		c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
		if ((int64_t)(c->tail - c->start) < 0)
			return false;
		c->admitted = true;
		/* Relaxed: pairs with the load in next_generation(), after our lock is free. */
		__atomic_store_n(&c->hot.line->published, c->hot.generation, __ATOMIC_RELAXED);
		c->watch = !ring_holds_all(&c->attr);
		if (!c->watch)
			return true;
	}
	/* Relaxed, but after tail: our own last reservation is in it, by coherence. */
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	if (head - c->tail <= c->limit)
		return true;
	c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	return head - c->tail <= c->limit;
}

static unsigned char *request_slot(const struct client *c, uint64_t pos)
{
	return c->requests + (pos & (c->attr.ring_depth - 1)) * (size_t)c->hot.req_stride;
}

/* Prefetches the slots that follow our last ones. A client alone in the ring gets these. */
static inline void prefetch_slots(const struct client *c, uint32_t n)
{
	const unsigned char *slot = NULL;

	for (uint32_t i = 0; i < n; i++) {
		slot = request_slot(c, c->last + i);
		cellring_own(slot, 1);
	}
	/* A slot may end in another line; those before do so where the next one begins. */
	cellring_own(slot + c->hot.req_stride - 1, 1);
}

/* Header but for the first word, and payload, in words; whole records are ours. */
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
 * The laps are stored last, so that the server, which waits for the first of them, does not take
 * away cache lines that are half written. They are stored in order, so that the server gets the
 * beginning of the batch if the client dies here.
 */
static void fill_batch(struct client *c, uint64_t pos, uint32_t n)
{
	uint64_t head = (uint64_t)(cellring_limit(c->hot.pending) - 1) << DELEGRPC_REQ_BURST_SHIFT |
			(uint64_t)c->id << DELEGRPC_REQ_CLIENT_SHIFT;
	/* Local copies, because the compiler must assume that the stores change the fields. */
	uint64_t mask = c->attr.ring_depth - 1, shift = c->ring_shift;
	size_t stride = c->hot.req_stride;
	unsigned char *requests = c->requests, *rec = c->hot.stage;

	for (uint64_t at = pos; at != pos + n; at++, rec += stride)
		fill_slot((void *)(requests + (at & mask) * stride), (void *)rec);
	rec = c->hot.stage;
	for (uint64_t at = pos; at != pos + n; at++, rec += stride) {
		uint64_t *slot = (void *)(requests + (at & mask) * stride);
		uint64_t len = *(uint64_t *)(void *)rec;

		/* Release, after the rest: pairs with the acquire load in delegrpc_priv_filled(). */
		__atomic_store_n(slot, len | head | (uint32_t)((at >> shift) + 1),
			__ATOMIC_RELEASE);
	}
}

COLD static void wake_sleeping(struct client *c)
{
	struct delegrpc_header *h = c->hot.header;
	int woken = wakefd_wake(&c->wake, &h->server_state, address_of(&h->server_address));

	if (woken > 0) {
		c->wakes++;
		PROBE(delegrpc, client_wake, c);
	}
	if (woken < 0) {
		c->wake_err = woken;
		c->hot.unfenced = 1; /* try again next time */
		c->hot.idle_left = 1; /* an empty poll reports it */
	}
}

/*
 * Wakes the server if it sleeps. One fence serves all calls since the last one. 0, or -errno: it
 * could not be woken.
 */
int delegrpc_priv_wake_server(struct delegrpc_client *client)
{
	struct client *c = client_of(client);

	client->unfenced = 0;
	c->wake_err = 0;
	/* Pairs with sleep_prepare_as(), which sleep_for_request() and delegrpc_server_arm() call. */
	sleep_fence();
	if (unlikely(sleep_is_asleep(&client->header->server_state)))
		wake_sleeping(c);
	return c->wake_err;
}

/*
 * Publishes all staged calls. 0, -EAGAIN or -EPIPE.
 *
 * If this client dies here, the claim tells the server which positions will not be filled. Its
 * stores are releases: a reader that sees the claim move on sees everything filled under it.
 */
int delegrpc_priv_publish(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	uint32_t n = client->staged;
	uint64_t pos;

	if (unlikely(!delegrpc_priv_alive(client->header)))
		return -EPIPE;
	/* In a response function, whose slot must not be reused yet. */
	if (unlikely(client->sent + n - client->done > client->resp_depth))
		return -EAGAIN;
	if (unlikely(c->watch) && !has_room(c)) {
		c->full++;
		return -EAGAIN;
	}
	prefetch_slots(c, n);
	if (unlikely(client->unfenced >=
		     DELEGRPC_UNFENCED)) /* the atomic addition waits as a fence does */
		delegrpc_priv_wake_server(client);
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_INTENT, __ATOMIC_RELEASE);
	/*
	 * Release: skip_holes(), when it sees the reservation, sees the intent.
	 * Acquire: the server has read the former contents of the slots. The clients with earlier
	 * reservations know that from responses (delegrpc_client_poll()) or from tail, and their
	 * additions pass it on.
	 */
	pos = __atomic_fetch_add(&c->control->head, n, __ATOMIC_ACQ_REL);
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_AT(pos, n), __ATOMIC_RELEASE);
	fill_batch(c, pos, n);
	c->last = pos + n;
	client->sent += n;
	PROBE(delegrpc, client_publish, client, client->staged);
	client->staged = 0;
	c->flushes++;
	client->unfenced++;
	return 0;
}

/* ---- cold ends of the hot path ---- */

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
}

static bool response_ready(const struct delegrpc_client *client)
{
	return (uint32_t)delegrpc_priv_response_word(delegrpc_priv_response(client)) ==
	       delegrpc_priv_stamp(client->done, client->resp_shift, client->generation);
}

/*
 * Whether the server lives. A killed server cannot clear server_alive, but the kernel has dropped
 * its lock. The client that finds that out clears server_alive for the others.
 */
static bool server_lives(struct client *c, uint64_t now)
{
	struct delegrpc_header *h = c->hot.header;

	if (!delegrpc_priv_alive(h))
		return false;
	if (now - c->looked_ns < ALIVE_NS)
		return true;
	c->looked_ns = now;
	/*
	 * Another client may have taken the word of a server that sleeps on its descriptor, and then
	 * failed to wake it, or died. Relaxed: pairs with the store in sleep_prepare_as(); the wake
	 * test fences.
	 */
	if (c->hot.pending && !c->hot.unfenced &&
		__atomic_load_n(&h->server_state, __ATOMIC_RELAXED) == SLEEP_ON_FD)
		c->hot.unfenced = 1;
	if (shm_locked(&c->region, SHM_SERVER) != 0)
		return true;
	/* Release, as in announce_end(); nobody but the dead server wrote responses. */
	__atomic_store_n(&h->server_alive, 0, __ATOMIC_RELEASE);
	return false;
}

/* Responses that the server wrote before it ended are read first. */
static int end_of_server(const struct delegrpc_client *client)
{
	return response_ready(client) ? 0 : -EPIPE;
}

/*
 * Called after several empty polls, and after one that could not wake the server: tells the server
 * that a client waits, and checks it.
 */
int delegrpc_priv_client_idle(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	uint64_t now = clock_ns();

	client->idle_left = idle_polls(&c->idle_ns, now);
	if (client->idle < TELL && ++client->idle == TELL)
		/* Relaxed: a hint for the server's yields. */
		__atomic_store_n(&client->line->state, DELEGRPC_WAITING, __ATOMIC_RELAXED);
	if (!server_lives(c, now))
		return end_of_server(client);
	return response_ready(client) ? 0 : c->wake_err;
}

void delegrpc_priv_client_busy(struct delegrpc_client *client)
{
	if (client->idle == TELL)
		__atomic_store_n(&client->line->state, DELEGRPC_RUNNING, __ATOMIC_RELAXED);
	client->idle = 0;
}

/* ---- waiting ---- */

/* Sleeps until a response comes, at most ns. 0 or -errno of futex_wait(). */
static int sleep_for_response(struct client *c, uint64_t ns)
{
	struct delegrpc_client *client = &c->hot;
	int err;

	sleep_prepare(&client->line->state);
	if (response_ready(client) || !delegrpc_priv_alive(client->header)) {
		sleep_cancel(&client->line->state);
		return 0;
	}
	c->sleeps++;
	PROBE(delegrpc, client_sleep, c, ns);
	err = sleep_enter(&client->line->state, ns);
	PROBE(delegrpc, client_awake, c, err);
	return err == -EAGAIN ? 0 : err;
}

int delegrpc_client_wait(struct delegrpc_client *client, uint64_t timeout_ns)
{
	struct client *c = client_of(client);
	uint64_t deadline = deadline_after(timeout_ns), now, slice;
	struct wait w = WAIT_INIT;
	int err = 0;

	while (client->pending && !err) {
		bool asleep = wait_step(&w);

		if (client->staged)
			delegrpc_priv_publish(client);
		if (response_ready(client))
			break;
		if (client->unfenced)
			err = delegrpc_priv_wake_server(client);
		if (w.empty < WAIT_SPINS && !err)
			continue;
		if (w.empty == WAIT_SPINS) {
			client->idle = TELL;
			__atomic_store_n(&client->line->state, DELEGRPC_WAITING, __ATOMIC_RELAXED);
		}
		now = clock_ns();
		if (!server_lives(c, now) && end_of_server(client))
			return -EPIPE;
		if (now >= deadline || err)
			break;
		slice = client->staged ? ROOM_SLICE_NS : SLEEP_SLICE_NS;
		if (deadline - now < slice)
			slice = deadline - now;
		if (asleep && sleep_for_response(c, slice) == -EINTR)
			break;
	}
	if (w.empty >= WAIT_SPINS) /* only then, because the server reads that cache line */
		delegrpc_priv_client_busy(client);
	if (client->pending && response_ready(client))
		return 1;
	return err;
}

struct answer {
	void *resp;
	uint32_t capacity, len;
	bool there;
};

static void take_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct answer *a = arg;

	cellring_copy(a->resp, resp, len < a->capacity ? len : a->capacity);
	a->len = len;
	a->there = true;
}

int delegrpc_client_call_wait(struct delegrpc_client *client, const void *req, uint32_t len,
	void *resp, uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p)
{
	struct answer a = {.resp = resp, .capacity = capacity};
	uint64_t deadline = deadline_after(timeout_ns), now;
	uint32_t id;
	int err;

	if (client->pending)
		return -EBUSY;
	delegrpc_client_poll(client, take_answer, &a); /* frees the ids of late responses */
	id = client->free_id;
	err = delegrpc_client_call(client, req, len, 0);
	if (err)
		return err;
	for (;;) {
		err = delegrpc_client_poll(client, take_answer, &a);
		if (a.there) {
			if (len_p)
				*len_p = a.len;
			return 0;
		}
		if (err == -EPIPE)
			return err;
		if (err < 0) /* the server cannot be woken */
			break;
		now = clock_ns();
		err = -ETIMEDOUT;
		if (now >= deadline)
			break;
		delegrpc_client_wait(client, deadline - now); /* the next poll has its error, too */
	}
	client->calls[id].next = DELEGRPC_ID_LATE;
	client->pending--;
	return err;
}

/* ---- waiting on a descriptor ---- */

int delegrpc_client_fd(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	int err;

	if (c->wake.fd >= 0)
		return c->wake.fd;
	if (c->region.fd < 0) /* a forked child */
		return -EBADF;
	if (!wakefd_reaches(wakefd_netns(), client->header->server_address.netns))
		return -ENETUNREACH;
	err = wakefd_open(&c->wake, address_of(&client->line->address));
	return err ? err : c->wake.fd;
}

int delegrpc_client_arm(struct delegrpc_client *client)
{
	struct client *c = client_of(client);
	uint64_t ns = client->pending ? SLEEP_SLICE_NS : 0;

	if (c->wake.fd < 0)
		return -EBADF;
	delegrpc_client_flush(client);
	if (client->unfenced) /* otherwise the server would sleep as long as we do */
		return c->wake_err;
	client->idle_left = 1; /* the next empty poll checks that the server lives */
	wakefd_prepare(&c->wake, &client->line->state);
	if (response_ready(client) || !server_lives(c, clock_ns())) {
		sleep_cancel(&client->line->state);
		return 1;
	}
	if (client->staged) /* calls that are not published */
		ns = ROOM_SLICE_NS;
	wakefd_timer(&c->wake, ns);
	c->sleeps++;
	PROBE(delegrpc, client_arm, c);
	return 0;
}
