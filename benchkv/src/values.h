/* SPDX-License-Identifier: MIT */
/*
 * Values of more than 8 bytes (--value-size). Between threads of a rank the requests and replies
 * are those of msg.h. The bytes after the first 8, called the further bytes, are in a slot of the
 * client, which all threads of the rank can access: the client writes the bytes of a put there, and
 * the daemon those of a get. Between ranks, copyrpc carries a large call: its request, sent
 * directly from the slot, is the request of msg.h with the further bytes; its response, written
 * directly into the slot, is the reply with the further bytes. The shelf of a shard stores the
 * further bytes of its values.
 *
 * In jobs whose values have 8 bytes, @v is NULL. Only values_serve(), values_serve_local(),
 * values_call(), values_take(), values_request(), values_reply() and values_destroy() may then be
 * called.
 */
#ifndef BENCHKV_VALUES_H
#define BENCHKV_VALUES_H

#include <stdint.h>

#include "copyrpc.h"
#include "msg.h"
#include "sizes.h"
#include "store.h"

struct node;

/* The slot of a request in flight: the request, and room for its reply. */
struct value_slot {
	uint32_t got; /* number of bytes after the reply */
	uint8_t bytes[]; /* request, bytes of a put, reply, bytes of a get */
};

struct values {
	const struct sizes *sizes;
	uint32_t rest; /* maximum number of bytes after a request or reply */
	uint32_t first, clients; /* number in the job of the rank's first client; its clients */
	uint32_t slot_mask; /* number of slots of a client - 1 */
	size_t slot_size;
	uint8_t *slots; /* of all clients of the rank */
	size_t len; /* bytes of all slots */
	struct store *shelves; /* by shard */
};

/*
 * Creates the slots, and the shelves with room for @expect keys each. Fills the shelves for the
 * values in the stores. 0 or -ENOMEM.
 */
int values_create(const struct node *n, uint64_t expect, struct values **values_p);
void values_destroy(struct values *v, uint32_t shards);

/* The memory of the slots of a rank, and of a shelf with @keys keys. */
uint64_t values_slots_bytes(const struct sizes *s, uint32_t clients, uint32_t depth);
uint64_t values_shelf_bytes(const struct sizes *s, uint64_t keys);

/* ---- a client ---- */

/* Writes the request's further bytes to its slot. */
void values_write(const struct values *v, const struct kv_req *req);
/* Checks the further bytes of a reply. If they are wrong, makes the reply invalid. */
void values_check(const struct values *v, struct kv_resp *resp);

/* ---- a server ---- */

/* The bytes after a request that a daemon serves, and room for the bytes after its reply. */
struct value_io {
	const void *put;
	uint32_t put_len;
	void *got;
	uint32_t got_most, got_len; /* got_len: set by values_serve() */
};

/* Like store_serve(), with the further bytes. */
struct kv_resp values_serve(const struct values *v, struct store *s, const struct kv_req *req,
	struct value_io *io);

/* The same for a request of a client of this rank, with the bytes in its slot. */
struct kv_resp values_serve_local(const struct values *v, struct store *s,
	const struct kv_req *req);

/* ---- the network ---- */

/* Registers the slots with a context, and lets peers make large calls. 0 or -errno. */
int values_register(const struct values *v, struct copyrpc_ctx *ctx);

/* Like copyrpc_call(), for a request of this rank. @word: see struct kv_req. */
int values_call(const struct values *v, struct copyrpc_ep *ep, const struct kv_req *req,
	uint32_t word, uint64_t token);
/* Reads the reply from the response of such a call. False: it is not a reply. */
bool values_take(const struct values *v, uint32_t origin, uint32_t seq, const void *data,
	uint32_t len, struct kv_resp *resp_p);

/*
 * Reads a request of another rank, and finds its further bytes. If it is not a request, both
 * results are zero.
 */
struct kv_req values_request(const struct values *v, const struct copyrpc_req *from,
	struct value_io *io_p);
/* Replies with the bytes that values_serve() has written. Returns the same as copyrpc_reply(). */
int values_reply(struct copyrpc_req *from, const struct kv_resp *resp, uint32_t got_len);

#endif
