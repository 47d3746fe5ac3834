/* SPDX-License-Identifier: MIT */
/*
 * The hot path of shmipc.h, inlined into its users. Users include shmipc.h, which includes this
 * file. The fields of the structs here are private to the library: users must not access them.
 *
 * The rings are those of cellring.h, which explains why a reader never sees a wrong message, and
 * states a condition on space. That condition holds here: at most depth calls are in flight, and a
 * ring has more than depth cells. A response proves to the client that the request has been read.
 * The n-th call proves to the server that at least n - depth responses have been read. A post
 * counts as a call until the server's count proves that the post has been read. The response ring
 * has one more cell for each push that the client may not have read yet. The head of a message is
 * untrusted, because another process writes it: cellring_arrive() checks the count in it, and the
 * code that takes the message checks the id and the length.
 *
 * Sleep and wake: a sleeper sets its word (server_state or client_state), executes a fence, checks
 * once more for messages, and sleeps. A publisher executes a fence and then reads the word; this is
 * a wake test. SHMIPC_UNFENCED and SHMIPC_VAIN say when it is made. One of the two fences is first,
 * so either the publisher sees that the word is set, or the sleeper sees the message.
 */
#ifndef SHMIPC_INLINE_H
#define SHMIPC_INLINE_H

#include <errno.h>
#include <string.h>

#include <cellring.h>

#define SHMIPC_MAGIC 0x31304350494d4853ull /* "SHMIPC01" */
#define SHMIPC_VERSION 9u /* version of the region's layout */

#define SHMIPC_VISIT_MAX 8 /* maximum of requests of one client per server poll */
#define SHMIPC_IDLE_POLLS 16 /* successive empty polls before shmipc_priv_client_idle() */
#define SHMIPC_UNFENCED 64 /* bursts, and polls that find messages, until a wake test, ... */
#define SHMIPC_VAIN 8 /* ... or polls after the last burst that find nothing, until a wake test */

enum shmipc_call_state {
	SHMIPC_CALL_FREE,
	SHMIPC_CALL_BUSY,
	SHMIPC_CALL_GIVEN_UP, /* in flight, but its response will be dropped */
	SHMIPC_CALL_LOANED, /* in flight, with a loan */
};

#define SHMIPC_OPEN_LOANED 2 /* value of shmipc_peer.open: the request is in a loan */

struct shmipc_call {
	uint64_t token;
	uint32_t state;
	uint32_t free; /* an entry of the queue of free ids; it does not belong to this call */
};

enum shmipc_asked { /* whether a wait ends when there is room for calls and posts */
	SHMIPC_ASKED_NOT,
	SHMIPC_ASKED, /* a wait ends when the server has consumed posts */
	SHMIPC_ASKED_ROOM, /* room has been found */
};

/*
 * Free ids are kept in a queue: a call takes the id at index `called`, and a response puts its id
 * at index depth + `answered`. A stack would have one counter that both calls and responses update,
 * and each load of the counter would wait for the previous store.
 */
struct shmipc_client {
	struct cellring_cursor req, resp;
	struct shmipc_call *calls; /* by id; their number is a power of two */
	uint32_t calls_mask;
	uint32_t depth;
	uint32_t open_max; /* limit of calls in flight: depth - posts_open, or 0 after the end */
	uint32_t req_size, resp_size;
	uint64_t called, answered;
	uint32_t window; /* calls in flight at the last poll, except polls without new calls */
	/*
	 * A call with fewer than this number of other calls in flight is published alone, unless a
	 * burst is open.
	 */
	uint32_t alone;
	uint64_t polled; /* value of `called` at the poll that set `window` */
	uint64_t returned; /* value of `called` from which in_a_row is counted */
	uint32_t in_a_row; /* calls made in succession before the poll that set `window` */
	const uint32_t *server_state; /* not 0: the server sleeps; in the region */
	uint32_t unfenced; /* bursts, and polls that found messages, since the last wake test */
	uint32_t vain; /* polls that found nothing since the last burst */
	int32_t idle_left; /* empty polls left before shmipc_priv_client_idle() */
	/*
	 * Calls of shmipc_priv_client_idle() in this wait, at most 3. The third one sets the state
	 * to WAITING.
	 */
	uint32_t idle;
	struct shmipc_client_loans *loans; /* NULL: the region has none */
	struct cellring_burst burst;
	struct shmipc_place *place; /* in the region */
	uint64_t posts, pushes; /* posts made, and pushes taken, since connect */
	uint32_t posts_open; /* posts that are not known to be consumed */
	uint32_t asked; /* enum shmipc_asked */
	uint32_t push_max; /* pushes that the region has room for */
	shmipc_push_fn *push;
	void *push_arg;
};

struct shmipc_peer { /* a client, as the server sees it */
	struct cellring_cursor req, resp;
	const uint32_t *state; /* not 0: the client yields or sleeps; in the region */
	uint8_t *open; /* by id: received and not answered yet */
	uint64_t handle; /* UINT64_MAX: not connected */
	uint32_t together; /* replies per burst, as the client's last burst requests; unchecked */
	uint32_t index;
	uint32_t unfenced; /* not 0: this peer is in the list unfenced_peers */
	uint32_t posts; /* posts consumed since the client came; a private copy */
	uint64_t epoch; /* private copy of server_epoch */
	struct shmipc_place *place; /* in the region */
	uint32_t pushes, pushes_seen; /* since the client came: sent; consumed, when last read */
};

struct shmipc_visit {
	struct shmipc_peer *peer;
	unsigned char *until; /* end of the requests that may be taken */
	uint32_t left; /* further requests that may be taken in this visit */
};

struct shmipc_server {
	struct shmipc_peer *peers; /* by index */
	struct shmipc_peer **active; /* the connected peers */
	struct shmipc_visit *visits; /* the clients whose requests the last poll found */
	struct shmipc_peer **unfenced_peers; /* got messages since the last wake test */
	const uint32_t *changes; /* counts connects and disconnects, in the region */
	uint64_t requests, replies; /* since create */
	uint32_t seen; /* last value read from changes */
	uint32_t n_active, n_visits, visit, n_unfenced_peers;
	uint32_t unfenced, vain; /* see struct shmipc_client */
	uint32_t start; /* index in active of the client that was visited first */
	int32_t budget; /* polls and requests until the clock is read next */
	uint32_t max_clients, depth, req_size, resp_size;
	uint32_t tells; /* not 0: the server takes events */
	struct shmipc_peer *burst_peer; /* the client whose replies are in the burst */
	unsigned char *polled; /* burst.next at the end of the last poll */
	struct cellring_burst burst;
	unsigned char *copy; /* copy of the request that is being served */
	uint64_t posts, pushes, refused_pushes; /* since create */
	uint32_t push_max; /* maximum of unconsumed pushes per client */
	struct shmipc_server_loans *loans; /* NULL: the region has none */
};

/* The slow paths of the functions below. */
int shmipc_priv_client_refused(struct shmipc_client *client);
void shmipc_priv_client_wake_test(struct shmipc_client *client);
void shmipc_priv_server_wake_test(struct shmipc_server *server);
/* Opens a burst for the next message. Returns 0 if the message must be published alone. */
int shmipc_priv_client_begin(struct shmipc_client *client);
int shmipc_priv_server_begin(struct shmipc_server *server, struct shmipc_peer *peer);
/* Publishes a full burst. */
void shmipc_priv_client_full(struct shmipc_client *client);
void shmipc_priv_server_full(struct shmipc_server *server);
/* Publishes a burst that is not full. */
void shmipc_priv_client_part(struct shmipc_client *client);
void shmipc_priv_server_part(struct shmipc_server *server);
/* Publishes the open burst, and closes it. */
void shmipc_priv_client_end_burst(struct shmipc_client *client);
void shmipc_priv_server_end_burst(struct shmipc_server *server);
int shmipc_priv_client_spoilt(struct shmipc_client *client);
int shmipc_priv_client_stray(struct shmipc_client *client, shmipc_response_fn *fn, void *arg);
int shmipc_priv_client_idle(struct shmipc_client *client);
void shmipc_priv_client_resume(struct shmipc_client *client);
uint32_t shmipc_priv_server_forged(struct shmipc_peer *peer);
void shmipc_priv_server_rescan(struct shmipc_server *server);
/* Returns a value other than 0 if there is an event to take. */
int shmipc_priv_server_untold(struct shmipc_server *server);
void shmipc_priv_server_rest(struct shmipc_server *server);
/* Returns 1 if a message that is not a call is a post; otherwise drops it and returns 0. */
int shmipc_priv_server_is_post(struct shmipc_server *server, uint64_t head);
/* Counts a post, after it has been copied. */
void shmipc_priv_server_consumed(struct shmipc_server *server);
int shmipc_priv_server_loaned(struct shmipc_server *server, const unsigned char *slot,
	struct shmipc_req *req_p, void *buf, uint32_t capacity, const void **in_place_p);
int shmipc_priv_server_gone(struct shmipc_server *server, uint64_t client, uint32_t id);

static inline void shmipc_priv_client_published(struct shmipc_client *client)
{
	client->unfenced++;
	client->vain = 0;
}

static inline void shmipc_priv_client_publish(struct shmipc_client *client)
{
	if (client->burst.next != client->burst.stage)
		shmipc_priv_client_part(client);
}

/* Sends the message of a call that was made with @open other calls in flight. */
CELLRING_INLINE void shmipc_priv_client_put(struct shmipc_client *client, uint32_t open,
	uint32_t id, const void *req, uint32_t len)
{
	if (client->burst.to || (open >= client->alone && shmipc_priv_client_begin(client))) {
		if (cellring_burst_add(&client->burst, id, req, len))
			shmipc_priv_client_full(client);
	} else {
		CELLRING_PROBE2(shmipc, client_publish, client, 1);
		cellring_put(&client->req, id, req, len);
		shmipc_priv_client_published(client);
	}
}

SHMIPC_INLINE int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token)
{
	uint64_t n = client->called;
	uint32_t open = (uint32_t)(n - client->answered), id;

	if (__builtin_expect(len > client->req_size, 0))
		return -EMSGSIZE;
	if (__builtin_expect(open >= client->open_max, 0))
		return shmipc_priv_client_refused(client);
	id = client->calls[n & client->calls_mask].free;
	client->called = n + 1;
	client->calls[id].state = SHMIPC_CALL_BUSY;
	client->calls[id].token = token;
	shmipc_priv_client_put(client, open, id, req, len);
	return 0;
}

SHMIPC_INLINE void shmipc_client_flush(struct shmipc_client *client)
{
	shmipc_priv_client_publish(client);
	if (client->unfenced)
		shmipc_priv_client_wake_test(client);
}

/*
 * Must be called after a poll. The wake test executes a fence, which waits until the core has got
 * the cache lines of the last burst. So the test is made only some polls after the burst.
 */
static inline void shmipc_priv_client_polled(struct shmipc_client *client, int found)
{
	if (!client->unfenced)
		return;
	if (found ? ++client->unfenced >= SHMIPC_UNFENCED : ++client->vain >= SHMIPC_VAIN)
		shmipc_priv_client_wake_test(client);
}

/*
 * Records how many calls the client keeps in flight: the number at a poll, if there were new calls
 * since the previous poll. Between two polls there may be fewer, or none if a loop polls until it
 * gets nothing and then makes its calls. Also records how many of the new calls were made in
 * succession. Calls that the response function made do not count, because responses come between
 * them.
 */
static inline void shmipc_priv_client_window(struct shmipc_client *client)
{
	uint64_t called = client->called;

	/*
	 * Prevents one wide load of called and answered, which were stored one by one: the load
	 * could not be forwarded, and would wait until these stores, and those to the ring before
	 * them, have left the store buffer.
	 */
	__asm__("" : "+r"(called));
	if (client->polled == called)
		return;
	client->polled = called;
	client->in_a_row = (uint32_t)(called - client->returned);
	client->returned = called;
	client->window = (uint32_t)(called - client->answered);
	client->alone = client->window < CELLRING_FEW ? CELLRING_FEW - 1 : 0;
}

/*
 * Polls for the next burst. Returns 1 if it has arrived, 0 if not, or -EPROTO if its count is
 * impossible.
 */
static inline int shmipc_priv_client_look(struct shmipc_client *client)
{
	uint64_t head = cellring_look(&client->resp);

	if (!head) {
		cellring_await(&client->resp);
		return 0;
	}
	if (__builtin_expect(!cellring_arrive(&client->resp, head), 0))
		return shmipc_priv_client_spoilt(client);
	return 1;
}

/*
 * Takes at most @max of the responses that have arrived. Stops at a response that is too long, that
 * belongs to no open call, or that belongs to a call with a loan. Returns how many it has taken.
 */
static inline int shmipc_priv_client_take(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg, int max)
{
	unsigned char *slot = client->resp.slot, *ready = client->resp.ready;
	uint64_t answered = client->answered;
	int n = 0;

	while (n < max && slot != ready) {
		const void *payload = cellring_payload(slot);
		uint64_t head = cellring_head(slot);
		uint32_t id = CELLRING_ID(head), len = CELLRING_LENGTH(head);

		if (__builtin_expect(id >= client->depth || len > client->resp_size ||
					     client->calls[id].state != SHMIPC_CALL_BUSY,
			    0))
			break;
		client->calls[id].state = SHMIPC_CALL_FREE;
		client->calls[(client->depth + answered++) & client->calls_mask].free = id;
		client->answered = answered; /* fn may call shmipc_client_call() */
		slot += client->resp.stride;
		n++;
		fn(arg, client->calls[id].token, payload, len);
	}
	client->resp.slot = slot;
	if (slot == ready)
		cellring_step(&client->resp, client->resp.next);
	return n;
}

SHMIPC_INLINE int shmipc_client_poll(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg)
{
	int n = 0, r;

	shmipc_priv_client_publish(client);
	shmipc_priv_client_window(client);
	do {
		if (client->resp.slot == client->resp.ready) {
			r = shmipc_priv_client_look(client);
			if (__builtin_expect(r < 0, 0))
				return n ? n : r;
			if (!r)
				break;
		}
		n += shmipc_priv_client_take(client, fn, arg, SHMIPC_POLL_MAX - n);
		if (__builtin_expect(n < SHMIPC_POLL_MAX && client->resp.slot != client->resp.ready,
			    0)) {
			r = shmipc_priv_client_stray(client, fn, arg);
			if (r < 0)
				return n ? n : r;
			n += r;
		}
	} while (n < SHMIPC_POLL_MAX);
	if (client->burst.to && client->alone &&
		(uint32_t)(client->called - client->answered) < CELLRING_FEW)
		shmipc_priv_client_end_burst(client);
	shmipc_priv_client_publish(client);
	shmipc_priv_client_polled(client, n);
	if (n == 0) {
		if (__builtin_expect(--client->idle_left > 0, 1))
			return 0;
		return shmipc_priv_client_idle(client);
	}
	client->returned = client->called;
	client->idle_left = SHMIPC_IDLE_POLLS;
	if (__builtin_expect(client->idle, 0))
		shmipc_priv_client_resume(client);
	return n;
}

SHMIPC_INLINE uint32_t shmipc_client_pending(const struct shmipc_client *client)
{
	return (uint32_t)(client->called - client->answered);
}

static inline void shmipc_priv_server_published(struct shmipc_server *server,
	struct shmipc_peer *peer)
{
	if (!peer->unfenced) {
		peer->unfenced = 1;
		server->unfenced_peers[server->n_unfenced_peers++] = peer;
	}
	server->unfenced++;
	server->vain = 0;
}

static inline void shmipc_priv_server_publish(struct shmipc_server *server)
{
	if (server->burst.next != server->burst.stage)
		shmipc_priv_server_part(server);
}

SHMIPC_INLINE void shmipc_server_flush(struct shmipc_server *server)
{
	shmipc_priv_server_publish(server);
	if (server->unfenced)
		shmipc_priv_server_wake_test(server);
}

static inline void shmipc_priv_server_polled(struct shmipc_server *server, uint32_t found)
{
	if (!server->unfenced) /* see shmipc_priv_client_polled() */
		return;
	if (found ? ++server->unfenced >= SHMIPC_UNFENCED : ++server->vain >= SHMIPC_VAIN)
		shmipc_priv_server_wake_test(server);
}

/* Returns the number of requests in the next burst of this client; 0 if it has not arrived. */
static inline uint32_t shmipc_priv_server_look(struct shmipc_server *server,
	struct shmipc_peer *peer)
{
	uint64_t head = cellring_look(&peer->req);
	uint32_t together = CELLRING_TOGETHER(head), count;

	if (!head)
		return 0;
	count = cellring_arrive(&peer->req, head);
	if (__builtin_expect(!count, 0))
		count = shmipc_priv_server_forged(peer);
	if (__builtin_expect(peer->together != together, 0)) {
		peer->together = together;
		if (server->burst.to == &peer->resp)
			shmipc_priv_server_end_burst(server);
	}
	return count;
}

/*
 * Sets how far this visit may read. Returns 1, or 0 if the visit may take no more requests or none
 * has arrived. One burst may be read in two visits.
 */
CELLRING_INLINE int shmipc_priv_server_visit(struct shmipc_server *server,
	struct shmipc_visit *visit)
{
	struct cellring_cursor *at = &visit->peer->req;
	uint32_t n;

	if (!visit->left)
		return 0;
	if (at->slot == at->ready)
		n = shmipc_priv_server_look(server, visit->peer);
	else
		n = cellring_left(at);
	if (!n)
		return 0;
	n = n < visit->left ? n : visit->left;
	visit->until = at->slot + n * at->stride;
	visit->left -= n;
	server->budget -= (int32_t)n;
	return 1;
}

/*
 * Returns the visit whose client has the next request, or NULL if no visit of the last poll has a
 * request left that may be taken. Inlined, because a function call would take a tenth of the
 * instructions of a round trip.
 */
CELLRING_INLINE struct shmipc_visit *shmipc_priv_server_left(struct shmipc_server *server)
{
	while (server->visit < server->n_visits) {
		struct shmipc_visit *visit = &server->visits[server->visit];

		if (visit->peer->req.slot != visit->until ||
			shmipc_priv_server_visit(server, visit))
			return visit;
		server->visit++;
	}
	return NULL;
}

/* Finds the clients that have requests. Returns how many. */
static inline uint32_t shmipc_priv_server_find(struct shmipc_server *server, const uint64_t *skip)
{
	uint32_t n = 0, at;

	at = ++server->start < server->n_active ? server->start : (server->start = 0);
	for (uint32_t i = 0; i < server->n_active; i++) {
		struct shmipc_peer *peer = server->active[at];

		at = at + 1 < server->n_active ? at + 1 : 0;
		if (skip && skip[peer->index / 64] >> peer->index % 64 & 1)
			continue;
		if (!cellring_ready(&peer->req))
			continue;
		server->visits[n].peer = peer;
		server->visits[n].left = SHMIPC_VISIT_MAX;
		/* The burst is read when the client has its turn, so that the first reply need
		 * not wait for the last request. */
		server->visits[n++].until = peer->req.slot;
	}
	if (!n && server->n_active)
		cellring_await(&server->active[server->start]->req);
	server->visit = 0;
	server->n_visits = n;
	return n;
}

SHMIPC_INLINE int shmipc_server_poll_with_skip(struct shmipc_server *server, const uint64_t *skip)
{
	uint32_t n;

	/* Acquire: pairs with the release in server_notify(), after a client took its place. */
	if (__builtin_expect(__atomic_load_n(server->changes, __ATOMIC_ACQUIRE) != server->seen, 0))
		shmipc_priv_server_rescan(server);
	if (__builtin_expect(--server->budget <= 0, 0))
		shmipc_priv_server_rest(server);
	/*
	 * The clients that the last poll found are finished first. Otherwise the replies to a
	 * client would be published one by one, and each poll would read all rings.
	 */
	if (!skip && shmipc_priv_server_left(server))
		n = server->n_visits - server->visit;
	else
		n = shmipc_priv_server_find(server, skip);
	if (!n || server->polled == server->burst.next)
		shmipc_priv_server_publish(server);
	server->polled = server->burst.next;
	shmipc_priv_server_polled(server, n);
	return (int)n;
}

SHMIPC_INLINE int shmipc_server_poll(struct shmipc_server *server)
{
	return shmipc_server_poll_with_skip(server, NULL);
}

/*
 * Takes the next request, and copies it to buf. If in_place_p is not NULL, a request in a loan is
 * not copied, and *in_place_p becomes the address of the payload, in the loan or in buf. Returns 1,
 * or 0 if there is no request.
 */
CELLRING_INLINE int shmipc_priv_server_next(struct shmipc_server *server, struct shmipc_req *req_p,
	void *buf, uint32_t capacity, const void **in_place_p)
{
	struct shmipc_visit *visit;

	while ((visit = shmipc_priv_server_left(server))) {
		struct shmipc_peer *peer = visit->peer;
		unsigned char *slot = peer->req.slot;
		uint32_t id, len;
		uint64_t head;

		head = cellring_head(slot); /* read once, then checked */
		id = CELLRING_ID(head);
		len = CELLRING_LENGTH(head);
		peer->req.slot = slot + peer->req.stride;
		if (peer->req.slot == peer->req.ready) {
			cellring_step(&peer->req, peer->req.next);
			visit->until = peer->req.slot;
		}
		if (__builtin_expect(id >= server->depth || len > server->req_size, 0) ||
			__builtin_expect(peer->open[id], 0)) {
			if (shmipc_priv_server_loaned(server, slot, req_p, buf, capacity,
				    in_place_p))
				return 1;
			if (!shmipc_priv_server_is_post(server, head))
				continue;
			req_p->client = peer->handle;
			req_p->id = SHMIPC_POST;
			req_p->len = len;
			cellring_take(buf, cellring_payload(slot), len, capacity, server->req_size);
			if (in_place_p)
				*in_place_p = buf;
			shmipc_priv_server_consumed(server);
			return 1;
		}
		peer->open[id] = 1;
		server->requests++;
		req_p->client = peer->handle;
		req_p->id = id;
		req_p->len = len;
		cellring_take(buf, cellring_payload(slot), len, capacity, server->req_size);
		if (in_place_p)
			*in_place_p = buf;
		return 1;
	}
	shmipc_priv_server_publish(server);
	return 0;
}

SHMIPC_INLINE int shmipc_server_recv(struct shmipc_server *server, struct shmipc_req *req_p,
	void *buf, uint32_t capacity)
{
	return shmipc_priv_server_next(server, req_p, buf, capacity, NULL);
}

SHMIPC_INLINE int shmipc_server_take(struct shmipc_server *server, struct shmipc_req *req_p,
	const void **payload_p)
{
	return shmipc_priv_server_next(server, req_p, server->copy, server->req_size, payload_p);
}

/* Sends a message to a client: a reply, or a push. */
CELLRING_INLINE void shmipc_priv_server_put(struct shmipc_server *server, struct shmipc_peer *peer,
	uint32_t id, const void *resp, uint32_t len)
{
	if (server->burst.to == &peer->resp || ((server->burst.to || peer->together > 1) &&
						       shmipc_priv_server_begin(server, peer))) {
		if (cellring_burst_add(&server->burst, id, resp, len))
			shmipc_priv_server_full(server);
	} else {
		CELLRING_PROBE3(shmipc, server_publish, server, peer->index, 1);
		cellring_put(&peer->resp, id, resp, len);
		shmipc_priv_server_published(server, peer);
	}
}

SHMIPC_INLINE int shmipc_server_reply(struct shmipc_server *server, uint64_t client, uint32_t id,
	const void *resp, uint32_t len)
{
	uint32_t index = SHMIPC_CLIENT_INDEX(client);
	struct shmipc_peer *peer;

	if (__builtin_expect(index >= server->max_clients, 0))
		return -EINVAL;
	peer = &server->peers[index];
	if (__builtin_expect(peer->handle != client, 0))
		return shmipc_priv_server_gone(server, client, id);
	if (__builtin_expect(id >= server->depth || !peer->open[id], 0))
		return -EINVAL;
	if (__builtin_expect(len > server->resp_size, 0))
		return -EMSGSIZE;
	peer->open[id] = 0;
	server->replies++;
	shmipc_priv_server_put(server, peer, id, resp, len);
	return 0;
}

SHMIPC_INLINE int shmipc_server_serve(struct shmipc_server *server, shmipc_serve_fn *fn, void *arg,
	uint32_t max)
{
	const void *payload;
	struct shmipc_req req;
	uint32_t n = 0;

	shmipc_server_poll(server);
	if (server->tells && shmipc_priv_server_untold(server))
		return 0;
	while (n < max && shmipc_server_take(server, &req, &payload)) {
		n++;
		fn(arg, &req, payload);
	}
	if (n)
		shmipc_server_flush(server);
	return (int)n;
}

#endif
