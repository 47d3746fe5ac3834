/* SPDX-License-Identifier: MIT */
/*
 * A channel is an endpoint without its queue pair: two rings, the batches in the send ring, the
 * requests in the receive ring, and the pending calls. It uses no device, so tests can connect two
 * channels in memory; ep.c adds a queue pair.
 *
 * Sending: chan_call() and chan_reply() place messages in batches. chan_waits() returns true if
 * there is a batch. When the transport (flush.c, or a test) is certain to post the oldest batch,
 * chan_seal() fills in the metadata and removes the batch. Receiving: for each completion the
 * transport calls chan_expects() with the immediate, chan_accept() and chan_handle() (receive.h).
 * Positions are in blocks of WIRE_BLOCK bytes and only grow; in a ring of c blocks, position x is
 * at block x % c.
 *
 * A batch is first open: messages are added to it. At most one batch is open; it is in `open`,
 * which is valid while cr.edge is not 0. If the next message does not fit before the ring's end,
 * the batch is closed and moved to `closed`. chan_call() and chan_reply() open and close batches,
 * chan_seal() seals the oldest.
 */
#ifndef COPYRPC_CHAN_H
#define COPYRPC_CHAN_H

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "copyrpc.h"
#include "credit.h"
#include "links.h"
#include "wire.h"

struct chan;

/* A circular list, oldest first. The head of the list is also a link; it follows the newest one. */
struct req_link {
	struct req_link *prev, *next;
	uint64_t pos; /* position of the request's header; in the head: end of the received
			 batches */
};

struct copyrpc_req {
	struct req_link live; /* in the list of the requests whose bytes are in the ring */
	struct copyrpc_req *queued; /* the next one in struct req_queue, or in the free list */
	struct chan *ch;
	const void *data;
	uint32_t len;
	uint32_t id;
	uint32_t resp_max; /* largest length of the reply in bytes, set by the caller */
	uint32_t allowance; /* the same in blocks of credit */
	bool detached; /* data is in allocated memory; the bytes in the ring have been released */
	struct served *served; /* of a large request (serve.c); else NULL */
};

/* The requests of all endpoints of a context that copyrpc_recv() has not returned yet. */
struct req_queue {
	struct copyrpc_req *head;
	struct copyrpc_req **tail_p;
	/* Called for a large request. Keeps it for the queue, or answers it with an error; returns
	 * 0. Drops a wrong one and returns -EPROTO. If the pointer is NULL, a large request breaks
	 * the protocol. */
	int (*large)(struct copyrpc_req *req);
	/* Releases the memory of a large request, and sets `data` and `served` to NULL. */
	void (*release)(struct copyrpc_req *req);
};

struct listener;

/* A call whose end the library handles, such as a large call. */
struct call_hook {
	uint64_t token;
	bool canceled;
	/*
	 * Ends the call: with its response, or with @status if that is not 0. @to is NULL if the
	 * context is being destroyed; then the program is not notified. Returns 0, or -EPROTO if
	 * the response is wrong.
	 */
	int (*end)(struct call_hook *hook, struct copyrpc_ep *ep, const struct listener *to,
		int status, const void *data, uint32_t len);
};

struct call {
	union {
		uint64_t token; /* pending: set by the caller */
		struct call_hook *hook; /* pending, with CALL_HOOKED */
		uint64_t next_free; /* free: id of the next free call, or CALL_NONE */
	};
	uint64_t resp_max; /* pending: bytes, maybe with a CALL_ bit (below); free: CALL_FREE */
};

/*
 * If a call has one of these bits in resp_max, its response takes the slow path:
 *
 *	CALL_HOOKED	the library handles the end of the call (struct call_hook)
 *	CALL_CANCELED	the call was canceled, but its end was not reported yet
 *	CALL_TIMED	the call has a time limit
 *	CALL_LATE	the end of the call was reported before its response arrived; the id and the
 *			credit remain in use until the response arrives and is dropped
 */
#define CALL_HOOKED (1ull << 60)
#define CALL_CANCELED (1ull << 61)
#define CALL_TIMED (1ull << 62)
#define CALL_LATE (1ull << 63)

#define CALL_NONE UINT32_MAX
#define CALL_FREE UINT64_MAX /* larger than any limit in a header */

/* The callback for responses, and a count. */
struct listener {
	copyrpc_response_fn *fn;
	void *arg;
	int handled; /* number of messages, and of calls that ended without a response */
};

struct batch {
	uint64_t start;
	uint64_t end; /* of a closed batch */
	uint32_t count; /* messages, or WIRE_WRAP */
	uint32_t calls; /* requests among them */
	/* Length with the metadata, but without the padding of the last message, which is not
	 * sent. */
	uint64_t bytes;
};

/* Entries for some of a channel's requests. A block never moves, because the program holds pointers
 * into it. */
struct req_block {
	struct req_block *next;
	uint32_t n;
	struct copyrpc_req reqs[];
};

/* Memory for a ring. The owner of the ring sends its address, key and size to the peer. */
struct ring_offer {
	uint64_t addr;
	uint32_t key;
	uint32_t blocks; /* 0: none */
};

/* Rings that become larger (grow.h). */
struct growth {
	/* The send ring. */
	uint32_t ask, asked; /* blocks to ask the peer for, 0: nothing; the most asked for so far */
	struct ring_offer offered; /* by the peer, not in use yet */
	uint8_t *next_send; /* memory of the same size on this side; NULL: not there yet */
	uint8_t *old_send; /* contains the batches before `moved`, which may be sent again; NULL:
			      none */
	uint64_t moved;
	uint32_t old_mask;
	uint32_t laps; /* of the send ring, since the transport last set this to 0 */
	/* The receive ring. */
	uint32_t need; /* blocks that the ring should have */
	bool tell; /* the offer is not in a batch yet */
	struct ring_offer offer; /* to the peer, not in use yet */
	uint8_t *next_recv;
	const uint8_t *old_recv; /* contains the requests before `left`; NULL: none */
	uint64_t left;
};

struct chan {
	struct credit cr;
	int status; /* 0: connected; else chan_call() and chan_reply() fail, and no batch is open */
	/* Reasons why a flush needs the general path; `odd` is 0 if there is none. */
	union {
		struct {
			bool stalled; /* a call has found no room since the peer's position last
					 changed */
			bool bare; /* the open batch was opened without a message */
			uint8_t nclosed : 2;
			bool away : 1; /* set by the transport: nothing can be sent */
			bool again : 1; /* batches must be sent again before others are sent */
			bool growing : 1; /* a flush must do work for larger rings */
			bool unwatched; /* the endpoint is not in the list of endpoints whose peers
					   are watched. The transport sets this field and the next
					   three */
			bool reading; /* a READ of the peer's position is pending */
			bool probe; /* a READ is needed to test whether the peer lives */
			bool read_timed; /* the time of the next READ is set */
			bool handling; /* the messages of a batch are being handled: a callback may
					  run, and the peer must not overwrite the batch */
		};
		uint64_t odd;
	};
	uint8_t *send_ring;
	uint32_t payload_max; /* of any message of either side, in rings of `most` blocks */
	uint32_t len_max, resp_max; /* payloads for which the rings are large enough now */
	uint32_t reserve; /* credit that only nested calls may use */
	uint64_t spendable; /* credit for calls that are not nested: all but the reserve */
	uint32_t mask; /* blocks of the send ring - 1 */
	/* Positions up to which messages fit without further checks. chan_advance() moves them on.
	 * They are 0 while the status is not 0. */
	uint64_t end; /* for replies: cr.edge if a batch is open, else the ring's end after cr.p */
	uint64_t call_end; /* for calls: at most `end`; a batch that ends here, or before, can grant
			      all credit */
	struct batch open; /* valid if cr.edge is not 0; ends at cr.p */
	/*
	 * Batches that were closed at the ring's end and not yet sent. The unsent blocks contain
	 * the ring's end at most once, so there are at most two such batches: the one before the
	 * end, and the marker.
	 */
	struct batch closed[2];
	uint64_t sent; /* end of the sealed batches */
	uint64_t resend; /* start of the next batch to send again; `sent` if there is none */

	const uint8_t *recv_ring;
	uint32_t recv_mask; /* blocks - 1 */
	uint32_t most; /* maximum number of blocks of a ring */
	bool nested;
	struct growth grow;
	/* The last position that the next batch may occupy, which chan_look_ahead() computes. It is
	 * less than live.pos while the status is not 0. */
	uint64_t recv_last;
	uint64_t told; /* consumer position in the peer's last batch */
	uint32_t unasked; /* blocks of R (credit.h) that no received request uses */
	struct req_block *reqs;
	uint32_t n_reqs;
	struct copyrpc_req *req_free;
	/* Requests whose bytes are in the ring; if empty, the head links to itself. */
	struct req_link live;
	struct req_queue *queue;

	uint32_t ncalls, call_free; /* number of pending calls; first free id or CALL_NONE */
	uint32_t max_calls; /* entries of `calls`, and of `deadlines` */
	uint32_t max_pending; /* the program's limit for the number of pending calls */
	struct call *calls;
	uint32_t late; /* pending calls whose end was reported already */
	uint32_t timed_end; /* greater than the id of every call with a time limit */
	uint64_t *deadlines; /* indexed by id; 0: none. NULL: no call has had a time limit */

	struct copyrpc_ep *ep; /* argument of callbacks */
	uint64_t usual; /* batches that were sent alone, with a doorbell; not in `stats` */
	struct copyrpc_stats stats;
};
static_assert(offsetof(struct chan, send_ring) == offsetof(struct chan, odd) + sizeof(uint64_t),
	"`odd` has all reasons");

/*
 * The caller owns the rings. @blocks: size of a ring, a power of two, at least 8; @most: the size
 * up to which they may grow. @max_pending: largest number of pending calls, 0: as many as possible.
 * @at: first position, 0 except in tests. Returns 0 or -ENOMEM.
 */
int chan_init(struct chan *ch, void *send_ring, const void *recv_ring, uint32_t blocks,
	uint32_t most, uint32_t max_pending, bool nested, struct req_queue *queue, uint64_t at);
void chan_fini(struct chan *ch);

/* Checks and accepts the consumer position that a READ has returned, in bytes. Returns 0 or
 * -EPROTO. */
int chan_read_done(struct chan *ch, uint64_t consumer);

/* Sets a status other than 0. Batches that were not sent are lost. */
void chan_stop(struct chan *ch, int status);

/* Does the same as chan_call(), but the call ends at the time @deadline, which must not be 0. Only
 * the first call with a time limit can fail with -ENOMEM. */
int chan_call_timed(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint64_t deadline);

/* Makes a large call with this payload (struct wire_large). When it ends, hook->end is called.
 * Returns the same as copyrpc_call(). */
int chan_call_large(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	struct call_hook *hook);

/* Ends the calls whose time is over with -ETIMEDOUT. Returns their number. Lowers *next_p to the
 * earliest deadline of the other calls. */
int chan_expire(struct chan *ch, uint64_t now, const struct listener *to, uint64_t *next_p);

/* Cancels a call, which chan_end_calls() then ends; but a call with CALL_HOOKED ends when its
 * response arrives. Returns 0, -ENOENT, or ch->status. */
int chan_cancel(struct chan *ch, uint64_t token);

/* Checks a response to a call that has a CALL_ bit in resp_max, or to a call that does not exist.
 * Returns 0 if the response must be delivered, 1 if it was handled, or -EPROTO. */
int chan_odd_response(struct chan *ch, uint32_t id, uint32_t limit, const void *payload,
	uint32_t len, const struct listener *to);

/* Ends the canceled calls with -ECANCELED. If ch->status is not 0, also ends all other pending
 * calls, with that status. Returns the number of calls that were ended. */
int chan_end_calls(struct chan *ch, const struct listener *to);

/* Called when a context is destroyed: ends the calls whose end the library handles. The program is
 * not notified. */
void chan_drop_calls(struct chan *ch);

/* Drops the requests that copyrpc_recv() has not yet returned. */
void chan_drop_queued(struct chan *ch);

/* Implements copyrpc_req_detach(). */
int chan_detach(struct copyrpc_req *req);

/* Sets the limits that depend on the sizes of the rings. */
void chan_set_limits(struct chan *ch);

/* chan_add_reqs() adds entries for the requests that the peer may make if the send ring has @blocks
 * blocks. chan_add_calls() adds entries for the calls that this side may make if the receive ring
 * has @blocks blocks. Both return 0 or -ENOMEM. */
int chan_add_reqs(struct chan *ch, uint32_t blocks);
int chan_add_calls(struct chan *ch, uint32_t blocks);

/* Closes the open batch, adds a marker over `wrap` blocks (if not 0), and opens a new batch. */
void chan_new_batch(struct chan *ch, uint32_t wrap);

/* Recomputes `end` and `call_end`, which may have become too low. The status must be 0. */
void chan_advance(struct chan *ch);

/* These are the general paths of chan_call() and chan_reply(). They also check for errors. */
int chan_call_odd(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, bool nested);
int chan_reply_odd(struct copyrpc_req *req, const void *data, uint32_t len);

static inline void *chan_at(uint8_t *ring, const struct chan *ch, uint64_t pos)
{
	return ring + (size_t)(pos & ch->mask) * WIRE_BLOCK;
}

/* Returns the consumer position, in blocks. The peer may overwrite everything before this
 * position. */
static inline uint64_t chan_consumer(const struct chan *ch)
{
	return ch->live.next->pos;
}

/* Returns the consumer position in bytes, as it is sent to the peer. */
static inline uint64_t chan_consumer_bytes(const struct chan *ch)
{
	return chan_consumer(ch) * WIRE_BLOCK;
}

/* Returns true if there is a batch to seal. */
static inline bool chan_waits(const struct chan *ch)
{
	return ch->nclosed || ch->cr.edge;
}

/* Returns true if the open batch is the only one to send, and it can grant all credit. When it has
 * been sealed, no credit is owed any more, so no READ of the peer's position is due either. */
static inline bool chan_is_usual(const struct chan *ch)
{
	return ch->cr.edge && !ch->odd && ch->cr.p <= ch->call_end;
}

static inline uint32_t chan_open_blocks(const struct chan *ch)
{
	return (uint32_t)(ch->cr.p - ch->open.start);
}

/* Returns the length of the open batch, in bytes. */
static inline uint64_t chan_open_bytes(const struct chan *ch)
{
	assume(ch->open.bytes >= WIRE_BLOCK);
	return ch->open.bytes;
}

/*
 * Seals the open batch, as chan_seal() does. chan_is_usual() must be true. @meta: where the
 * metadata is written; @batch: the batch in the ring; @consumer: chan_consumer_bytes(); @len:
 * chan_open_bytes().
 */
static inline void chan_seal_usual(struct chan *ch, void *meta, void *batch, uint64_t consumer,
	uint64_t len)
{
	uint32_t credit, count;

	ch->usual++;
	ch->stats.bytes += len;
	ch->sent = ch->cr.p;
	ch->cr.edge = 0;
	forget_loads();
	credit = credit_grant_all(&ch->cr);
	count = ch->open.count;
	ch->unasked += credit;
	wire_put_meta(meta, consumer, (uint64_t)credit * WIRE_BLOCK, count);
	wire_keep_meta(batch, (uint64_t)credit * WIRE_BLOCK, count);
}

/*
 * Removes the oldest batch and writes its metadata. @consumer: the consumer position to report to
 * the peer, in bytes. Sets *pos_p and *len_p to the position and the length of the bytes to send.
 * Returns the immediate.
 */
uint32_t chan_seal(struct chan *ch, uint64_t consumer, uint64_t *pos_p, uint32_t *len_p);

/*
 * Called after the connection was lost: the peer has received all bytes before @pos. The batches
 * from @pos on will be sent again. Returns 0, or -EPROTO if @pos is impossible.
 */
int chan_resume(struct chan *ch, uint64_t pos);

/* Does the same as chan_seal() for the next batch to send again. The batch keeps its position,
 * messages and credit. Returns the immediate, or 0 if the position that the peer has sent is not
 * the start of a batch. */
uint32_t chan_seal_again(struct chan *ch, uint64_t consumer, uint64_t *pos_p, uint32_t *len_p);

/* Returns the number of messages that have been placed and not sealed. Sets *calls_p to the number
 * of calls among them. */
static inline uint32_t chan_unsent(const struct chan *ch, uint32_t *calls_p)
{
	uint32_t n = ch->cr.edge ? ch->open.count : 0;

	*calls_p = ch->cr.edge ? ch->open.calls : 0;
	for (uint32_t i = 0; i < ch->nclosed; i++) {
		if (ch->closed[i].count == WIRE_WRAP)
			continue;
		n += ch->closed[i].count;
		*calls_p += ch->closed[i].calls;
	}
	return n;
}

/* Returns true if a READ of the peer's position is useful and may return a new position. */
static inline bool chan_read_due(const struct chan *ch)
{
	return credit_read_due(&ch->cr, ch->stalled) && ch->cr.rc != ch->sent;
}

/* Opens a batch without messages if no batch waits and credit_batch_due() is true. Returns true if
 * a batch was opened. */
static inline bool chan_credit_batch(struct chan *ch)
{
	if (chan_waits(ch) || !credit_batch_due(&ch->cr))
		return false;
	chan_new_batch(ch, 0);
	ch->bare = true;
	return true;
}

static inline void chan_open(struct chan *ch, uint32_t wrap)
{
	ch->open.start = ch->cr.p + wrap;
	ch->open.count = ch->open.calls = 0;
	ch->open.bytes = WIRE_BLOCK;
	credit_open(&ch->cr, wrap);
}

/* Returns true if a message can be added to the open batch, or can begin a batch that needs no
 * marker before it. @end: ch->end for replies, ch->call_end for calls. */
static inline bool chan_fits(const struct chan *ch, uint32_t size, uint64_t end)
{
	return ch->cr.p + size + (ch->cr.edge ? 0 : 1) <= end;
}

/* Places a message for which chan_fits() is true. @calls: 1 for a call, else 0. The payload is
 * copied last, so that the compiler keeps no values across the copy. */
ALWAYS_INLINE void chan_append(struct chan *ch, uint32_t calls, uint32_t id, uint32_t limit,
	const void *data, uint32_t len)
{
	uint64_t p;
	void *at;

	forget_loads();
	assert(!ch->status);
	p = ch->cr.p;
	if (!ch->cr.edge) {
		assert(ch->end == (p | ch->mask) + 1);
		ch->open.start = p++;
		ch->cr.edge = ch->end;
		ch->open.count = 1;
		ch->open.calls = calls;
		ch->open.bytes = wire_append(WIRE_BLOCK, len);
		forget_loads();
	} else {
		ch->open.count++;
		ch->open.calls += calls;
		ch->open.bytes = wire_append((uint32_t)ch->open.bytes, len);
	}
	ch->cr.p = p + wire_blocks(len);
	at = wire_put_header(chan_at(ch->send_ring, ch, p), id, limit, len);
	if (likely(len))
		memcpy(at, data, len);
}

/* Adds a call for which there is room and credit. */
ALWAYS_INLINE int chan_add_call(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token)
{
	struct call *call;
	uint32_t id;

	ch->cr.spent += credit_allowance(wire_blocks(resp_max));
	forget_loads();
	id = ch->call_free;
	call = &ch->calls[id];
	ch->call_free = (uint32_t)call->next_free;
	ch->ncalls++;
	*call = (struct call){.token = token, .resp_max = resp_max};
	chan_append(ch, 1, id, resp_max, data, len);
	assert(credit_holds(&ch->cr));
	return 0;
}

/* Returns the total credit that calls may use. */
static inline uint64_t chan_spendable(const struct chan *ch, bool nested)
{
	return nested ? ch->cr.kmax : ch->spendable;
}

/* Does the same as copyrpc_call(), or as copyrpc_call_nested() if @nested is true. */
static inline int chan_call(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, bool nested)
{
	uint32_t size = wire_blocks(len), allowance = credit_allowance(wire_blocks(resp_max));

	if (unlikely(len > ch->len_max || ch->cr.spent + allowance > chan_spendable(ch, nested) ||
		     resp_max > ch->resp_max || ch->call_free == CALL_NONE ||
		     !chan_fits(ch, size, ch->call_end)))
		return chan_call_odd(ch, data, len, resp_max, token, nested);
	return chan_add_call(ch, data, len, resp_max, token);
}

static inline void chan_put_call(struct chan *ch, struct call *call, uint32_t id)
{
	call->resp_max = CALL_FREE;
	call->next_free = ch->call_free;
	ch->call_free = id;
	ch->ncalls--;
}

/* Releases a request's bytes. The consumer position advances over them when all older requests are
 * released, too. */
static inline void chan_release(struct copyrpc_req *req)
{
	req->live.prev->next = req->live.next;
	req->live.next->prev = req->live.prev;
}

/* Puts a request on the queue of copyrpc_recv(). */
static inline void chan_queue(struct chan *ch, struct copyrpc_req *req)
{
	QUEUE_APPEND(ch->queue, req, queued);
}

/* Frees the entry of a request whose bytes have been released. */
static inline void chan_put_req(struct chan *ch, struct copyrpc_req *req)
{
	req->queued = ch->req_free;
	ch->req_free = req;
}

/* Releases the bytes of a request, its detached data and its entry. */
void chan_drop_req(struct copyrpc_req *req);

/* Returns the number of requests without a reply. It is slow, because it counts the free
 * entries. */
uint32_t chan_requests(const struct chan *ch);

/* Returns the counters. They include messages that have not been sent. */
struct copyrpc_stats chan_stats(const struct chan *ch);

/* Returns true if chan_add_reply() may be called. It returns false while the status is not 0,
 * because no message fits then. */
static inline bool chan_takes_reply(const struct copyrpc_req *req, uint32_t len)
{
	return !req->detached && len <= req->resp_max &&
	       chan_fits(req->ch, wire_blocks(len), req->ch->end);
}

/* Does the same as copyrpc_reply(). chan_takes_reply() must be true. */
ALWAYS_INLINE int chan_add_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct chan *ch = req->ch;

	/* @data may point to the released bytes: the peer does not overwrite them before the next
	 * flush. */
	chan_release(req);
	chan_put_req(ch, req);
	ch->cr.owed += req->allowance;
	ch->stats.replies++;
	chan_append(ch, 0, req->id | WIRE_RESPONSE, req->resp_max, data, len);
	assert(credit_holds(&ch->cr));
	return 0;
}

/* Does the same as copyrpc_reply(). In the usual case, calls @changed (if not NULL) before it
 * places the reply; in all other cases it calls @odd, which must call chan_reply_odd(). */
ALWAYS_INLINE int chan_reply(struct copyrpc_req *req, const void *data, uint32_t len,
	void (*changed)(struct chan *ch),
	int (*odd)(struct copyrpc_req *req, const void *data, uint32_t len))
{
	if (unlikely(!chan_takes_reply(req, len)))
		return odd(req, data, len);
	if (changed)
		changed(req->ch);
	return chan_add_reply(req, data, len);
}

#endif
