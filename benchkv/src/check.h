/* SPDX-License-Identifier: MIT */
/*
 * Checks that every request is answered once, with the right answer, at the right caller.
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
 * After the last run there is an audit: the client reads every key that the next client of the job
 * has put in that run, by the way that requests always take, and of its own keys those that are
 * followed (history.h). No more puts are under way, so a key then holds the last put of one of its
 * writers, or the store has lost, forgotten or replayed one; and a key that two clients read has
 * one value.
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
	struct history_view view;
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

/*
 * The audit goes through this many operations of each client, the last ones of the last run, so its
 * time and memory are bounded however long the run was.
 */
#define CHECK_WINDOW (1u << 21)

/* The first of the operations that the audit goes through, of so many. */
static inline uint64_t check_window(uint64_t ops)
{
	return ops > CHECK_WINDOW ? ops - CHECK_WINDOW : 0;
}

struct checker {
	struct check_slot *slots;
	struct slab free;
	struct stream *stream;
	struct history history;
	/* For the audit: */
	bool auditing;
	uint32_t next; /* the client whose keys are read */
	uint64_t *due; /* its last puts of these keys, n_next; then own puts */
	uint32_t n_due, n_next;
	struct op op; /* of the last request */
	uint64_t views; /* what was read; of all clients together 0, see check_audit() */
	uint32_t origin, rank;
	uint32_t slot_mask;
	struct check_counts n;
	uint64_t doubtful; /* puts of all runs that were not acknowledged */
	uint64_t digest; /* of the verified operations */
	int first_errno; /* of the first KV_ERROR */
};

/*
 * The stream is that of attr's client, and the caller's. rank: the client's own. depth: requests
 * open at a time. 0 or -ENOMEM.
 */
int check_init(struct checker *c, const struct history_attr *attr, struct stream *stream,
	uint32_t rank, uint32_t depth);
void check_fini(struct checker *c);

/* The memory of one. */
uint64_t check_bytes(uint64_t key_range, uint32_t writers, uint32_t depth);

/* Counts from zero again, for this run; what was written and read stays known. */
void check_restart(struct checker *c, uint32_t run);

/*
 * Counts from zero again, for the audit after that many runs; made: what every client has done,
 * see history_end(). The operations to open from here on are 0 .. n_due - 1. A client
 * of which an operation was read that it has not made counts as one invented value. 0 or -ENOMEM.
 *
 * A followed key is read twice, by the client that has put it and by the one before. Each adds a
 * term of key and value to its views, with opposite signs, so that the sum over all clients is 0
 * if every key was read by both with the same value.
 */
int check_audit(struct checker *c, uint32_t runs, const struct history_made *made);

static inline uint32_t check_open_count(const struct checker *c)
{
	return c->free.used;
}

/*
 * Opens a slot for operation i of the stream, or of the audit, and fills the request; seq is the
 * token. Returns where it goes, until the next one is opened. check_sent() or check_cancel()
 * follows.
 */
const struct op *check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req);

/* Tells the check that the request of check_open() was sent. */
static inline void check_sent(struct checker *c, const struct kv_req *req)
{
	if (req->type == KV_PUT)
		history_put(&c->history, &c->slots[req->seq & c->slot_mask].view);
}

/* Tells the check that the request could not be sent, and will not be. */
void check_cancel(struct checker *c, const struct kv_req *req);

/*
 * A reply. When it closes a slot, which a failed one does too, *start_ns_p is when it
 * was opened and the result is true; a reply that closes none is counted only.
 */
bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p);

/*
 * Ends a run: open operations are lost, or unfinished if the run was stopped early. A reply that
 * comes after all counts as duplicated.
 */
void check_finish(struct checker *c, bool stopped);

static inline uint64_t check_errors(const struct check_counts *n)
{
	return n->refused + n->wrong_value + n->forgotten + n->stale + n->invented +
	       n->misdelivered + n->lost + n->duplicated;
}

#endif
