/* SPDX-License-Identifier: MIT */
/*
 * The parser of batches, the part of chan.h that is inlined into the loop over the receive CQ.
 * Everything in the ring is written by the peer, and is checked before it is used.
 */
#ifndef COPYRPC_RECEIVE_H
#define COPYRPC_RECEIVE_H

#include "chan.h"

/* Accepts the flow control data: the position, then the credit. */
static inline int take_meta(struct chan *ch, const struct wire_meta *m)
{
	uint64_t consumer = m->consumer / WIRE_BLOCK;
	uint64_t rc = ch->cr.rc;

	if (unlikely((m->consumer | m->credit) % WIRE_BLOCK))
		return -EPROTO;
	if (unlikely(consumer < ch->told || !credit_consumed(&ch->cr, consumer, ch->sent)))
		return -EPROTO;
	if (unlikely(!credit_granted(&ch->cr, m->credit / WIRE_BLOCK)))
		return -EPROTO;
	ch->told = consumer;
	if (consumer > rc)
		ch->stalled = false;
	return 0;
}

static inline int take_request(struct chan *ch, const struct wire_header *h, const void *payload,
	uint64_t pos)
{
	struct copyrpc_req *req = ch->req_free;
	uint32_t allowance = credit_allowance(wire_blocks(h->limit));

	if (unlikely(h->len > ch->payload_max || h->limit > ch->payload_max))
		return -EPROTO;
	/* This also limits the number of requests: each uses two blocks of R or more. */
	if (unlikely(allowance > ch->unasked))
		return -EPROTO;
	ch->req_free = req->queued;
	ch->unasked -= allowance;
	req->data = payload;
	req->pos = pos;
	req->len = h->len;
	req->id = h->id;
	req->resp_max = h->limit;
	req->allowance = allowance;
	req->live.next = &ch->live;
	req->live.prev = ch->live.prev;
	req->live.prev->next = &req->live;
	ch->live.prev = &req->live;
	req->queued = NULL;
	*ch->queue->tail_p = req;
	ch->queue->tail_p = &req->queued;
	ch->stats.requests++;
	return 0;
}

static inline int take_response(struct chan *ch, const struct wire_header *h, const void *payload,
	const struct listener *to)
{
	uint32_t id = h->id & ~WIRE_RESPONSE;
	struct call *call;
	uint64_t token;

	if (unlikely(id >= ch->max_calls))
		return -EPROTO;
	call = &ch->calls[id];
	if (unlikely(h->len > h->limit))
		return -EPROTO;
	/* Also for a call that is not pending, because no limit equals CALL_FREE. */
	if (unlikely(h->limit != call->resp_max)) {
		int odd = chan_timed_response(ch, h, id);

		if (odd)
			return odd < 0 ? odd : 0;
	}
	token = call->token;
	chan_put_call(ch, call, id);
	ch->stats.responses++;
	to->fn(to->arg, ch->ep, token, 0, payload, h->len);
	return 0;
}

/* Handles the messages of a batch, which has `left` contiguous blocks from msg on; nothing
 * after these is read. Called with a constant for the usual batch of one message. */
static inline int take_messages(struct chan *ch, const uint8_t *msg, uint32_t left, uint32_t count,
	const struct listener *to)
{
	uint64_t end = ch->parsed;

	for (uint32_t i = 0; i < count; i++) {
		struct wire_header h;
		uint64_t size;
		int rc;

		if (unlikely(!left)) /* more messages than blocks: the ring may end here */
			return -EPROTO;
		h = wire_get_header(msg);
		size = ((uint64_t)h.len + sizeof(h) + WIRE_BLOCK - 1) / WIRE_BLOCK;
		if (unlikely(size > left))
			return -EPROTO;
		if (h.id & WIRE_RESPONSE) {
			rc = take_response(ch, &h, msg + sizeof(h), to);
			if (unlikely(ch->status))
				return (int)i + 1;
		} else {
			rc = take_request(ch, &h, msg + sizeof(h), end - left);
		}
		if (unlikely(rc))
			return rc;
		left -= (uint32_t)size;
		msg += size * WIRE_BLOCK;
	}
	return likely(!left) ? (int)count : -EPROTO;
}

/* Whether n blocks overwrite blocks of requests that are not released. */
static inline bool overwrites(const struct chan *ch, uint32_t n)
{
	return ch->live.next != &ch->live && ch->parsed + n - chan_consumer(ch) > ch->cr.c;
}

/*
 * Handles a batch of n blocks at the position `parsed`. Returns the number of messages, or
 * -EPROTO if it breaks the protocol (messages before the wrong one may have been handled).
 * Ends early if a callback changes ch->status.
 */
static inline int chan_receive(struct chan *ch, uint32_t n, const struct listener *to)
{
	uint32_t off = (uint32_t)ch->parsed & ch->mask, left = n - 1;
	const uint8_t *at = ch->recv_ring + (size_t)off * WIRE_BLOCK;
	struct wire_meta m;

	/* A batch is not empty, and does not cross the ring's end. */
	if (unlikely(left >= ch->cr.c - off || overwrites(ch, n)))
		return -EPROTO;
	m = wire_get_meta(at);
	if (unlikely(take_meta(ch, &m)))
		return -EPROTO;
	ch->parsed += n;
	ch->stats.batches_received++;
	at += WIRE_BLOCK;
	if (likely(m.count == 1))
		return take_messages(ch, at, left, 1, to);
	if (unlikely(m.count == WIRE_WRAP))
		return off + n == ch->cr.c ? 0 : -EPROTO;
	return take_messages(ch, at, left, m.count, to);
}

#endif
