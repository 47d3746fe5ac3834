/* SPDX-License-Identifier: MIT */
/*
 * The hot path of shmipc.h, inlined into its users; included by it, not by them. The
 * fields of these structs are the library's: no user reads or writes them.
 *
 * A ring is an array of slots of a multiple of 8 bytes, {lap, id, payload}. The producer
 * fills a slot and stores its head, with the lap number, last, with release; the consumer,
 * whose own cursor says which lap it expects where, loads it with acquire and never
 * writes. A slot is free for the next lap by count alone: at most depth calls are in
 * flight, a ring has more slots than that, and a response that has arrived proves that
 * its request, and the responses depth calls before it, have been read. Laps are compared
 * for equality only, so their wrap is harmless; a clean ring is all zero, the first lap
 * is 1.
 *
 * With eight or more calls in flight a quarter of them, at most eight, are collected in
 * private memory and copied to the ring in one go, the head of the first one last. A core
 * has so many stores that wait for lines, and the private ones between two messages count
 * as well; written together, the lines of a burst travel together, and the consumer, which
 * looks at the first head only, takes none away half written, so slots share lines. A
 * request says how many answers are best collected.
 *
 * Sleep and wake: a sleeper sets its word, fences, looks once more, and sleeps; a
 * publisher, when it looks in vain or now and then, fences and then reads the word. One of
 * the two fences is first: then either the publisher sees the word, or the sleeper sees
 * the message.
 */
#ifndef SHMIPC_INLINE_H
#define SHMIPC_INLINE_H

#include <errno.h>
#include <string.h>

#define SHMIPC_VISIT_MAX 8 /* requests that one client gets per server poll */
#define SHMIPC_IDLE_POLLS 32 /* empty client polls in a row until the slow path, about 1 us */
#define SHMIPC_BURST 8 /* messages published together */
#define SHMIPC_STAGED 128 /* bytes in a slot; larger ones are written in place, one by one */
#define SHMIPC_UNFENCED 16 /* bursts and polls, until sleepers are woken */

struct shmipc_slot {
	uint64_t head; /* lap, 32 bits; id, 24; burst, 8: how many answers are best collected */
	/* payload, aligned to 8 */
};

#define SHMIPC_ID_BITS 24
#define SHMIPC_ID(id) ((id) & ((1u << SHMIPC_ID_BITS) - 1)) /* without the burst */

struct shmipc_cursor {
	char *slot, *base, *end;
	uint32_t stride;
	uint32_t lap; /* of the slot, when it is filled in */
};

/* Messages that are made and not published yet, all to one ring. */
struct shmipc_burst {
	struct shmipc_cursor *to; /* NULL: there are none */
	char *next, *full; /* in the stage; where next is when the burst is published */
	__attribute__((aligned(64))) char stage[SHMIPC_BURST * SHMIPC_STAGED];
};

enum shmipc_call_state {
	SHMIPC_CALL_FREE,
	SHMIPC_CALL_BUSY,
	SHMIPC_CALL_GIVEN_UP, /* in flight, but its response is not wanted any more */
};

struct shmipc_call {
	uint64_t token;
	uint32_t state;
	uint32_t free; /* an entry of the stack of free ids, nothing to do with this call */
};

struct shmipc_client {
	struct shmipc_cursor req, resp;
	struct shmipc_call *calls; /* by id */
	uint32_t n_free; /* height of the stack of free ids */
	uint32_t depth;
	uint32_t req_size;
	uint32_t unfenced; /* bursts, and polls after them, since the last wake test */
	uint64_t called, answered;
	const uint32_t *server_state; /* not 0: the server sleeps; in the region */
	int32_t idle_left; /* empty polls until the slow path */
	uint32_t waiting; /* the server was told that this client waits */
	struct shmipc_burst burst;
};

struct shmipc_peer { /* a client, as the server sees it */
	struct shmipc_cursor req, resp;
	const uint32_t *state; /* not 0: the client yields or sleeps; in the region */
	uint32_t handle; /* UINT32_MAX: nobody */
	uint32_t received, replied;
	uint32_t index;
	uint32_t unflushed; /* is in the list of that name */
};

struct shmipc_visit {
	struct shmipc_peer *peer;
	uint32_t left; /* requests that it may still give */
};

struct shmipc_server {
	struct shmipc_peer *peers; /* by index */
	struct shmipc_peer **active; /* the connected ones */
	struct shmipc_visit *visits; /* what the last poll found */
	struct shmipc_peer **unflushed; /* published to since the last wake test */
	const uint32_t *changes; /* counts connects and disconnects, in the region */
	uint32_t seen; /* of changes */
	uint32_t n_active, n_visits, visit, n_unflushed;
	uint32_t unfenced; /* as the client's */
	uint32_t start; /* in active: who was visited first */
	int32_t budget; /* work until the next look at the clock */
	uint32_t max_clients, depth, req_size, resp_size;
	struct shmipc_peer *burst_peer; /* whom the burst is for */
	struct shmipc_burst burst;
};

/* Out of line, for the functions below only. */
int shmipc_client_refused(struct shmipc_client *client);
void shmipc_client_wake_test(struct shmipc_client *client);
void shmipc_server_wake_test(struct shmipc_server *server);
/* For limit messages to that ring; not begun if they are best written in place. */
void shmipc_burst_begin(struct shmipc_burst *burst, struct shmipc_cursor *to, uint32_t limit);
void shmipc_burst_copy(struct shmipc_burst *burst);
int shmipc_client_stray(struct shmipc_client *client, uint32_t id);
int shmipc_client_idle(struct shmipc_client *client);
void shmipc_client_resume(struct shmipc_client *client);
void shmipc_server_rescan(struct shmipc_server *server);
void shmipc_server_rest(struct shmipc_server *server);

/*
 * memcpy() to and from a slot. In scalar words on purpose where the length is known: a
 * message is often written word by word just before, and a wider load would wait until
 * these stores have left the core, behind all that wait for a line. GCC leaves copies that
 * it expands out of ThreadSanitizer's sight; a call it intercepts.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
__attribute__((noipa, unused)) static void shmipc_copy(void *to, const void *from, uint32_t len)
{
	memcpy(to, from, len);
}
#else
static inline __attribute__((always_inline)) void shmipc_copy(void *to, const void *from,
	uint32_t len)
{
	uint32_t i = 0;

	if (!__builtin_constant_p(len) || len > 64) {
		memcpy(to, from, len);
		return;
	}
#pragma GCC unroll 8
	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)from + i, 8);
		__asm__("" : "+r"(word)); /* or the compiler makes wide loads of them */
		memcpy((char *)to + i, &word, 8);
	}
	memcpy((char *)to + i, (const char *)from + i, len - i);
}
#endif

static inline void shmipc_cursor_advance(struct shmipc_cursor *at, size_t bytes)
{
	at->slot += bytes;
	if (__builtin_expect(at->slot == at->end, 0)) {
		at->slot = at->base;
		at->lap++;
	}
}

/*
 * Is the slot filled in? And its head, read once: the peer can change it at any time.
 * Acquire: pairs with the release in shmipc_cursor_put() and shmipc_burst_copy(); behind
 * the first head of a burst, all of it.
 */
static inline int shmipc_cursor_ready(const struct shmipc_cursor *at, uint64_t *head_p)
{
	const struct shmipc_slot *slot = (const struct shmipc_slot *)at->slot;

	*head_p = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);
	return (uint32_t)*head_p == at->lap;
}

static inline char *shmipc_cursor_payload(const struct shmipc_cursor *at)
{
	return at->slot + sizeof(struct shmipc_slot);
}

/*
 * Fills the slot in and publishes it. The cursor moves first: a compiler cannot know that
 * the payload is not the cursor, and would read all of it again.
 */
static inline void shmipc_cursor_put(struct shmipc_cursor *at, uint32_t id, const void *data,
	uint32_t len)
{
	struct shmipc_slot *slot = (struct shmipc_slot *)at->slot;
	uint64_t head = (uint64_t)id << 32 | at->lap;

	shmipc_cursor_advance(at, at->stride);
	shmipc_copy(slot + 1, data, len);
	/* Release: pairs with the acquire in shmipc_cursor_ready(). */
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
}

/* One more message; says whether the burst is to be published now. */
static inline int shmipc_burst_add(struct shmipc_burst *burst, uint32_t id, const void *data,
	uint32_t len)
{
	struct shmipc_slot *slot = (struct shmipc_slot *)burst->next;

	burst->next += burst->to->stride;
	slot->head = (uint64_t)id << 32 | burst->to->lap;
	shmipc_copy(slot + 1, data, len);
	return burst->next == burst->full;
}

/* How many messages travel together when so many are in flight. */
static inline uint32_t shmipc_burst_limit(uint32_t in_flight)
{
	return in_flight >= 4 * SHMIPC_BURST ? SHMIPC_BURST : in_flight < 8 ? 1 : in_flight / 4;
}

static inline void shmipc_client_published(struct shmipc_client *client)
{
	client->unfenced++;
}

static inline void shmipc_client_publish(struct shmipc_client *client)
{
	if (!client->burst.to)
		return;
	shmipc_burst_copy(&client->burst);
	shmipc_client_published(client);
}

static inline int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token)
{
	uint32_t n = client->n_free, limit, id;

	if (__builtin_expect(len > client->req_size, 0))
		return -EMSGSIZE;
	if (__builtin_expect(n == 0, 0))
		return shmipc_client_refused(client);
	client->n_free = --n;
	id = client->calls[n].free;
	client->calls[id].state = SHMIPC_CALL_BUSY;
	client->calls[id].token = token;
	client->called++;
	limit = shmipc_burst_limit((uint32_t)(client->called - client->answered));
	id |= limit << SHMIPC_ID_BITS;
	if (!client->burst.to && limit > 1)
		shmipc_burst_begin(&client->burst, &client->req, limit);
	if (!client->burst.to) {
		shmipc_cursor_put(&client->req, id, req, len);
		shmipc_client_published(client);
	} else if (shmipc_burst_add(&client->burst, id, req, len)) {
		shmipc_client_publish(client);
	}
	return 0;
}

static inline void shmipc_client_flush(struct shmipc_client *client)
{
	shmipc_client_publish(client);
	if (client->unfenced)
		shmipc_client_wake_test(client);
}

/*
 * After a poll. The fence of the wake test waits until the lines of the last burst have come,
 * so it is made when there is nothing else to do.
 */
static inline void shmipc_client_polled(struct shmipc_client *client, int found)
{
	if (client->unfenced && (!found || ++client->unfenced >= SHMIPC_UNFENCED))
		shmipc_client_wake_test(client);
}

/*
 * How many responses a poll takes: a quarter of what is in flight. Who drains all and
 * then calls again works in turns with the server instead of at the same time.
 */
static inline int shmipc_client_share(const struct shmipc_client *client)
{
	int quarter = (int)(client->called - client->answered) / 4;

	return quarter > SHMIPC_POLL_MAX ? SHMIPC_POLL_MAX : quarter < 2 ? 2 : quarter;
}

static inline int shmipc_client_poll(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg)
{
	int n = 0, max = shmipc_client_share(client);
	uint64_t head;

	shmipc_client_publish(client);
	while (n < max && shmipc_cursor_ready(&client->resp, &head)) {
		uint32_t id = SHMIPC_ID((uint32_t)(head >> 32));
		const char *payload = shmipc_cursor_payload(&client->resp);

		if (__builtin_expect(id >= client->depth ||
					     client->calls[id].state != SHMIPC_CALL_BUSY,
			    0)) {
			int err = shmipc_client_stray(client, id);

			if (err)
				return n ? n : err;
			continue;
		}
		client->calls[id].state = SHMIPC_CALL_FREE;
		client->calls[client->n_free++].free = id;
		client->answered++;
		shmipc_cursor_advance(&client->resp, client->resp.stride);
		/* The next line of the burst, while fn makes of this one what it likes. */
		__builtin_prefetch(client->resp.slot + 64);
		n++;
		fn(arg, client->calls[id].token, payload);
	}
	shmipc_client_polled(client, n);
	if (n == 0) {
		if (__builtin_expect(--client->idle_left > 0, 1))
			return 0;
		return shmipc_client_idle(client);
	}
	client->idle_left = SHMIPC_IDLE_POLLS;
	if (__builtin_expect(client->waiting, 0))
		shmipc_client_resume(client);
	return n;
}

static inline uint32_t shmipc_client_pending(const struct shmipc_client *client)
{
	return (uint32_t)(client->called - client->answered);
}

static inline void shmipc_server_published(struct shmipc_server *server, struct shmipc_peer *peer)
{
	if (!peer->unflushed) {
		peer->unflushed = 1;
		server->unflushed[server->n_unflushed++] = peer;
	}
	server->unfenced++;
}

/* Before the place of the burst's client is cleaned: it shall not reach the next one. */
static inline void shmipc_server_publish(struct shmipc_server *server)
{
	if (!server->burst.to)
		return;
	shmipc_burst_copy(&server->burst);
	shmipc_server_published(server, server->burst_peer);
}

static inline void shmipc_server_flush(struct shmipc_server *server)
{
	shmipc_server_publish(server);
	if (server->unfenced)
		shmipc_server_wake_test(server);
}

/* An honest client has at most depth calls open; a hostile one gets no more. */
static inline uint32_t shmipc_peer_quota(const struct shmipc_peer *peer, uint32_t depth)
{
	uint32_t room = depth - (peer->received - peer->replied);

	return room < SHMIPC_VISIT_MAX ? room : SHMIPC_VISIT_MAX;
}

static inline int shmipc_server_poll_with_skip(struct shmipc_server *server, const uint64_t *skip)
{
	uint32_t n = 0, i, at;
	uint64_t head;

	shmipc_server_publish(server);
	/* Acquire: pairs with the release of a client's add, after it took its place. */
	if (__builtin_expect(
		    __atomic_load_n(server->changes, __ATOMIC_ACQUIRE) != server->seen, 0))
		shmipc_server_rescan(server);
	if (__builtin_expect(--server->budget <= 0, 0))
		shmipc_server_rest(server);
	at = ++server->start < server->n_active ? server->start : (server->start = 0);
	for (i = 0; i < server->n_active; i++) {
		struct shmipc_peer *peer = server->active[at];

		at = at + 1 < server->n_active ? at + 1 : 0;
		if (skip && skip[peer->index / 64] >> peer->index % 64 & 1)
			continue;
		server->visits[n].peer = peer;
		server->visits[n].left = shmipc_peer_quota(peer, server->depth);
		/* The others of this visit are looked for when it is their turn: the first
		 * reply shall not wait for the last request. */
		n += server->visits[n].left && shmipc_cursor_ready(&peer->req, &head);
	}
	server->visit = 0;
	server->n_visits = n;
	if (server->unfenced && (!n || ++server->unfenced >= SHMIPC_UNFENCED)) /* as the client */
		shmipc_server_wake_test(server);
	return (int)n;
}

static inline int shmipc_server_poll(struct shmipc_server *server)
{
	return shmipc_server_poll_with_skip(server, NULL);
}

static inline int shmipc_server_recv(struct shmipc_server *server, struct shmipc_req *req,
	void *buf, uint32_t len)
{
	if (__builtin_expect(len > server->req_size, 0))
		return -EMSGSIZE;
	for (; server->visit < server->n_visits; server->visit++) {
		struct shmipc_visit *visit = &server->visits[server->visit];
		struct shmipc_peer *peer = visit->peer;
		const char *payload;
		uint64_t head;

		if (!visit->left || !shmipc_cursor_ready(&peer->req, &head))
			continue;
		payload = shmipc_cursor_payload(&peer->req);
		req->client = peer->handle;
		req->id = (uint32_t)(head >> 32);
		shmipc_cursor_advance(&peer->req, peer->req.stride);
		peer->received++;
		visit->left--;
		server->budget--;
		shmipc_copy(buf, payload, len);
		return 1;
	}
	shmipc_server_publish(server);
	return 0;
}

/* A reply to a client other than the burst's, or the first one. */
static inline void shmipc_server_turn(struct shmipc_server *server, struct shmipc_peer *peer,
	uint32_t limit)
{
	shmipc_server_publish(server);
	if (limit > 1) {
		shmipc_burst_begin(&server->burst, &peer->resp, limit);
		server->burst_peer = peer;
	}
}

static inline int shmipc_server_reply(struct shmipc_server *server, uint32_t client, uint32_t id,
	const void *resp, uint32_t len)
{
	uint32_t index = SHMIPC_CLIENT_INDEX(client);
	struct shmipc_peer *peer;

	if (__builtin_expect(index >= server->max_clients, 0))
		return -EPIPE;
	peer = &server->peers[index];
	if (__builtin_expect(peer->handle != client, 0))
		return -EPIPE;
	if (__builtin_expect(peer->received == peer->replied, 0))
		return -EINVAL;
	if (__builtin_expect(len > server->resp_size, 0))
		return -EMSGSIZE;
	peer->replied++;
	if (server->burst.to != &peer->resp)
		shmipc_server_turn(server, peer, id >> SHMIPC_ID_BITS);
	if (!server->burst.to) {
		shmipc_cursor_put(&peer->resp, id, resp, len);
		shmipc_server_published(server, peer);
	} else if (shmipc_burst_add(&server->burst, id, resp, len)) {
		shmipc_server_publish(server);
	}
	return 0;
}

#endif
