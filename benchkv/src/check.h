/* SPDX-License-Identifier: MIT */
/*
 * Is every request answered once, by the right answer, at the right caller?
 *
 * A client opens a slot for each request, and gives the slot's name (seq) to the layer
 * that carries the request as its token, and to the server inside the request. Both come
 * back: the token says which request the carrier believes to be answered, the message
 * says which one the server has answered. They must agree, the slot must be open, the
 * client must be the one that asked, and the value must fit the operation:
 *
 *	KV_PUT_OK	the value that was sent
 *	KV_GET_OK	a value of this key, by a writer that exists; if the writer is this
 *			client, one that it has put under this key
 *	KV_NOT_FOUND	this key, and only if nothing can be there: not preloaded, and no
 *			own put of the key had ended when the request was made
 *
 * An operation is verified, failed or, when its slot is still open at the end, lost.
 */
#ifndef BENCHKV_CHECK_H
#define BENCHKV_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "msg.h"
#include "workload.h"

struct check_slot {
	uint64_t op; /* in the stream */
	uint64_t start_ns;
	uint32_t seq; /* of its present or last use */
	bool must_exist;
};

struct check_counts {
	uint64_t ops; /* opened */
	uint64_t remote; /* of these, for another rank */
	uint64_t verified;
	uint64_t not_found; /* of the verified */
	/* Errors; an operation is in one of the first four at most. */
	uint64_t refused; /* KV_ERROR */
	uint64_t wrong_value;
	uint64_t misdelivered; /* another client's, or another request's, reply */
	uint64_t lost;
	uint64_t duplicated; /* a reply for a request that is answered already */
};

struct checker {
	struct check_slot *slots;
	struct slab free;
	const struct stream *stream;
	uint64_t *written; /* bit per key: an own put has ended; NULL when preloaded */
	uint32_t origin, writers, rank;
	uint32_t slot_mask;
	struct check_counts n;
	uint64_t digest; /* of the verified operations */
	int first_errno; /* of the first KV_ERROR */
};

/*
 * writers: clients of the job; rank: the client's own. depth: requests open at a time.
 * 0 or -ENOMEM. The stream is the caller's, and outlives the checker.
 */
int check_init(struct checker *c, const struct stream *stream, uint32_t writers, uint32_t rank,
	uint32_t depth, uint64_t key_range, bool preloaded);
void check_fini(struct checker *c);

/* Counts from zero again, for the next run; what was written stays known. */
void check_restart(struct checker *c);

static inline uint32_t check_open_count(const struct checker *c)
{
	return c->free.used;
}

/* Opens a slot for operation i of the stream and fills the request; seq is the token. */
void check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req);

/* The request of check_open() could not be handed over, and will not be. */
void check_cancel(struct checker *c, const struct kv_req *req);

/*
 * A reply. When it closes a slot, which a failed one does too, *start_ns_p is when it
 * was opened and the result is true; a reply that closes none is counted only.
 */
bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p);

/* The end: what is open is lost; a reply that comes after all counts as duplicated. */
void check_finish(struct checker *c);

static inline uint64_t check_errors(const struct check_counts *n)
{
	return n->refused + n->wrong_value + n->misdelivered + n->lost + n->duplicated;
}

#endif
