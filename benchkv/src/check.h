/* SPDX-License-Identifier: MIT */
/*
 * Checks that every request gets exactly one correct reply, and that its own client receives it.
 *
 * A client opens a slot for each request. The slot's name (seq) is the token for the layer that
 * carries the request, and is also in the request itself, from which the server copies it to the
 * reply. With the reply both come back: the token from the layer, the seq from the server. They
 * must agree, the slot must be open, the client must be the sender of the request, and the reply
 * must fit the operation:
 *
 *	KV_PUT_OK	the value that was sent
 *	KV_GET_OK	a value that the key can have according to history.h
 *	KV_NOT_FOUND	this key, if it can have no value according to history.h
 *
 * An operation is verified, failed or, when its slot is still open at the end, lost; or unfinished,
 * if the run was stopped early.
 *
 * After the last run there is an audit: the client reads every key that the next client of the job
 * has put in that run, and its own followed keys (history.h). These requests take the normal path.
 * No put is under way any more, so each key must hold the last put of one of its writers; otherwise
 * the store has lost, forgotten or replayed a put. Two clients that read a key must find the same
 * value.
 */
#ifndef BENCHKV_CHECK_H
#define BENCHKV_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/slab.h"
#include "history.h"
#include "msg.h"
#include "workload.h"

struct check_slot {
	uint64_t op; /* index in the stream, or in the audit */
	uint64_t start_ns;
	uint64_t value; /* of a put */
	struct history_view view;
	uint32_t seq; /* of the current or last request in the slot */
	bool put;
};

struct check_counts {
	uint64_t ops; /* opened operations */
	uint64_t remote; /* opened operations for other ranks */
	uint64_t verified;
	uint64_t not_found; /* verified operations that found no value */
	uint64_t put_off; /* how often a request was delayed: no room, or check_crosses() */
	/* Compare-and-swaps that got a reply: all, and those for other ranks. */
	uint64_t swaps, remote_swaps;
	uint64_t conflicts; /* swaps that found another version of the key */
	/* Errors; an operation counts in at most one of the first seven. */
	uint64_t refused; /* KV_ERROR */
	uint64_t wrong_value; /* the reply does not fit the operation */
	uint64_t forgotten, stale, invented; /* see history.h */
	uint64_t misdelivered; /* the reply is for another client or another request */
	uint64_t lost;
	uint64_t duplicated; /* a reply for a request that already has one */
	/* Not an error. */
	uint64_t unfinished; /* operations that were open when the run was stopped early */
};

/*
 * The audit covers this many operations of each client, the last ones of the last run. This limits
 * its time and memory, however long the run was.
 */
#define CHECK_WINDOW (1u << 21)

/* The first operation that the audit covers, if the last run had @ops operations. */
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
	uint64_t *due; /* operations: n_next last puts of `next`, then own puts */
	uint32_t n_due, n_next;
	uint32_t first, step; /* key numbers to read, see check_audit_numbers() */
	struct op op; /* of the last request of the audit */
	uint64_t views; /* sum over the values that were read, see check_audit() and rmw.h */
	uint32_t origin, rank;
	uint32_t slot_mask;
	struct check_counts n;
	uint64_t doubtful; /* puts of all runs that were not acknowledged */
	uint64_t digest; /* of the verified operations */
	int first_errno; /* of the first KV_ERROR */
};

/*
 * @stream: the operations of the client in @given, see history_init(); must outlive @c. @rank: of
 * the client. @depth: maximum number of open requests. 0 or -ENOMEM; check_fini() must be called
 * after -ENOMEM, too.
 */
int check_init(struct checker *c, const struct history *given, struct stream *stream, uint32_t rank,
	uint32_t depth);
void check_fini(struct checker *c);

/* The memory of a checker. */
uint64_t check_bytes(uint64_t key_range, uint32_t writers, uint32_t depth);

/* Resets the counts for a run. Keeps the history of writes and reads. */
void check_restart(struct checker *c, uint32_t run);

/*
 * Resets the counts for the audit after @runs runs. @made: the operations of every client, see
 * history_end(). The caller must then open operations 0 .. n_due - 1. Counts one invented value for
 * each client of which this client has read a put that was never made. 0, or an error of
 * puts_last().
 *
 * A followed key is read twice: by the client that has put it, and by the client before that one.
 * Both add a term of key and value to their views, with opposite signs, so that the sum over all
 * clients is 0 if both clients found the same value in every key.
 */
int check_audit(struct checker *c, uint32_t runs, const struct history_made *made);

/*
 * Must be called instead of check_audit() in a job of read-modify-writes: operation i of the audit
 * reads the key with number @first + i * @step, for i < @n.
 */
void check_audit_numbers(struct checker *c, uint32_t first, uint32_t step, uint32_t n);

static inline uint32_t check_open_count(const struct checker *c)
{
	return c->free.used;
}

/*
 * Opens a slot for operation @i of the stream, or of the audit, and fills in *req; req->seq is the
 * token. Returns the operation, which is valid until the next check_open(). The caller must call
 * check_sent() or check_cancel() before that.
 */
const struct op *check_open(struct checker *c, uint64_t i, uint64_t now_ns, struct kv_req *req);

/* The request of check_open() was sent. */
static inline void check_sent(struct checker *c, const struct kv_req *req)
{
	if (req->type == KV_PUT)
		history_put(&c->history, &c->slots[req->seq & c->slot_mask].view);
}

/*
 * Returns true if another open request is for the same key, and one of the two is a put. If
 * requests may overtake each other, the request of check_open() must not be sent then.
 */
bool check_crosses(const struct checker *c, const struct kv_req *req);

/* The caller will not send the request of check_open(). Its operation can be opened again. */
void check_cancel(struct checker *c, const struct kv_req *req);

/*
 * Checks a reply. If it closes a slot, returns true and writes the time at which the slot was
 * opened; an erroneous reply may close a slot too. A reply that closes no slot is only counted.
 */
bool check_reply(struct checker *c, uint64_t token, const struct kv_resp *resp,
	uint64_t *start_ns_p);

/* The steps of check_reply(), for rmw.h: */

/* The result of the slot's request is unknown. */
void check_give_up(struct checker *c, const struct check_slot *slot);

/* The slot of a reply; NULL: there is none, and the reply is counted. */
ALWAYS_INLINE struct check_slot *check_find(struct checker *c, uint64_t token)
{
	uint32_t id = (uint32_t)token & c->slot_mask;

	if (token > UINT32_MAX || !slab_in_use(&c->free, id) || c->slots[id].seq != token) {
		c->n.duplicated++;
		return NULL;
	}
	return &c->slots[id];
}

/* True: the reply answers the slot's request. False: it was counted; the caller closes the slot. */
ALWAYS_INLINE bool check_answers(struct checker *c, const struct check_slot *slot,
	const struct kv_resp *resp)
{
	if (resp->origin != (uint16_t)c->origin || resp->seq != slot->seq) {
		c->n.misdelivered++;
	} else if (resp->type == KV_ERROR) {
		c->n.refused++;
		if (!c->first_errno)
			c->first_errno = (int)(resp->value & 0xffff);
	} else {
		return true;
	}
	check_give_up(c, slot);
	return false;
}

/* The slot's operation is verified; @found: its key had a value. */
void check_verified(struct checker *c, const struct check_slot *slot, uint64_t value, bool found);
/* The slot's operation has failed with this verdict, unless it is READ_RIGHT. */
void check_wrong(struct checker *c, enum verdict v);

ALWAYS_INLINE void check_close(struct checker *c, const struct check_slot *slot)
{
	slab_put(&c->free, slot->seq & c->slot_mask);
}

/*
 * Ends a run. Operations that are still open count as lost, or with @stopped as unfinished. A reply
 * that arrives later counts as duplicated.
 */
void check_finish(struct checker *c, bool stopped);

static inline uint64_t check_errors(const struct check_counts *n)
{
	return n->refused + n->wrong_value + n->forgotten + n->stale + n->invented +
	       n->misdelivered + n->lost + n->duplicated;
}

#endif
