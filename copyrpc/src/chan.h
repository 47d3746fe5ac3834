/* SPDX-License-Identifier: MIT */
/*
 * One endpoint without its queue pair: two rings, what is placed in the one and held in
 * the other, the pending calls. It knows no device, so that tests can run two of them
 * against each other in memory; ep.c puts a queue pair under it.
 *
 * Sending: chan_call() and chan_reply() place messages in batches. The transport asks
 * chan_front() for the next batch to send, and when it is certain to post it, chan_seal()
 * fills in its metadata and takes it off. Receiving: chan_receive() with a completion's
 * immediate. Positions are in blocks and only grow; the block of a position is at
 * position % c.
 */
#ifndef COPYRPC_CHAN_H
#define COPYRPC_CHAN_H

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "copyrpc.h"
#include "credit.h"
#include "wire.h"

struct chan;

struct copyrpc_req {
	struct copyrpc_req *prev, *next; /* of those whose bytes are in the ring, by age */
	struct copyrpc_req *queued; /* the next one in struct req_queue, or of the free ones */
	struct chan *ch;
	const void *data;
	uint64_t pos; /* where its header is */
	uint32_t len;
	uint32_t id;
	uint32_t resp_max; /* bytes that the reply may have: the caller's number */
	uint32_t allowance; /* blocks that it may cost */
	bool detached; /* data is allocated, the ring has its bytes back */
};

/* Requests that wait for copyrpc_recv(), of all endpoints of a context. */
struct req_queue {
	struct copyrpc_req *head;
	struct copyrpc_req **tail_p;
};

struct call {
	uint64_t token; /* of a free one: the id of the next */
	uint64_t resp_max; /* bytes; CALL_FREE: not pending */
};

#define CALL_NONE UINT32_MAX
#define CALL_FREE UINT64_MAX /* no limit in a header is as large */

struct batch {
	uint64_t start;
	uint64_t end; /* of a closed one */
	uint32_t count; /* messages, or WIRE_WRAP */
	uint32_t calls; /* of them requests */
	uint32_t last_len; /* payload of the last message, behind which nothing is sent */
};

struct chan {
	struct credit cr;
	int status; /* 0; else no messages go in either direction, and no batch is open */
	bool stalled; /* a call found no room since the peer's position last moved */
	uint8_t nclosed;
	uint8_t *send_ring;
	uint32_t payload_max;
	uint32_t reserve; /* credit that only nested calls may use */
	uint32_t mask; /* blocks - 1 */
	uint64_t call_end; /* a call that joins the open batch and ends before has room */
	struct batch open; /* while cr.edge; it ends at cr.p */
	/* Closed by the ring's end and not yet sent. As a window of one ring holds one ring
	 * end at most, there are never more than the batch before it and the marker. */
	struct batch closed[2];
	uint64_t sent; /* all before has been handed to the transport */

	const uint8_t *recv_ring;
	uint64_t parsed; /* all before has been taken in */
	uint64_t told; /* consumer position that the peer's last batch told */
	uint32_t unasked; /* of cr.r, what no request received has asked for */
	struct copyrpc_req *reqs, *req_free;
	struct copyrpc_req live; /* the list's head: prev and next only */
	struct req_queue *queue;

	uint32_t ncalls, call_free; /* pending; the first free one */
	uint32_t max_calls;
	struct call *calls;

	struct copyrpc_ep *ep; /* what callbacks are told */
	struct copyrpc_stats stats;
};

/*
 * Rings of `blocks` blocks, a power of two from 8, which the caller owns; at most
 * max_calls pending ones, 0: as many as there can be. -ENOMEM. `at` is where positions
 * start: 0, but in tests.
 */
int chan_init(struct chan *ch, void *send_ring, const void *recv_ring, uint32_t blocks,
	uint32_t max_calls, bool nested, struct req_queue *queue, uint64_t at);
void chan_fini(struct chan *ch);

/*
 * A batch of n blocks has arrived at the parse position. Returns the messages handled, or
 * -EPROTO: it breaks the protocol (messages before the one that does have been handled).
 * Ends early when a callback changes ch->status.
 */
int chan_receive(struct chan *ch, uint32_t n, copyrpc_response_fn *fn, void *arg);

/* The consumer position that a READ of the peer's word brought, in bytes, unchecked.
 * -EPROTO: it cannot be true. */
int chan_read_done(struct chan *ch, uint64_t consumer);

/* chan_seal() of closed batches, markers and batches without messages. */
uint32_t chan_seal_odd(struct chan *ch, uint64_t *pos_p, uint32_t *len_p);

/* Gives it a status other than 0: what was not sent is lost. */
void chan_stop(struct chan *ch, int status);

/* Ends up to all pending calls with ch->status; returns how many. */
int chan_end_calls(struct chan *ch, copyrpc_response_fn *fn, void *arg);

/* Drops what copyrpc_recv() has not yet taken. */
void chan_drop_queued(struct chan *ch);

/* ENOMEM as copyrpc_req_detach(). */
int chan_detach(struct copyrpc_req *req);

/* Closes the open batch, has a marker written over `wrap` blocks, opens the next. */
void chan_new_batch(struct chan *ch, uint32_t wrap);

/* chan_call() and chan_reply() of all that does not just join the open batch: first of all
 * what opens one. */
int chan_call_first(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint32_t reserve);
int chan_reply_first(struct copyrpc_req *req, const void *data, uint32_t len);

static inline void *chan_at(uint8_t *ring, const struct chan *ch, uint64_t pos)
{
	return ring + (size_t)(pos & ch->mask) * WIRE_BLOCK;
}

/* All before has been consumed, and may be overwritten by the peer. Blocks. */
static inline uint64_t chan_consumer(const struct chan *ch)
{
	return ch->live.next == &ch->live ? ch->parsed : ch->live.next->pos;
}

/* Is there something to seal? */
static inline bool chan_waits(const struct chan *ch)
{
	return ch->nclosed || ch->cr.edge;
}

/* What is sealed next, or NULL. */
static inline const struct batch *chan_front(const struct chan *ch)
{
	return ch->nclosed ? &ch->closed[0] : ch->cr.edge ? &ch->open : NULL;
}

/* Consumer position and credit of now, and what the batch has. */
static inline void chan_put_meta(struct chan *ch, const struct batch *b)
{
	uint32_t credit = credit_grant(&ch->cr);

	ch->unasked += credit;
	wire_put_meta(chan_at(ch->send_ring, ch, b->start), chan_consumer(ch) * WIRE_BLOCK,
		(uint64_t)credit * WIRE_BLOCK, b->count);
	ch->sent = b->end;
}

static inline uint32_t chan_batch_bytes(const struct batch *b)
{
	return (uint32_t)(b->end - b->start) * WIRE_BLOCK - wire_padding(b->last_len);
}

static inline void chan_count_batch(struct chan *ch, const struct batch *b)
{
	ch->stats.batches++;
	ch->stats.calls += b->calls;
	ch->stats.replies += b->count - b->calls;
}

/* Takes the batch off and writes its metadata; it is chan_front()'s. *len_p: bytes to
 * write, from *pos_p on. Returns the immediate. */
static inline uint32_t chan_seal(struct chan *ch, uint64_t *pos_p, uint32_t *len_p)
{
	struct batch *b = &ch->open;

	if (unlikely(ch->nclosed || !b->count))
		return chan_seal_odd(ch, pos_p, len_p);
	b->end = ch->cr.p;
	ch->cr.edge = ch->call_end = 0;
	chan_put_meta(ch, b);
	chan_count_batch(ch, b);
	*pos_p = b->start;
	*len_p = chan_batch_bytes(b);
	ch->stats.bytes += *len_p;
	return (uint32_t)(b->end - b->start);
}

/* The peer's position is worth a READ, and there is something that it can be news of. */
static inline bool chan_read_due(const struct chan *ch)
{
	return credit_read_due(&ch->cr, ch->stalled) && ch->cr.rc != ch->sent;
}

/* Opens a batch without messages when the credit is worth it. */
static inline bool chan_credit_batch(struct chan *ch)
{
	if (chan_waits(ch) || !credit_batch_due(&ch->cr))
		return false;
	chan_new_batch(ch, 0);
	return true;
}

/* It may be too low, as the peer's position moves on; call_odd() of chan.c finds that out. */
static inline void chan_set_call_end(struct chan *ch)
{
	uint64_t end = credit_call_end(&ch->cr);

	ch->call_end = end < ch->cr.edge ? end : ch->cr.edge;
}

static inline void chan_open(struct chan *ch, uint32_t wrap)
{
	ch->open = (struct batch){.start = ch->cr.p + wrap};
	credit_open(&ch->cr, wrap);
	chan_set_call_end(ch);
}

/* Can a batch be opened for a message of so many blocks, with nothing before it to close or
 * to skip? */
static inline bool chan_opens(const struct chan *ch, uint32_t size)
{
	return !ch->cr.edge && !ch->status && ((uint32_t)ch->cr.p & ch->mask) + size <= ch->mask;
}

/* Appends a message to the open batch, which has room. The copying comes last, so that
 * nothing has to be kept across it. */
static inline void chan_append(struct chan *ch, uint32_t size, uint32_t id, uint32_t limit,
	const void *data, uint32_t len)
{
	void *at = chan_at(ch->send_ring, ch, ch->cr.p);

	assert(!ch->status);
	ch->cr.p += size;
	ch->open.count++;
	ch->open.last_len = len;
	at = wire_put_header(at, id, limit, len);
	if (likely(len))
		memcpy(at, data, len);
}

/* A call that was found to fit the open batch and the credit. */
static inline int chan_add_call(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token)
{
	uint32_t size = wire_blocks(len), id = ch->call_free;
	struct call *call = &ch->calls[id];

	ch->call_free = (uint32_t)call->token;
	ch->ncalls++;
	*call = (struct call){token, resp_max};
	ch->cr.k -= credit_allowance(wire_blocks(resp_max));
	ch->open.calls++;
	chan_append(ch, size, id, resp_max, data, len);
	assert(credit_holds(&ch->cr));
	return 0;
}

/* As copyrpc_call(), when `reserve` blocks of credit have to stay. */
static inline int chan_call(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint32_t reserve)
{
	uint32_t size = wire_blocks(len), allowance = credit_allowance(wire_blocks(resp_max));

	/* No batch is open, and call_end is 0, while the status is not 0. */
	if (unlikely(len > ch->payload_max || resp_max > ch->payload_max ||
		     ch->cr.k < allowance + reserve || ch->call_free == CALL_NONE ||
		     ch->cr.p + size > ch->call_end))
		return chan_call_first(ch, data, len, resp_max, token, reserve);
	return chan_add_call(ch, data, len, resp_max, token);
}

static inline void chan_put_call(struct chan *ch, struct call *call)
{
	call->resp_max = CALL_FREE;
	call->token = ch->call_free;
	ch->call_free = (uint32_t)(call - ch->calls);
	ch->ncalls--;
}

/* Gives the bytes of a request back; those behind an older one wait for that. */
static inline void chan_release(struct copyrpc_req *req)
{
	req->prev->next = req->next;
	req->next->prev = req->prev;
}

/* The entry of a request whose bytes were given back is free again. */
static inline void chan_put_req(struct chan *ch, struct copyrpc_req *req)
{
	req->queued = ch->req_free;
	ch->req_free = req;
}

/* Gives everything back that a request has. */
void chan_drop_req(struct copyrpc_req *req);

/* Requests that have no reply yet. Slow: looks for the entries that are free. */
uint32_t chan_requests(const struct chan *ch);

/* Counters, with what has not been sent. */
struct copyrpc_stats chan_stats(const struct chan *ch);

/* A reply that was found to fit the open batch and the request's limit; not detached. */
static inline int chan_add_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct chan *ch = req->ch;

	/* The bytes that data may point to stay until the next flush tells the peer. */
	chan_release(req);
	chan_put_req(ch, req);
	ch->cr.r -= req->allowance;
	chan_append(ch, wire_blocks(len), req->id | WIRE_RESPONSE, req->resp_max, data, len);
	assert(credit_holds(&ch->cr));
	return 0;
}

/* As copyrpc_reply(). */
static inline int chan_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct chan *ch = req->ch;
	uint32_t size = wire_blocks(len);

	/* No batch is open while the status is not 0. */
	if (unlikely(req->detached || len > req->resp_max || !credit_joins(&ch->cr, size)))
		return chan_reply_first(req, data, len);
	return chan_add_reply(req, data, len);
}

#endif
