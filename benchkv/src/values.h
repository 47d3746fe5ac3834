/* SPDX-License-Identifier: MIT */
/*
 * Values of more than 8 bytes (--value-size). Requests and replies between threads of a rank stay as
 * msg.h has them; the further bytes are in a slot of the client, which all threads of the rank can reach: the
 * client writes those of a put there, and finds those of a get. Between ranks a request and its bytes
 * are the request of a large call of copyrpc, straight from the slot, and a reply and its bytes are
 * the response, straight into it. A shelf keeps the bytes of a shard.
 */
#ifndef BENCHKV_VALUES_H
#define BENCHKV_VALUES_H

#include <stdint.h>

#include "copyrpc.h"
#include "msg.h"
#include "sizes.h"
#include "store.h"

struct node;

/* A request in flight: what is sent, and where the reply arrives. */
struct value_slot {
	uint32_t got; /* bytes behind the reply */
	uint8_t bytes[]; /* request, bytes of a put, reply, bytes of a get */
};

struct values {
	const struct sizes *sizes;
	uint32_t rest; /* the most bytes behind a request or reply */
	uint32_t first, clients; /* clients of this rank among all of the job */
	uint32_t slot_mask; /* slots of a client, less one */
	size_t slot_size;
	uint8_t *slots; /* of all clients */
	size_t len; /* of these */
	struct store *shelves; /* by shard */
};

/* Makes the slots, and the shelves with room for @expect keys each, which get what the stores have. 0 or
 * -ENOMEM. */
int values_create(const struct node *n, uint64_t expect, struct values **values_p);
void values_destroy(struct values *v, uint32_t shards);

/* The bytes of the slots of a rank; of the shelves with @keys keys. */
uint64_t values_slots_bytes(const struct sizes *s, uint32_t clients, uint32_t depth);
uint64_t values_shelf_bytes(const struct sizes *s, uint64_t keys);

/* ---- a client ---- */

/* Writes the request's further bytes to its slot. */
void values_write(const struct values *v, const struct kv_req *req);
/* Checks those of a reply. If they are wrong, the reply becomes one that fits no operation. */
void values_check(const struct values *v, struct kv_resp *resp);

/* ---- a server ---- */

/* The bytes behind a request that a daemon serves, and where those behind the reply go. */
struct value_io {
	const void *put;
	uint32_t put_len;
	void *got;
	uint32_t got_most, got_len; /* got_len: set by values_serve() */
};

/* store_serve() with the further bytes; @shard is that of the store. */
struct kv_resp values_serve(const struct values *v, struct store *s, const struct kv_req *req,
	struct value_io *io);

/* The same for a client of this rank. */
struct kv_resp values_serve_local(const struct values *v, struct store *s,
	const struct kv_req *req);

/* ---- the network ---- */

/* Registers the slots with a context, and lets peers make large calls. 0 or -errno. */
int values_register(const struct values *v, struct copyrpc_ctx *ctx);

/* As copyrpc_call() for a request of this rank. @word: see struct kv_req. */
int values_call(const struct values *v, struct copyrpc_ep *ep, const struct kv_req *req,
	uint32_t word, uint64_t token);
/* The reply in the response of such a call, by client and name of the request; false: it is none. */
bool values_take(const struct values *v, uint32_t origin, uint32_t seq, const void *data,
	uint32_t len, struct kv_resp *resp_p);

/* The request of another rank, and its further bytes; all zero if it is none. */
struct kv_req values_request(const struct copyrpc_req *from, struct value_io *io_p);
/* Replies with the bytes that values_serve() has written. Returns as copyrpc_reply(). */
int values_reply(struct copyrpc_req *from, const struct kv_resp *resp, uint32_t got_len);

#endif
