/* SPDX-License-Identifier: MIT */
/*
 * The hot path of delegrpc.h, which includes this file and documents the functions. Names that
 * delegrpc.h does not describe are private to the library. The slow paths are the library's
 * functions delegrpc_priv_*.
 *
 * The region, layout version 8, all fields little-endian:
 *
 *	   0	struct delegrpc_header		128 B
 *	 128	struct delegrpc_control		128 B
 *	 256	struct delegrpc_line		128 B for each of max_clients
 *	  ...	request slots			align16(16 + req_size) for each of ring_depth
 *	  ...	response rings			one for each of max_clients, at a multiple
 *						of 64: resp_depth slots of
 *						align8(8 + resp_size)
 *
 * Positions count the messages of a ring from 0. A request position p lies in slot
 * p & (ring_depth - 1), and is filled when the slot's lap is p / ring_depth + 1 (the comparison is
 * for equality only, so the 32 bits of the lap may wrap). A filled slot is written again only by
 * the producer of the next lap. The server only reads the ring. It reads head only after it has
 * found nothing for a while and, if it takes events (delegrpc_server_event()), when a client has
 * ended. The word with the lap also has the index of the request's client (12 bits), the number of
 * replies to this client that should be published together, less one (3 bits), and the length of
 * the payload in bytes (17 bits). The next word is the request's id: the generation of its client
 * (48 bits) and an index (16 bits). A post, a request without a response, has the index
 * DELEGRPC_POST_INDEX.
 *
 * A response position q lies in slot q & (resp_depth - 1) of its client's ring, and is filled when
 * the slot's stamp is {lap q / resp_depth + 1, generation}, the lower 16 bits of each. The
 * generation counts the clients that have had this client id, so that a client does not mistake a
 * response to a predecessor for its own. The generation does not wrap: 2^48 clients, one every 10
 * us, take 89 years. Its lower 16 bits do wrap. So a generation is skipped if its lower 16 bits are
 * those of a generation that the server may still answer. At most two generations are: the last one
 * of which the server has received a request, and the last one that has published a request. The
 * rest of the stamp's word has the request's index (15 bits) and the length of the payload in bytes
 * (17 bits).
 *
 * Slots are packed and written in bursts, because a core can have only a limited number of stores
 * that wait for cache lines of other cores, and stores to private memory between two messages count
 * against this limit as well. So messages are collected in private memory and copied without other
 * stores in between. The stores that make them visible (the laps, or the first stamp) come after
 * all others, so that the reader, which polls the first slot, does not take away a cache line that
 * is half written.
 */
#ifndef DELEGRPC_INLINE_H
#define DELEGRPC_INLINE_H

#include <string.h>

#include <cellring.h>

#define DELEGRPC_MAGIC 0x444C475250435631ull /* "DLGRPCV1" as a number */
#define DELEGRPC_VERSION 8u

#define DELEGRPC_REQ_HEADER 16 /* lap 32 bits, client 12, burst 3, len 17; id 64 bits */
#define DELEGRPC_REQ_CLIENT_SHIFT 32
#define DELEGRPC_REQ_BURST_SHIFT 44
#define DELEGRPC_REQ_LEN_SHIFT 47
#define DELEGRPC_RESP_HEADER 8 /* stamp 4 B, index 15 bits, len 17 bits */
#define DELEGRPC_RESP_ID_BITS 15
#define DELEGRPC_POST_INDEX 0xffffu /* the index in the id of a post */
#define DELEGRPC_ID_SHIFT 16 /* shift of the generation in a request's id */
#define DELEGRPC_GENERATION_MAX ((1ull << (64 - DELEGRPC_ID_SHIFT)) - 1)

#ifdef __cplusplus
#define DELEGRPC_ASSERT(e) static_assert(e, #e)
extern "C" {
#else
#define DELEGRPC_ASSERT(e) _Static_assert(e, #e)
#endif
#define DELEGRPC_AT(type, field, at) DELEGRPC_ASSERT(offsetof(struct type, field) == (at))
#define DELEGRPC_LIKELY(x) __builtin_expect(!!(x), 1)
#define DELEGRPC_UNLIKELY(x) __builtin_expect(!!(x), 0)

#pragma GCC visibility push(default)

DELEGRPC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
DELEGRPC_ASSERT(DELEGRPC_MAX_CLIENTS <= 1 << 12); /* a request has 12 bits for its client */
DELEGRPC_ASSERT(DELEGRPC_BATCH == 1 << 3); /* and 3 bits for the size of a burst, less one */
DELEGRPC_ASSERT(DELEGRPC_MAX_PAYLOAD < 1 << (64 - DELEGRPC_REQ_LEN_SHIFT));
DELEGRPC_ASSERT(DELEGRPC_MAX_RESP_DEPTH <= 1 << DELEGRPC_RESP_ID_BITS);
DELEGRPC_ASSERT(DELEGRPC_MAX_PAYLOAD < 1 << (32 - DELEGRPC_RESP_ID_BITS));
DELEGRPC_ASSERT(DELEGRPC_MAX_RESP_DEPTH <= DELEGRPC_POST_INDEX);

/*
 * After a publication, a fence and a check whether the peer sleeps are due. A fence right after the
 * stores would wait until the core has got all their cache lines. So the check is put off until a
 * poll finds nothing, or until so many publications (of a client) or polls (of a server) were made.
 */
#define DELEGRPC_UNFENCED 16

/*
 * The address of a process that sleeps in poll(2) on its descriptor, a socket. A process that wakes
 * the sleeper sends the cookie to the socket with this name.
 */
struct delegrpc_address {
	uint64_t name; /* 0: it has no descriptor */
	uint64_t cookie;
	uint64_t netns; /* the kernel's number of the network namespace; 0: not known */
};

/*
 * All fields are written at creation. These are also written later:
 *	connects		by clients that connect
 *	server_alive		by the server at its end, and by a client that has found the server
 *				dead, to tell the other clients
 *	server_state		by the server while it waits, by clients when they wake it
 *	changes			by clients that connect, disconnect or find no free id, if the
 *				server takes events
 *	server_address		name and cookie, by the server when it makes a descriptor
 */
struct delegrpc_header {
	uint64_t magic; /* stored last */
	uint32_t version;
	uint32_t max_clients;
	uint32_t ring_depth;
	uint32_t resp_depth;
	uint32_t connects; /* since creation; version 1 had next_client_id here */
	uint8_t server_alive;
	uint8_t pad0[3];
	uint32_t req_size;
	uint32_t resp_size;
	uint64_t region_size;
	uint8_t pad1[16];
	uint32_t server_state; /* enum delegrpc_state; a futex */
	uint32_t changes; /* a new value makes a server that takes events look at all `taken` */
	struct delegrpc_address server_address;
	/*
	 * The address to which clients that connect send introductions, see delegrpc(7). Name 0:
	 * the server takes no events.
	 */
	struct delegrpc_address door;
	uint8_t pad2[8];
};

DELEGRPC_AT(delegrpc_header, magic, 0);
DELEGRPC_AT(delegrpc_header, version, 8);
DELEGRPC_AT(delegrpc_header, max_clients, 12);
DELEGRPC_AT(delegrpc_header, ring_depth, 16);
DELEGRPC_AT(delegrpc_header, resp_depth, 20);
DELEGRPC_AT(delegrpc_header, connects, 24);
DELEGRPC_AT(delegrpc_header, server_alive, 28);
DELEGRPC_AT(delegrpc_header, req_size, 32);
DELEGRPC_AT(delegrpc_header, resp_size, 36);
DELEGRPC_AT(delegrpc_header, region_size, 40);
DELEGRPC_AT(delegrpc_header, server_state, 64);
DELEGRPC_AT(delegrpc_header, changes, 68);
DELEGRPC_AT(delegrpc_header, server_address, 72);
DELEGRPC_AT(delegrpc_header, door, 96);
DELEGRPC_ASSERT(sizeof(struct delegrpc_header) == 128);

struct delegrpc_control {
	uint64_t head; /* next position to reserve; clients add to it */
	uint8_t pad0[56];
	uint64_t tail; /* positions less than this are given back; the server stores it */
	uint8_t pad1[56];
};

DELEGRPC_AT(delegrpc_control, head, 0);
DELEGRPC_AT(delegrpc_control, tail, 64);
DELEGRPC_ASSERT(sizeof(struct delegrpc_control) == 128);

enum delegrpc_state {
	DELEGRPC_RUNNING,
	DELEGRPC_WAITING, /* polls and yields: a busy server on its core yields to it */
	DELEGRPC_ASLEEP, /* sleeps on its state, a futex */
	DELEGRPC_ON_FD, /* sleeps on its descriptor: a waker needs its address */
};

/* Claims: the slots that a client may be about to fill; see delegrpc_priv_publish(). */
#define DELEGRPC_CLAIM_NONE 0ull
#define DELEGRPC_CLAIM_INTENT 1ull /* about to reserve, at any position from now on */
#define DELEGRPC_CLAIM_AT(pos, n) ((uint64_t)(pos) << 8 | (uint64_t)(n) << 2 | 2) /* n from pos */

/* Values of delegrpc_line.taken; 0: no client has the id. */
#define DELEGRPC_TAKEN 1u
#define DELEGRPC_LEFT 2u
#define DELEGRPC_COMING 3u

/*
 * One per client id. Only the client writes the first cache line, except that the server resets
 * `taken`. In the second one the client writes its state and address, and the server writes
 * `served` and resets the state.
 */
struct delegrpc_line {
	uint64_t claim;
	uint64_t generation; /* of the present or last holder of the id; at least 1 */
	uint64_t published; /* generation of the last holder that has published a request */
	/*
	 * DELEGRPC_TAKEN: a client has the id, or had it when it died. Without events this is a
	 * hint, and the id's lock decides. With events a client writes DELEGRPC_COMING before it
	 * sends its introduction, DELEGRPC_TAKEN after that, and DELEGRPC_LEFT when it leaves. The
	 * server writes 0 when its program has taken the event of the client's end, or when the
	 * client has died while it was COMING. Only then may another client take the id.
	 */
	uint32_t taken;
	uint8_t pad0[36];
	uint32_t state; /* enum delegrpc_state; a futex */
	uint8_t pad1[4];
	struct delegrpc_address address;
	uint64_t served; /* generation of the last request that the server has received */
	uint8_t pad2[24];
};

DELEGRPC_AT(delegrpc_line, claim, 0);
DELEGRPC_AT(delegrpc_line, generation, 8);
DELEGRPC_AT(delegrpc_line, published, 16);
DELEGRPC_AT(delegrpc_line, taken, 24);
DELEGRPC_AT(delegrpc_line, state, 64);
DELEGRPC_AT(delegrpc_line, address, 72);
DELEGRPC_AT(delegrpc_line, served, 96);
DELEGRPC_ASSERT(sizeof(struct delegrpc_line) == 128);

/* ---- client ---- */

#define DELEGRPC_ID_NONE UINT32_MAX
#define DELEGRPC_ID_BUSY (UINT32_MAX - 1)
#define DELEGRPC_ID_LATE (UINT32_MAX - 2) /* the blocking call with this id timed out */
#define DELEGRPC_IDLE_POLLS 16 /* maximum number of empty polls in a row without the slow path */

/*
 * A post has no id in the ring. But it occupies one in the client until the server has given its
 * slot back, so that at most resp_depth calls and posts are in flight.
 */
struct delegrpc_call {
	uint64_t
		token; /* of a post: its index in the stage, or its position once it is published */
	/*
	 * If this id is free, the next free id; if a post has it, the id of the next post;
	 * otherwise DELEGRPC_ID_BUSY or DELEGRPC_ID_LATE.
	 */
	uint32_t next;
};

struct delegrpc_client {
	struct delegrpc_header *header;
	unsigned char *responses; /* this client's response slots */
	unsigned char *stage; /* DELEGRPC_BATCH private records, as in the ring */
	struct delegrpc_call *calls; /* by id */
	uint64_t done; /* responses whose function has returned; the next position to read */
	uint64_t sent; /* calls published */
	uint32_t free_id; /* top of the stack of free ids */
	uint32_t staged; /* number of calls and posts in the stage */
	uint32_t staged_posts;
	uint32_t posts; /* number of posts that occupy an id */
	uint32_t pending;
	int32_t idle_left; /* empty polls left before the slow path */
	uint32_t idle; /* slow paths in this wait, up to 3; the third sets the state to WAITING */
	uint32_t unfenced; /* publications since the last check whether the server sleeps */
	uint64_t generation;
	uint32_t req_size, req_stride;
	uint32_t resp_depth, resp_shift, resp_size, resp_stride;
	struct delegrpc_line *line;
};

int delegrpc_priv_publish(struct delegrpc_client *client);
int delegrpc_priv_make_room(struct delegrpc_client *client);
int delegrpc_priv_client_wake_test(struct delegrpc_client *client);
int delegrpc_priv_client_idle(struct delegrpc_client *client);
void delegrpc_priv_client_resume(struct delegrpc_client *client);
void delegrpc_priv_client_odd(struct delegrpc_client *client, uint32_t id);

/* Acquire: pairs with the release stores in announce_end() and server_died(). */
static inline bool delegrpc_priv_alive(const struct delegrpc_header *header)
{
	return __atomic_load_n(&header->server_alive, __ATOMIC_ACQUIRE);
}

DELEGRPC_INLINE uint32_t delegrpc_client_pending(const struct delegrpc_client *client)
{
	return client->pending;
}

DELEGRPC_INLINE int delegrpc_client_flush(struct delegrpc_client *client)
{
	int err = client->staged ? delegrpc_priv_publish(client) : 0, woken = 0;

	if (client->unfenced)
		woken = delegrpc_priv_client_wake_test(client);
	return err ? err : woken;
}

/*
 * Returns 0 if a call or a post of len bytes can be staged and an id is free, otherwise the error
 * that delegrpc_client_call() returns.
 */
static inline int delegrpc_priv_admit(struct delegrpc_client *client, uint32_t len)
{
	if (DELEGRPC_UNLIKELY(len > client->req_size))
		return -EMSGSIZE;
	if (DELEGRPC_UNLIKELY(!delegrpc_priv_alive(client->header)))
		return -EPIPE;
	if (DELEGRPC_UNLIKELY(
		    client->free_id == DELEGRPC_ID_NONE || client->staged == DELEGRPC_BATCH))
		return delegrpc_priv_make_room(client);
	return 0;
}

/* Writes a record to the stage. */
static inline void delegrpc_priv_stage(struct delegrpc_client *client, const void *req,
	uint32_t len, uint32_t index)
{
	uint64_t *rec =
		(uint64_t *)(void *)(client->stage + client->staged * (size_t)client->req_stride);

	rec[0] = (uint64_t)len << DELEGRPC_REQ_LEN_SHIFT;
	rec[1] = client->generation << DELEGRPC_ID_SHIFT | index;
	cellring_copy(rec + 2, req, len);
}

DELEGRPC_INLINE int delegrpc_client_call(struct delegrpc_client *client, const void *req,
	uint32_t len, uint64_t token)
{
	int err = delegrpc_priv_admit(client, len);
	uint32_t id;

	if (DELEGRPC_UNLIKELY(err))
		return err;
	id = client->free_id;
	delegrpc_priv_stage(client, req, len, id);
	client->free_id = client->calls[id].next;
	client->calls[id].next = DELEGRPC_ID_BUSY;
	client->calls[id].token = token;
	client->pending++;
	/* A full batch is published; if that fails, the next call or poll tries again. */
	if (++client->staged == DELEGRPC_BATCH)
		delegrpc_priv_publish(client);
	return 0;
}

/* Returns the stamp that the response at position q has once it is written. */
static inline uint32_t delegrpc_priv_stamp(uint64_t q, uint32_t shift, uint64_t generation)
{
	return (uint32_t)((q >> shift) + 1) << 16 | (uint16_t)generation;
}

static inline unsigned char *delegrpc_priv_response(const struct delegrpc_client *client)
{
	return client->responses +
	       (client->done & (client->resp_depth - 1)) * (size_t)client->resp_stride;
}

/*
 * Returns the first word of a response slot: stamp, index and length. Pairs with the releases in
 * delegrpc_priv_put() and cellring_publish(): once the first response of a burst is visible, the
 * others are visible, too.
 */
static inline uint64_t delegrpc_priv_response_word(const unsigned char *slot)
{
	return __atomic_load_n((const uint64_t *)(const void *)slot, __ATOMIC_ACQUIRE);
}

/* Must be called after a poll that has found nothing. */
static inline int delegrpc_priv_client_looked(struct delegrpc_client *client)
{
	if (client->unfenced)
		delegrpc_priv_client_wake_test(client);
	return --client->idle_left > 0 ? 0 : delegrpc_priv_client_idle(client);
}

DELEGRPC_INLINE int delegrpc_client_poll(struct delegrpc_client *client, delegrpc_response_fn *fn,
	void *arg)
{
	int n = 0, seen;

	if (client->staged)
		delegrpc_priv_publish(client);
	for (seen = 0; seen < DELEGRPC_BATCH; seen++) {
		unsigned char *slot = delegrpc_priv_response(client);
		uint64_t word = delegrpc_priv_response_word(slot);
		uint32_t id = (uint32_t)(word >> 32) & ((1u << DELEGRPC_RESP_ID_BITS) - 1);
		uint32_t len = (uint32_t)(word >> (32 + DELEGRPC_RESP_ID_BITS));

		if ((uint32_t)word !=
			delegrpc_priv_stamp(client->done, client->resp_shift, client->generation))
			break;
		if (DELEGRPC_LIKELY(id < client->resp_depth && len <= client->resp_size &&
				    client->calls[id].next == DELEGRPC_ID_BUSY)) {
			client->calls[id].next = client->free_id;
			client->free_id = id;
			client->pending--;
			n++;
			fn(arg, client->calls[id].token, slot + DELEGRPC_RESP_HEADER, len);
		} else {
			delegrpc_priv_client_odd(client, id);
		}
		/* From now on delegrpc_priv_publish() considers this slot free. */
		client->done++;
	}
	if (DELEGRPC_UNLIKELY(!seen))
		return delegrpc_priv_client_looked(client);
	if (DELEGRPC_UNLIKELY(client->idle))
		delegrpc_priv_client_resume(client);
	client->idle_left = DELEGRPC_IDLE_POLLS;
	if (client->staged)
		delegrpc_priv_publish(client);
	return n;
}

/* ---- server ---- */

#define DELEGRPC_STUCK_POLLS 256 /* empty polls between two searches for holes */

struct delegrpc_peer {
	uint64_t next; /* response position to write */
	uint64_t generation;
	uint32_t burst; /* replies to publish together, 1 .. DELEGRPC_BATCH */
	/*
	 * 1 if the client is in unfenced_peers: since delegrpc_line.state was last read, the client
	 * has got a reply, or one of its posts has been received.
	 */
	uint32_t unfenced;
	uint64_t posted; /* the position after its last post */
};

/*
 * Replies to one client that are not in its ring yet. They are for the peer's present generation
 * and for the positions from peer->next on. Code that changes either one must end the burst first.
 */
struct delegrpc_burst {
	unsigned char *next; /* in the server's stage */
	unsigned char *polled; /* value of `next` at the last poll that left replies in the burst */
	uint32_t client; /* DELEGRPC_ID_NONE: there are no such replies */
	uint32_t stamp; /* of all these replies, because no burst crosses the end of the ring */
	uint32_t limit; /* number of replies at which the burst is published */
	uint32_t room; /* number of replies that may still be added */
};

struct delegrpc_server {
	struct delegrpc_control *control;
	unsigned char *requests;
	unsigned char *responses;
	unsigned char *stage; /* DELEGRPC_BATCH private replies, as in the ring */
	struct delegrpc_burst burst;
	struct delegrpc_peer *peers; /* by client */
	uint8_t *open; /* [client * resp_depth + index]: 1 if that request is not answered yet */
	uint32_t *unfenced_peers; /* the clients whose peer is unfenced */
	uint64_t cursor; /* position to hand out next */
	uint64_t found; /* positions less than this are filled */
	uint64_t tail; /* copy of control->tail */
	uint64_t received, replied, bad; /* received: without posts */
	uint64_t posts;
	uint32_t n_unfenced_peers;
	uint32_t unfenced; /* polls since unfenced_peers ceased to be empty */
	uint32_t empty; /* empty polls */
	uint32_t busy; /* polls that find requests, until the clock is read next */
	int broken; /* 0 or -EPROTO */
	uint32_t tells; /* 1 if the server takes events */
	uint32_t max_clients;
	uint32_t ring_depth, ring_shift, req_size, req_stride;
	uint32_t resp_depth, resp_shift, resp_size, resp_stride;
	size_t resp_pitch; /* bytes from one client's responses to the next client's */
};

int delegrpc_priv_unstick(struct delegrpc_server *server);
void delegrpc_priv_server_wake_test(struct delegrpc_server *server);
bool delegrpc_priv_begin_burst(struct delegrpc_server *server, uint32_t client);
void delegrpc_priv_publish_replies(struct delegrpc_server *server);
void delegrpc_priv_server_busy(struct delegrpc_server *server);
void delegrpc_priv_new_peer(struct delegrpc_server *server, uint32_t client, uint64_t generation);
void delegrpc_priv_drop(struct delegrpc_server *server);
bool delegrpc_priv_untold(struct delegrpc_server *server);
bool delegrpc_priv_take_post(struct delegrpc_server *server, uint32_t client, uint32_t index);
int delegrpc_priv_refuse(struct delegrpc_server *server, uint32_t client, uint64_t id,
	uint32_t len);

static inline unsigned char *delegrpc_priv_request(const struct delegrpc_server *server,
	uint64_t pos)
{
	return server->requests + (pos & (server->ring_depth - 1)) * (size_t)server->req_stride;
}

/* Returns true if position pos is filled. Pairs with the release stores in fill_batch(). */
static inline bool delegrpc_priv_filled(const struct delegrpc_server *server, uint64_t pos)
{
	const void *slot = delegrpc_priv_request(server, pos);
	uint64_t word = __atomic_load_n((const uint64_t *)slot, __ATOMIC_ACQUIRE);

	return (uint32_t)word == (uint32_t)(pos >> server->ring_shift) + 1;
}

static inline void delegrpc_priv_server_publish(struct delegrpc_server *server)
{
	if (server->burst.client != DELEGRPC_ID_NONE)
		delegrpc_priv_publish_replies(server);
}

DELEGRPC_INLINE void delegrpc_server_flush(struct delegrpc_server *server)
{
	delegrpc_priv_server_publish(server);
	if (server->n_unfenced_peers)
		delegrpc_priv_server_wake_test(server);
}

/* Must be called after a poll that has found nothing. */
static inline int delegrpc_priv_server_looked(struct delegrpc_server *server)
{
	delegrpc_priv_server_publish(server);
	if (server->n_unfenced_peers)
		delegrpc_priv_server_wake_test(server);
	return ++server->empty % DELEGRPC_STUCK_POLLS ? server->broken :
							delegrpc_priv_unstick(server);
}

DELEGRPC_INLINE int delegrpc_server_poll(struct delegrpc_server *server)
{
	if (server->n_unfenced_peers && ++server->unfenced >= DELEGRPC_UNFENCED)
		delegrpc_priv_server_wake_test(server);
	/*
	 * Requests that are found already are handed out first, because reading the next slot takes
	 * its cache line away from the client that fills it.
	 */
	if (server->found == server->cursor) {
		while (server->found - server->cursor < DELEGRPC_SERVER_POLL_MAX &&
			delegrpc_priv_filled(server, server->found))
			server->found++;
		if (server->found == server->cursor)
			return delegrpc_priv_server_looked(server);
	}
	if (server->burst.polled == server->burst.next)
		delegrpc_priv_server_publish(server);
	server->burst.polled = server->burst.next;
	if (DELEGRPC_UNLIKELY(!--server->busy))
		delegrpc_priv_server_busy(server);
	return (int)(server->found - server->cursor);
}

/* Makes the next wake test check whether this client sleeps. */
static inline void delegrpc_priv_owe(struct delegrpc_server *server, uint32_t client)
{
	struct delegrpc_peer *peer = &server->peers[client];

	if (!peer->unfenced) {
		peer->unfenced = 1;
		server->unfenced_peers[server->n_unfenced_peers++] = client;
	}
}

DELEGRPC_INLINE int delegrpc_server_recv(struct delegrpc_server *server, struct delegrpc_req *req_p)
{
	while (server->cursor != server->found) {
		unsigned char *slot = delegrpc_priv_request(server, server->cursor++);
		uint64_t head, id, generation;
		uint32_t client, len, index;

		/* Each word is read once, then checked. Relaxed: the poll has acquired the lap. */
		head = __atomic_load_n((uint64_t *)(void *)slot, __ATOMIC_RELAXED);
		id = __atomic_load_n((uint64_t *)(void *)(slot + 8), __ATOMIC_RELAXED);
		client = (uint32_t)(head >> DELEGRPC_REQ_CLIENT_SHIFT) & 0xfff;
		len = (uint32_t)(head >> DELEGRPC_REQ_LEN_SHIFT);
		generation = id >> DELEGRPC_ID_SHIFT;
		index = (uint16_t)id;
		if (DELEGRPC_UNLIKELY(client >= server->max_clients || !generation ||
				      len > server->req_size)) {
			delegrpc_priv_drop(server);
			continue;
		}
		if (DELEGRPC_UNLIKELY(server->peers[client].generation != generation))
			delegrpc_priv_new_peer(server, client, generation);
		server->peers[client].burst =
			((uint32_t)(head >> DELEGRPC_REQ_BURST_SHIFT) & 7) + 1;
		if (DELEGRPC_LIKELY(index < server->resp_depth)) {
			index += client * server->resp_depth;
			if (DELEGRPC_UNLIKELY(server->open[index])) {
				delegrpc_priv_drop(server);
				continue;
			}
			server->open[index] = 1;
			server->received++;
		} else if (delegrpc_priv_take_post(server, client, index)) {
			id = DELEGRPC_POST;
		} else {
			delegrpc_priv_drop(server);
			continue;
		}
		req_p->client = client;
		req_p->id = id;
		req_p->len = len;
		req_p->payload = slot + DELEGRPC_REQ_HEADER;
		return 1;
	}
	delegrpc_priv_server_publish(server);
	return 0;
}

DELEGRPC_INLINE void delegrpc_server_advance_tail(struct delegrpc_server *server)
{
	if (server->tail == server->cursor)
		return;
	server->tail = server->cursor;
	/* The slots have been read. Pairs with the loads in has_room() and oldest_is_consumed(). */
	__atomic_store_n(&server->control->tail, server->tail, __ATOMIC_RELEASE);
}

static inline void delegrpc_priv_replied(struct delegrpc_server *server, uint32_t client,
	uint32_t n)
{
	server->peers[client].next += n;
	delegrpc_priv_owe(server, client);
}

static inline unsigned char *delegrpc_priv_reply_slot(const struct delegrpc_server *server,
	uint32_t client)
{
	uint64_t next = server->peers[client].next & (server->resp_depth - 1);

	return server->responses + client * server->resp_pitch + next * server->resp_stride;
}

/* Returns the first word of a response. */
static inline uint64_t delegrpc_priv_reply_word(uint32_t stamp, uint32_t index, uint32_t len)
{
	return (uint64_t)(len << DELEGRPC_RESP_ID_BITS | index) << 32 | stamp;
}

/* Publishes a single reply, which is written directly into the ring. */
static inline void delegrpc_priv_put(struct delegrpc_server *server, uint32_t client,
	uint32_t index, const void *resp, uint32_t len)
{
	const struct delegrpc_peer *peer = &server->peers[client];
	unsigned char *slot = delegrpc_priv_reply_slot(server, client);
	uint32_t stamp = delegrpc_priv_stamp(peer->next, server->resp_shift, peer->generation);

	CELLRING_PROBE3(delegrpc, server_publish, server, client, 1);
	cellring_copy(slot + DELEGRPC_RESP_HEADER, resp, len);
	/* The payload is written. Pairs with the acquire in delegrpc_priv_response_word(). */
	__atomic_store_n((uint64_t *)(void *)slot, delegrpc_priv_reply_word(stamp, index, len),
		__ATOMIC_RELEASE);
	delegrpc_priv_replied(server, client, 1);
}

/*
 * Returns true if the next reply to this client must be added to the burst. Opens that burst if it
 * is not open.
 */
static inline bool delegrpc_priv_collects(struct delegrpc_server *server, uint32_t client)
{
	if (server->burst.client == client)
		return true;
	/* Few calls are in flight: the reply is published alone. */
	if (server->burst.client == DELEGRPC_ID_NONE && server->peers[client].burst <= 1)
		return false;
	return delegrpc_priv_begin_burst(server, client);
}

/* Adds a reply to the burst, and publishes the burst when it is full. */
static inline void delegrpc_priv_collect(struct delegrpc_server *server, uint32_t index,
	const void *resp, uint32_t len)
{
	struct delegrpc_burst *burst = &server->burst;
	unsigned char *slot = burst->next;

	burst->next += server->resp_stride;
	*(uint64_t *)(void *)slot = delegrpc_priv_reply_word(burst->stamp, index, len);
	cellring_copy(slot + DELEGRPC_RESP_HEADER, resp, len);
	if (--burst->room == 0)
		delegrpc_priv_publish_replies(server);
}

DELEGRPC_INLINE int delegrpc_server_reply(struct delegrpc_server *server, uint32_t client,
	uint64_t id, const void *resp, uint32_t len)
{
	uint32_t index = (uint16_t)id;
	size_t call = client * (size_t)server->resp_depth + index;

	if (DELEGRPC_UNLIKELY(client >= server->max_clients || index >= server->resp_depth ||
			      len > server->resp_size || !server->open[call] ||
			      server->peers[client].generation != id >> DELEGRPC_ID_SHIFT))
		return delegrpc_priv_refuse(server, client, id, len);
	server->open[call] = 0;
	server->replied++;
	if (delegrpc_priv_collects(server, client))
		delegrpc_priv_collect(server, index, resp, len);
	else
		delegrpc_priv_put(server, client, index, resp, len);
	return 0;
}

DELEGRPC_INLINE int delegrpc_server_serve(struct delegrpc_server *server, delegrpc_serve_fn *fn,
	void *arg, uint32_t max)
{
	int found = delegrpc_server_poll(server);
	struct delegrpc_req req;
	uint32_t n = 0;

	if (found < 0)
		return found;
	if (server->tells && delegrpc_priv_untold(server))
		return 0;
	while (n < max && delegrpc_server_recv(server, &req)) {
		n++;
		fn(arg, &req, req.payload);
	}
	delegrpc_server_advance_tail(server);
	if (n)
		delegrpc_server_flush(server);
	return (int)n;
}

#pragma GCC visibility pop

#undef DELEGRPC_AT
#undef DELEGRPC_ASSERT

#ifdef __cplusplus
}
#endif

#endif
