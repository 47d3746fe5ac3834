/* SPDX-License-Identifier: MIT */
/*
 * The hot path of shmipc.h, inlined into its users; included by it, not by them. The
 * fields of these structs are the library's: no user reads or writes them.
 *
 * A ring is an array of slots of half a cache line or whole ones, {lap, id, payload}. The producer
 * fills a slot and stores its lap number last, with release; the consumer, whose own
 * cursor says which lap it expects where, loads it with acquire and never writes. A
 * slot is free for the next lap by count alone: at most depth calls are in flight, a
 * ring has more slots than that, and a response that has arrived proves that its
 * request, and the responses depth calls before it, have been read. Laps are compared
 * for equality only, so their wrap is harmless; a clean ring is all zero, the first lap
 * is 1.
 *
 * Sleep and wake: a sleeper sets its word, fences, looks once more, and sleeps; a
 * publisher, once per burst, fences and then reads the word. One of the two fences is
 * first: then either the publisher sees the word, or the sleeper sees the message.
 */
#ifndef SHMIPC_INLINE_H
#define SHMIPC_INLINE_H

#include <errno.h>
#include <string.h>

#define SHMIPC_VISIT_MAX 8 /* requests that one client gets per server poll */
#define SHMIPC_IDLE_POLLS 32 /* empty client polls in a row until the slow path, about 1 us */

struct shmipc_slot {
	uint32_t lap;
	uint32_t id;
	/* payload, aligned to 8 */
};

struct shmipc_cursor {
	char *slot, *base, *end;
	uint32_t stride;
	uint32_t lap; /* of the slot, when it is filled in */
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
	uint32_t unflushed; /* calls were made since the last wake test */
	uint64_t called, answered;
	const uint32_t *server_state; /* not 0: the server sleeps; in the region */
	int32_t idle_left; /* empty polls until the slow path */
	uint32_t waiting; /* the server was told that this client waits */
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
	struct shmipc_peer **unflushed; /* replied to since the last wake test */
	const uint32_t *changes; /* counts connects and disconnects, in the region */
	uint32_t seen; /* of changes */
	uint32_t n_active, n_visits, visit, n_unflushed;
	uint32_t start; /* in active: who was visited first */
	int32_t budget; /* work until the next look at the clock */
	uint32_t max_clients, depth, req_size, resp_size;
};

/* Out of line, for the functions below only. */
int shmipc_client_refused(const struct shmipc_client *client);
int shmipc_client_stray(struct shmipc_client *client, uint32_t id);
int shmipc_client_idle(struct shmipc_client *client);
void shmipc_client_resume(struct shmipc_client *client);
void shmipc_client_wake_server(struct shmipc_client *client);
void shmipc_server_peer_waits(struct shmipc_server *server, struct shmipc_peer *peer);
void shmipc_server_rescan(struct shmipc_server *server);
void shmipc_server_rest(struct shmipc_server *server);

/* The full fence of the sleep handshake. ThreadSanitizer does not model it, nor need it:
 * data are ordered by the laps. */
static inline void shmipc_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

/*
 * memcpy() to and from a slot. GCC expands a copy of constant length in place and leaves
 * it out of ThreadSanitizer's sight; a call it intercepts.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
__attribute__((noipa, unused)) static void shmipc_copy(void *to, const void *from, uint32_t len)
#else
static inline void shmipc_copy(void *to, const void *from, uint32_t len)
#endif
{
	memcpy(to, from, len);
}

static inline void shmipc_cursor_advance(struct shmipc_cursor *at)
{
	at->slot += at->stride;
	if (__builtin_expect(at->slot == at->end, 0)) {
		at->slot = at->base;
		at->lap++;
	}
}

/* Is the slot filled in? Acquire: pairs with the release in shmipc_cursor_put(). */
static inline int shmipc_cursor_ready(const struct shmipc_cursor *at)
{
	const struct shmipc_slot *slot = (const struct shmipc_slot *)at->slot;

	return __atomic_load_n(&slot->lap, __ATOMIC_ACQUIRE) == at->lap;
}

/* The id of a slot that is ready. One load: the peer can change it at any time. */
static inline uint32_t shmipc_cursor_id(const struct shmipc_cursor *at)
{
	const struct shmipc_slot *slot = (const struct shmipc_slot *)at->slot;

	return __atomic_load_n(&slot->id, __ATOMIC_RELAXED);
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
	uint32_t lap = at->lap;

	shmipc_cursor_advance(at);
	__atomic_store_n(&slot->id, id, __ATOMIC_RELAXED); /* read by shmipc_cursor_id() */
	shmipc_copy(slot + 1, data, len);
	/* Release: pairs with the acquire in shmipc_cursor_ready(). */
	__atomic_store_n(&slot->lap, lap, __ATOMIC_RELEASE);
}

static inline int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token)
{
	uint32_t n = client->n_free, id;

	if (__builtin_expect(len > client->req_size, 0))
		return -EMSGSIZE;
	if (__builtin_expect(n == 0, 0))
		return shmipc_client_refused(client);
	client->n_free = --n;
	id = client->calls[n].free;
	client->calls[id].state = SHMIPC_CALL_BUSY;
	client->calls[id].token = token;
	client->called++;
	client->unflushed = 1;
	shmipc_cursor_put(&client->req, id, req, len);
	return 0;
}

static inline void shmipc_client_flush(struct shmipc_client *client)
{
	if (!client->unflushed)
		return;
	client->unflushed = 0;
	/* After the laps, before the word: pairs with the fence of a server about to sleep. */
	shmipc_fence();
	/* Relaxed: the fences order it; pairs with the stores in shmipc_server_wait(). */
	if (__builtin_expect(__atomic_load_n(client->server_state, __ATOMIC_RELAXED) != 0, 0))
		shmipc_client_wake_server(client);
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

	shmipc_client_flush(client);
	while (n < max && shmipc_cursor_ready(&client->resp)) {
		uint32_t id = shmipc_cursor_id(&client->resp);
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
		shmipc_cursor_advance(&client->resp);
		n++;
		fn(arg, client->calls[id].token, payload);
	}
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

static inline void shmipc_server_flush(struct shmipc_server *server)
{
	uint32_t n = server->n_unflushed;

	if (!n)
		return;
	server->n_unflushed = 0;
	/* After the laps, before the words: pairs with the fence of a client about to sleep. */
	shmipc_fence();
	for (uint32_t i = 0; i < n; i++) {
		struct shmipc_peer *peer = server->unflushed[i];

		peer->unflushed = 0;
		/* Relaxed, as in shmipc_client_flush(); the client's word. */
		if (__builtin_expect(__atomic_load_n(peer->state, __ATOMIC_RELAXED) != 0, 0))
			shmipc_server_peer_waits(server, peer);
	}
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

	shmipc_server_flush(server);
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
		n += server->visits[n].left && shmipc_cursor_ready(&peer->req);
	}
	server->visit = 0;
	server->n_visits = n;
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

		if (!visit->left || !shmipc_cursor_ready(&peer->req))
			continue;
		payload = shmipc_cursor_payload(&peer->req);
		req->client = peer->handle;
		req->id = shmipc_cursor_id(&peer->req);
		shmipc_cursor_advance(&peer->req);
		peer->received++;
		visit->left--;
		server->budget--;
		shmipc_copy(buf, payload, len);
		return 1;
	}
	return 0;
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
	if (!peer->unflushed) {
		peer->unflushed = 1;
		server->unflushed[server->n_unflushed++] = peer;
	}
	shmipc_cursor_put(&peer->resp, id, resp, len);
	return 0;
}

#endif
