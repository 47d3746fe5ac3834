/* SPDX-License-Identifier: MIT */
/*
 * Is every request answered once, by the right answer, at the right caller?
 *
 * A client opens a slot for each request, and gives the slot's name (seq) to the layer
 * that carries the request as its token, and to the server inside the request. Both come
 * back: the token says which request the carrier believes to be answered, the message
 * says which one the server has answered. They must agree, the slot must be open, the
 * client must be the one that asked, and the answer must fit the operation:
 *
 *	KV_PUT_OK	the value that was sent
 *	KV_GET_OK	a value that the key can have, after all that the client knows of it
 *	KV_NOT_FOUND	this key, and only if nothing can be there: see history.h for both
 *
 * An operation is verified, failed or, when its slot is still open at the end, lost.
 *
 * After the last run there is an audit: the client reads every key that it has put, by the
 * way that requests always take. No more puts are under way, so a key then holds the last put
 * of one of its writers, or the store has lost, forgotten or replayed one.
 */
#ifndef BENCHKV_CHECK_H
#define BENCHKV_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "history.h"
#include "msg.h"
#include "workload.h"

struct check_slot {
	uint64_t op; /* in the stream, or in the audit */
	uint64_t start_ns;
	uint64_t value; /* of a put */
	struct history_get get;
	uint32_t seq; /* of its present or last use */
	bool put;
};

struct check_counts {
	uint64_t ops; /* opened */
	uint64_t remote; /* of these, for another rank */
	uint64_t verified;
	uint64_t not_found; /* of the verified */
	uint64_t put_off; /* times that there was no room to send one: it was sent later */
	/* Errors; an operation is in one of the first seven at most. */
	uint64_t refused; /* KV_ERROR */
	uint64_t wrong_value; /* no answer to this operation */
	uint64_t forgotten, stale, invented; /* see history.h */
	uint64_t misdelivered; /* another client's, or another request's, reply */
	uint64_t lost;
	uint64_t duplicated; /* a reply for a request that is answered already */
	/* No errors. */
	uint64_t unfinished; /* open when the run was stopped before its end */
};

struct checker {
	struct check_slot *slots;
	struct slab free;
	const struct stream *stream;
	struct history history;
	uint16_t *due; /* operations of the stream whose keys the audit reads */
	uint32_t n_due;
	bool auditing;
	uint32_t origin, rank;
	uint32_t slot_mask;
	struct check_counts n;
	uint64_t digest; /* of the verified operations */
	int first_errno; /* of the first KV_ERROR */
};

/* rank: the client's own. depth: requests open at a time. 0 or -ENOMEM. */
int check_init(struct checker *c, const struct history_attr *attr, uint32_t rank, uint32_t depth);
void check_fini(struct checker *c);

/* The memory of one. */
uint64_t check_bytes(uint32_t writers, uint32_t depth);

/* Counts from zero again, for this run; what was written and read stays known. */
void check_restart(struct checker *c, uint32_t run);

/*
 * Counts from zero again, for the audit after that many runs; made: the operations of every
 * client, see history_end(). The operations to open from here on are 0 .. n_due - 1. A client
 * of which an operation was read that it has not made counts as one invented value.
 */
void check_audit(struct checker *c, uint32_t runs, const uint64_t *made);

static inline uint32_t check_open_count(const struct checker *c)
{
	return c->free.used;
}

/*
 * Opens a slot for operation i of the stream, or of the audit, and fills the request; seq is
 * the token. Returns where it goes. check_sent() or check_cancel() follows.
 */
const struct op *check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req);

/* The request of check_open() has been handed over. */
static inline void check_sent(struct checker *c, uint64_t i, const struct kv_req *req)
{
	if (req->type == KV_PUT)
		history_put(&c->history, i);
}

/* It could not be handed over, and will not be. */
void check_cancel(struct checker *c, const struct kv_req *req);

/*
 * A reply. When it closes a slot, which a failed one does too, *start_ns_p is when it
 * was opened and the result is true; a reply that closes none is counted only.
 */
bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p);

/*
 * The end: what is open is lost, or, when the run was stopped before its end, unfinished. A
 * reply that comes after all counts as duplicated.
 */
void check_finish(struct checker *c, bool stopped);

static inline uint64_t check_errors(const struct check_counts *n)
{
	return n->refused + n->wrong_value + n->forgotten + n->stale + n->invented +
	       n->misdelivered + n->lost + n->duplicated;
}

#endif
