/* SPDX-License-Identifier: MIT */
/* Connecting and disconnecting a client. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "client.h"

static const struct live_type live_client = {LIVE_MAGIC, PREFIX, "client", WAITER_STATES,
	.field = {
		{"in-flight", LIVE_AT(struct client, hot.pending)},
		{"depth", LIVE_AT(struct client, hot.resp_depth)},
		{"staged", LIVE_AT(struct client, hot.staged)},
		{"sent", LIVE_AT(struct client, hot.sent)},
		{"responses", LIVE_AT(struct client, hot.done)},
		{"posts", LIVE_AT(struct client, hot.posts)},
		WAITER_FIELDS(struct client, w),
		{"error", LIVE_AT(struct client, w.err), .form = LIVE_SIGNED},
	}};

static bool differs(uint32_t want, uint32_t have)
{
	return want && want != have;
}

/*
 * Checks the header, and stores its sizes in c->layout. They are not read from the region again,
 * because another process may change them.
 */
static int check_header(struct client *c, const struct delegrpc_attr *want)
{
	const struct delegrpc_header *h = c->w.region.addr;
	const struct delegrpc_attr *have = &c->layout.attr;
	struct delegrpc_attr wanted = *want;
	int err;

	/* Pairs with the release store in delegrpc_server_create(). */
	if (!__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	err = delegrpc_header_check(h, c->w.region.size, &c->layout);
	if (err)
		return err;
	if (wanted.resp_depth)
		wanted.resp_depth = (uint32_t)pow2_ceil(wanted.resp_depth);
	if (wanted.ring_depth)
		wanted.ring_depth = (uint32_t)pow2_ceil(wanted.ring_depth);
	if (differs(wanted.max_clients, have->max_clients) ||
		differs(wanted.ring_depth, have->ring_depth) ||
		differs(wanted.resp_depth, have->resp_depth) ||
		differs(wanted.req_size, have->req_size) ||
		differs(wanted.resp_size, have->resp_size))
		return -EPROTO;
	return delegrpc_priv_alive(h) ? 0 : -ECONNREFUSED;
}

/*
 * Must be called with the id's lock held, and only if the server takes events. Returns false if the
 * server has not freed the id since its last use. Acquire: pairs with free_id().
 */
static bool id_is_free(const struct delegrpc_line *line)
{
	return !__atomic_load_n(&line->taken, __ATOMIC_ACQUIRE);
}

/*
 * Takes a free id. A client owns an id by the lock on its byte, so a dead client's id is free
 * immediately, whatever the client was doing. But if the server takes events, an id is free only if
 * its `taken` is 0 as well, and only the server resets `taken`. Tries all ids, or without @all only
 * those whose `taken` is 0, because a test of a lock takes longer the more clients are connected.
 */
static int take_id_of(struct client *c, const struct delegrpc_line *lines, bool all)
{
	for (uint32_t i = 0; i < c->layout.attr.max_clients; i++) {
		int err;

		/* Relaxed: a hint. Pairs with the stores in take_over() and place_leave(). */
		if (!all && __atomic_load_n(&lines[i].taken, __ATOMIC_RELAXED))
			continue;
		err = shm_lock(&c->w.region, CLIENT_BYTE(i));
		if (err == -EAGAIN)
			continue;
		if (!err && c->watched && !id_is_free(&lines[i])) {
			shm_unlock(&c->w.region, CLIENT_BYTE(i));
			continue;
		}
		c->id = i;
		return err;
	}
	return -EUSERS;
}

/* Makes a server that takes events look at the fields `taken` of all clients. */
static void tell_server(void *arg)
{
	struct client *c = arg;

	if (!c->watched)
		return;
	/* Release: pairs with the acquire in guests_look(). */
	__atomic_fetch_add(&c->hot.header->changes, 1, __ATOMIC_RELEASE);
	delegrpc_priv_client_wake_test(&c->hot);
}

static int take_id(struct client *c)
{
	const void *lines = (char *)c->w.region.addr + c->layout.lines;
	int err = take_id_of(c, lines, false);

	if (err == -EUSERS)
		err = take_id_of(c, lines, true);
	if (err == -EUSERS && c->watched) {
		/* The server may not have noticed yet that clients have ended. */
		tell_server(c);
		waiter_wake_anyway(&c->w);
	}
	return err;
}

static int alloc_tables(struct client *c)
{
	struct delegrpc_client *hot = &c->hot;
	uint32_t n = c->layout.attr.resp_depth;

	hot->stage = calloc_lines(DELEGRPC_BATCH, c->layout.req_stride);
	hot->calls = calloc(n, sizeof(*hot->calls));
	if (!hot->stage || !hot->calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		hot->calls[i].next = i + 1 < n ? i + 1 : DELEGRPC_ID_NONE;
	return 0;
}

/* Returns true if the responses to two generations have the same stamps. */
static bool same_stamp(uint64_t a, uint64_t b)
{
	return (uint16_t)a == (uint16_t)b;
}

/*
 * Returns a generation whose stamps differ from those that the server may still write for
 * predecessors, the former clients of this id. Only two generations can have such stamps:
 * `served`, whose request the server received last, and `published`, which published a request
 * last. Other generations have no requests in the ring, because a client publishes nothing before
 * the requests of all its predecessors have been given back. Relaxed: the predecessors wrote
 * generation and published before the kernel freed the lock that we hold. If the load of served
 * misses its newest value, that value is equal to published.
 */
static uint64_t next_generation(const struct delegrpc_line *line)
{
	uint64_t next = __atomic_load_n(&line->generation, __ATOMIC_RELAXED);
	uint64_t served = __atomic_load_n(&line->served, __ATOMIC_RELAXED);
	uint64_t published = __atomic_load_n(&line->published, __ATOMIC_RELAXED);

	do
		next = next < DELEGRPC_GENERATION_MAX ? next + 1 : 1;
	while (same_stamp(next, served) || same_stamp(next, published));
	return next;
}

/*
 * Takes over the id of a predecessor, which may have died at any instruction. Resets its claim.
 * Clears its stamps in the response slots, because the 16 bits of a former generation in them may
 * be equal to those of ours. Responses that the server still writes for the predecessor carry its
 * generation, not ours.
 */
static void take_over(struct client *c)
{
	struct delegrpc_client *hot = &c->hot;
	struct delegrpc_line *line = hot->line;

	/*
	 * Acquire: pairs with the release store in place_leave(). The kernel's lock orders the
	 * predecessor's loads before our stores as well, but ThreadSanitizer ignores that lock.
	 */
	(void)__atomic_load_n(&line->taken, __ATOMIC_ACQUIRE);
	hot->generation = next_generation(line);
	for (uint32_t i = 0; i < c->layout.attr.resp_depth; i++) {
		void *slot = hot->responses + i * (size_t)hot->resp_stride;

		/* Relaxed: the server writes nothing for us before it gets a request. */
		__atomic_store_n((uint64_t *)slot, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&line->generation, hot->generation, __ATOMIC_RELAXED);
	/* Relaxed: published by the store to taken; pairs with the load in all_reach(). */
	__atomic_store_n(&line->address.netns, wakefd_netns(), __ATOMIC_RELAXED);
	/* Release: pairs with the acquire in server_client(): all_reach() sees our namespace. */
	__atomic_store_n(&line->taken, DELEGRPC_TAKEN, __ATOMIC_RELEASE);
	__atomic_store_n(&line->state, DELEGRPC_RUNNING, __ATOMIC_RELAXED);
	/* Release: pairs with claimed_from(), as in delegrpc_priv_publish(). */
	__atomic_store_n(&line->claim, DELEGRPC_CLAIM_NONE, __ATOMIC_RELEASE);
	/* Acquire: pairs with the addition in delegrpc_priv_publish(). The predecessor's
	 * reservations were made before the kernel freed its lock byte. */
	c->start = __atomic_load_n(&c->control->head, __ATOMIC_ACQUIRE);
	c->last = c->start;
	__atomic_fetch_add(&hot->header->connects, 1, __ATOMIC_RELAXED);
}

/*
 * If the server takes events, sends it an introduction (base/wakefd.h), to which the kernel adds
 * the ids of this process. If this client dies from now on, no other client gets the id before the
 * server has noticed the death.
 */
static void introduce(struct client *c)
{
	if (!c->watched)
		return;
	/* Release: pairs with the acquire in taken_of(). */
	__atomic_store_n(&c->hot.line->taken, DELEGRPC_COMING, __ATOMIC_RELEASE);
	waiter_introduce(&c->w, address_of(&c->hot.header->door), c->id, tell_server, c);
}

static void init_place(struct client *c)
{
	const struct delegrpc_layout *l = &c->layout;
	const struct delegrpc_attr *attr = &l->attr;
	struct delegrpc_client *hot = &c->hot;
	unsigned char *base = c->w.region.addr;

	hot->line = (struct delegrpc_line *)(void *)(base + l->lines) + c->id;
	hot->responses = base + l->responses + c->id * l->resp_pitch;
	c->w.word = &hot->line->state;
	c->w.addr = address_of(&hot->line->address);
	hot->idle_left = DELEGRPC_IDLE_POLLS;
	hot->req_size = attr->req_size;
	hot->req_stride = l->req_stride;
	hot->resp_depth = attr->resp_depth;
	hot->resp_shift = (uint32_t)__builtin_ctz(attr->resp_depth);
	hot->resp_size = attr->resp_size;
	hot->resp_stride = l->resp_stride;
	c->control = (void *)(base + l->control);
	c->requests = base + l->requests;
	c->ring_shift = (uint32_t)__builtin_ctz(attr->ring_depth);
	c->watch = true;
	c->limit = attr->ring_depth - (uint64_t)attr->max_clients * DELEGRPC_BATCH;
	c->w.looked_ns = clock_ns();
}

/* Must be called before the lock is dropped: of the clients, only the holder of the lock may write
 * `taken`. */
static void place_leave(struct client *c)
{
	/* Release: pairs with the acquire load in take_over(): we read no response any more. */
	__atomic_store_n(&c->hot.line->taken, c->watched ? DELEGRPC_LEFT : 0, __ATOMIC_RELEASE);
	if (!c->watched)
		return;
	shm_release(&c->w.region); /* before tell_server(): the server then tests the lock */
	tell_server(c);
}

static void client_free(struct client *c)
{
	free(c->hot.stage);
	free(c->hot.calls);
	free(c);
}

static int client_init(struct client *c, const struct delegrpc_attr *want)
{
	int err = check_header(c, want);

	if (err)
		return err;
	c->hot.header = c->w.region.addr;
	c->w.server_word = &c->hot.header->server_state;
	c->w.server_addr = address_of(&c->hot.header->server_address);
	c->watched = c->hot.header->door.name != 0;
	err = alloc_tables(c);
	if (!err)
		err = take_id(c);
	if (err)
		return err;
	init_place(c);
	introduce(c);
	take_over(c);
	tell_server(c);
	sleep_fence(); /* see waiter_check_reach() */
	err = waiter_check_reach(&c->w);
	if (err)
		place_leave(c);
	return err;
}

static void client_replace(struct client *c, const struct client *fresh)
{
	free(c->hot.stage);
	free(c->hot.calls);
	memcpy(c, fresh, offsetof(struct client, w));
}

static bool client_busy(const struct client *c)
{
	return delegrpc_client_pending(&c->hot);
}

#include "base/waitconnect.h"
