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
#include "base/slab.h"
#include "copyrpc.h"
#include "credit.h"
#include "wire.h"

struct chan;

struct copyrpc_req {
	struct copyrpc_req *prev, *next; /* of those whose bytes are in the ring, by age */
	struct copyrpc_req *queued;      /* the next one in struct req_queue */
	struct chan *ch;
	const void *data;
	uint64_t pos; /* where its header is */
	uint32_t len;
	uint32_t id;
	uint32_t allowance; /* blocks, metadata included */
	bool detached;      /* data is allocated, the ring has its bytes back */
};

/* Requests that wait for copyrpc_recv(), of all endpoints of a context. */
struct req_queue {
	struct copyrpc_req *head;
	struct copyrpc_req **tail_p;
};

struct call {
	uint64_t token;
	uint32_t resp_max;  /* bytes */
	uint32_t allowance; /* blocks */
};

struct batch {
	uint64_t start;
	uint64_t end;
	uint32_t count; /* messages, or WIRE_WRAP */
	uint32_t calls; /* of them requests */
};

struct chan {
	struct credit cr;
	int status;   /* 0; no messages go in either direction while it is not */
	bool stalled; /* a call found no room since the peer's position last moved */
	uint8_t nclosed;
	uint8_t *send_ring;
	uint32_t payload_max;
	uint32_t mask;     /* blocks - 1 */
	struct batch open; /* while cr.open */
	/* Closed by the ring's end and not yet sent. As a window of one ring holds one ring
	 * end at most, there are never more than the batch before it and the marker. */
	struct batch closed[2];
	uint64_t sent; /* all before has been handed to the transport */

	const uint8_t *recv_ring;
	uint64_t parsed; /* all before has been taken in */
	uint64_t told;   /* consumer position that the peer's last batch told */
	uint32_t held;   /* allowances of the requests received and not yet answered */
	struct slab req_ids;
	struct copyrpc_req *reqs;
	struct copyrpc_req live; /* the list's head: prev and next only */
	struct req_queue *queue;

	struct slab call_ids;
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
	uint32_t max_calls, struct req_queue *queue, uint64_t at);
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

/* Takes the batch off and writes its metadata; it is chan_front()'s. *len_p: bytes to
 * write, from *pos_p on. Returns the immediate. */
uint32_t chan_seal(struct chan *ch, uint64_t *pos_p, uint32_t *len_p);

/* Ends up to all pending calls with ch->status; returns how many. */
int chan_end_calls(struct chan *ch, copyrpc_response_fn *fn, void *arg);

/* Drops what copyrpc_recv() has not yet taken. */
void chan_drop_queued(struct chan *ch);

/* ENOMEM as copyrpc_req_detach(). */
int chan_detach(struct copyrpc_req *req);

/* Closes the open batch, writes the marker if there is to be one, opens the next. */
void chan_new_batch(struct chan *ch, uint32_t wrap);

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
static inline const struct batch *chan_front(const struct chan *ch)
{
	return ch->nclosed ? &ch->closed[0] : ch->cr.open ? &ch->open : NULL;
}

/* Opens a batch without messages when the credit is worth it. */
static inline bool chan_credit_batch(struct chan *ch)
{
	if (chan_front(ch) || !credit_batch_due(&ch->cr))
		return false;
	chan_new_batch(ch, 0);
	credit_place(&ch->cr, ch->cr.p + 1);
	ch->open.end = ch->cr.p;
	return true;
}

/* Places a message as planned. */
static inline void chan_place(struct chan *ch, const struct placement *to, uint32_t size,
	uint32_t id, uint32_t allowance, const void *data, uint32_t len)
{
	void *payload;

	if (unlikely(!to->joins))
		chan_new_batch(ch, to->wrap);
	payload = wire_put_header(chan_at(ch->send_ring, ch, to->end - size), id, allowance, len);
	if (len)
		memcpy(payload, data, len);
	ch->open.end = to->end;
	ch->open.count++;
	credit_place(&ch->cr, to->end);
}

/* As copyrpc_call(). */
static inline int chan_call(
	struct chan *ch, const void *data, uint32_t len, uint32_t resp_max, uint64_t token)
{
	struct placement to;
	uint32_t size, allowance, id;

	if (unlikely(ch->status))
		return ch->status;
	if (unlikely(len > ch->payload_max || resp_max > ch->payload_max))
		return -EMSGSIZE;
	size = wire_blocks(len);
	allowance = wire_blocks(resp_max) + 1;
	if (unlikely(ch->cr.k < allowance)) {
		ch->stats.credit_stalls++;
		return -ENOBUFS;
	}
	to = credit_plan(&ch->cr, size);
	if (unlikely(!credit_call_fits(&ch->cr, to.end))) {
		ch->stats.ring_stalls++;
		ch->stalled = true;
		return -EAGAIN;
	}
	id = slab_get(&ch->call_ids);
	if (unlikely(id == SLAB_NONE))
		return -EAGAIN;
	ch->calls[id] = (struct call){token, resp_max, allowance};
	ch->cr.k -= allowance;
	chan_place(ch, &to, size, id, allowance, data, len);
	ch->open.calls++;
	ch->stats.calls++;
	assert(credit_holds(&ch->cr));
	return 0;
}

/* Gives the bytes of a request back; those behind an older one wait for that. */
static inline void chan_release(struct copyrpc_req *req)
{
	req->prev->next = req->next;
	req->next->prev = req->prev;
}

/* The request is done with; its bytes are given back, unless they were. */
void chan_free_detached(struct copyrpc_req *req);
static inline void chan_put_req(struct copyrpc_req *req)
{
	struct chan *ch = req->ch;

	ch->held -= req->allowance;
	if (unlikely(req->detached))
		chan_free_detached(req);
	else
		chan_release(req);
	slab_put(&ch->req_ids, (uint32_t)(req - ch->reqs));
}

/* As copyrpc_reply(). */
static inline int chan_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct chan *ch = req->ch;
	struct placement to;
	uint32_t size;

	if (unlikely(ch->status)) {
		chan_put_req(req);
		return ch->status;
	}
	if (unlikely(len > wire_payload(req->allowance - 1)))
		return -EMSGSIZE;
	size = wire_blocks(len);
	to = credit_plan(&ch->cr, size);
	chan_place(ch, &to, size, req->id | WIRE_RESPONSE, req->allowance, data, len);
	credit_replied(&ch->cr, req->allowance);
	ch->stats.replies++;
	chan_put_req(req);
	return 0;
}

#endif
