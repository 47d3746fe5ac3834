/* SPDX-License-Identifier: MIT */
/*
 * The parser of batches. Its functions belong to chan.h, but are inlined into the loop over the
 * receive CQ. The peer writes everything in the ring, so all values are checked before use.
 */
#ifndef COPYRPC_RECEIVE_H
#define COPYRPC_RECEIVE_H

#include "grow.h"

/* Converts bytes to blocks. If @bytes is not a multiple of a block, the result is larger than any
 * position or credit, so that the caller's check of the size refuses it. */
static inline uint64_t whole_blocks(uint64_t bytes)
{
	return bytes >> WIRE_BLOCK_SHIFT | bytes << (64 - WIRE_BLOCK_SHIFT);
}

/*
 * Accepts the flow control data: the position, then the credit. A READ may have returned a later
 * position, so a position that is not greater than the known one is ignored. A position below the
 * one that the peer's last batch contained is an error. Returns 0 or -EPROTO.
 */
static inline int take_meta(struct chan *ch, const struct wire_meta *m)
{
	uint64_t consumer = whole_blocks(m->consumer);

	if (likely(consumer > ch->cr.rc)) {
		if (unlikely(consumer > ch->sent))
			return -EPROTO;
		ch->cr.rc = consumer;
		ch->stalled = false;
	} else if (unlikely(consumer < ch->told)) {
		return -EPROTO;
	}
	ch->told = consumer;
	return likely(credit_granted(&ch->cr, whole_blocks(m->credit))) ? 0 : -EPROTO;
}

/*
 * Adds a request: to the queue of copyrpc_recv(), or, if @large is true, to the large requests
 * (serve.c). @left: the number of blocks from its header to live.pos.
 */
ALWAYS_INLINE int add_request(struct chan *ch, struct wire_header h, const void *payload,
	uint32_t left, bool large)
{
	uint32_t allowance = credit_allowance(wire_blocks(h.limit));
	struct copyrpc_req *req;

	/*
	 * `unasked` is the credit that is left, and each request takes at least two blocks of it.
	 * So this also limits the number of requests.
	 */
	if (unlikely(allowance > ch->unasked))
		return -EPROTO;
	forget_loads();
	req = ch->req_free;
	ch->req_free = req->queued;
	ch->unasked -= allowance;
	req->data = payload;
	req->len = h.len;
	req->id = h.id;
	req->resp_max = h.limit;
	req->allowance = allowance;
	req->live.pos = ch->live.pos - left;
	req->live.next = &ch->live;
	req->live.prev = ch->live.prev;
	req->live.prev->next = &req->live;
	ch->live.prev = &req->live;
	ch->stats.requests++;
	if (large)
		return ch->queue->large(req);
	chan_queue(ch, req);
	return 0;
}

/* Returned for a large request. It is not counted here, but by the poll that gives it to the
 * program. */
#define TAKE_LARGE 2

/* The fields of the header are separate arguments, so that callers need not keep it in memory. */
static COLD int take_large(struct chan *ch, uint32_t id, uint32_t limit, const void *payload,
	uint32_t len, uint32_t left)
{
	const struct wire_header h = {id, limit & ~WIRE_LARGE, len};

	if (!(limit & WIRE_LARGE) || !ch->queue->large)
		return -EPROTO;
	if (h.len > ch->payload_max || h.limit > ch->payload_max)
		return -EPROTO;
	return add_request(ch, h, payload, left, true) ? -EPROTO : TAKE_LARGE;
}

/* Returned if the general path has to handle the message from its beginning. */
#define TAKE_ODD 1

/* @usual is a constant, as in take_response(). If it is true, this function returns TAKE_ODD for a
 * large request. */
ALWAYS_INLINE int take_request(struct chan *ch, struct wire_header h, const void *payload,
	uint32_t left, bool usual)
{
	if (unlikely(h.len > ch->payload_max || h.limit > ch->payload_max))
		return usual ? TAKE_ODD : take_large(ch, h.id, h.limit, payload, h.len, left);
	return add_request(ch, h, payload, left, false);
}

/*
 * Handles a response. The callback comes last, so that few values must be kept across it. @usual is
 * a constant. It is true in chan_handle_one(), for a batch of one message: then this function
 * counts the message before the callback and sets `handling`, and returns TAKE_ODD for the response
 * of a call that has a CALL_ bit in resp_max (chan.h). If @usual is false, the caller counts and
 * sets `handling`.
 */
ALWAYS_INLINE int take_response(struct chan *ch, struct wire_header h, const void *payload,
	struct listener *to, bool usual)
{
	uint32_t id = h.id & ~WIRE_RESPONSE;
	struct call *call;
	uint64_t token;

	if (unlikely(id >= ch->max_calls))
		return -EPROTO;
	call = &ch->calls[id];
	if (unlikely(h.len > h.limit))
		return -EPROTO;
	/*
	 * A call that is not pending has the resp_max CALL_FREE, which no limit equals, so its
	 * response is an odd one, too.
	 */
	if (unlikely(h.limit != call->resp_max)) {
		int odd = usual ? TAKE_ODD : chan_odd_response(ch, id, h.limit, payload, h.len, to);

		if (usual || odd)
			return usual || odd < 0 ? odd : 0;
	}
	token = call->token;
	chan_put_call(ch, call, id);
	ch->stats.responses++;
	if (usual) {
		to->handled++;
		ch->handling = true;
	}
	to->fn(to->arg, ch->ep, token, 0, payload, h.len);
	if (usual)
		ch->handling = false;
	return 0;
}

/* A batch: metadata, and `left` contiguous blocks of messages. The parser reads nothing after
 * these. */
struct incoming {
	const uint8_t *batch;
	uint32_t left;
	uint32_t count; /* number of messages as the peer states it */
};

/* Does the same as chan_handle() for a batch of one message for which chan_expects() is true.
 * Returns TAKE_ODD if nothing was done and chan_handle() must be called. */
static inline int chan_handle_one(struct chan *ch, struct incoming in, struct listener *to)
{
	const uint8_t *msg = in.batch + WIRE_BLOCK;
	struct wire_header h = wire_get_header(msg);
	int rc;

	if (unlikely(wire_blocks64(h.len) != in.left))
		return -EPROTO;
	msg += sizeof(h);
	if (h.id & WIRE_RESPONSE)
		return take_response(ch, h, msg, to, true);
	rc = take_request(ch, h, msg, in.left, true);
	if (unlikely(rc))
		return rc;
	to->handled++;
	return 0;
}

static inline int take_messages(struct chan *ch, struct incoming in, struct listener *to)
{
	const uint8_t *msg = in.batch + WIRE_BLOCK;
	uint32_t large = 0;

	for (uint32_t i = 0; i < in.count; i++) {
		struct wire_header h;
		uint64_t size;

		if (unlikely(!in.left)) /* more messages than blocks: the ring may end here */
			return -EPROTO;
		h = wire_get_header(msg);
		size = wire_blocks64(h.len);
		if (unlikely(size > in.left))
			return -EPROTO;
		if (h.id & WIRE_RESPONSE) {
			if (unlikely(take_response(ch, h, msg + sizeof(h), to, false)))
				return -EPROTO;
			if (unlikely(ch->status)) {
				to->handled += (int)(i + 1 - large);
				return 0;
			}
		} else {
			int rc = take_request(ch, h, msg + sizeof(h), in.left, false);

			if (unlikely(rc < 0))
				return -EPROTO;
			large += rc == TAKE_LARGE;
		}
		in.left -= (uint32_t)size;
		msg += size * WIRE_BLOCK;
	}
	if (unlikely(in.left))
		return -EPROTO;
	to->handled += (int)(in.count - large);
	return 0;
}

/* Finds the last position that the next batch may occupy: before the ring's end, and before blocks
 * of requests that are not released. */
static inline void chan_look_ahead(struct chan *ch)
{
	uint64_t lap = ch->live.pos | ch->recv_mask, held = chan_consumer(ch) + ch->recv_mask;

	ch->recv_last = lap < held ? lap : held;
}

/*
 * Returns true if @n is at least 2 and the @n blocks from live.pos on are known to be free. Returns
 * false while the status is not 0, because recv_last is before live.pos then.
 */
static inline bool chan_expects(const struct chan *ch, uint32_t n)
{
	return (int64_t)(uint32_t)(n - 2) < (int64_t)(ch->recv_last - ch->live.pos);
}

/* Accepts the metadata of a batch whose position and length have been checked. Does not handle the
 * messages. Returns 0 or -EPROTO. */
static inline int chan_accept(struct chan *ch, uint32_t n, struct incoming *in_p)
{
	uint32_t off = (uint32_t)ch->live.pos & ch->recv_mask;
	const uint8_t *at = ch->recv_ring + (size_t)off * WIRE_BLOCK;
	struct wire_meta m = wire_get_meta(at);

	if (unlikely(take_meta(ch, &m)))
		return -EPROTO;
	forget_loads();
	ch->live.pos += n;
	ch->stats.batches_received++;
	*in_p = (struct incoming){at, n - 1, m.count};
	return 0;
}

/* Accepts a batch for which chan_expects() is false even after chan_look_ahead(): either the batch
 * has one block, or it breaks the protocol. Returns 0 or -EPROTO. */
static inline int chan_accept_block(struct chan *ch, uint32_t n, struct incoming *in_p)
{
	if (n != 1 || (int64_t)(ch->recv_last - ch->live.pos) < 0)
		return -EPROTO;
	return chan_accept(ch, n, in_p);
}

/*
 * Handles the messages of an accepted batch, and adds their number, without large requests, to
 * to->handled. Returns 0, or -EPROTO if a message breaks the protocol (messages before the wrong
 * one may have been handled). Returns early if a callback changes ch->status.
 */
static inline int chan_handle(struct chan *ch, struct incoming in, struct listener *to)
{
	if (unlikely(in.count == WIRE_WRAP))
		return ch->live.pos & ch->recv_mask ? -EPROTO : 0;
	if (unlikely(in.count & WIRE_FLAGS)) {
		if (chan_take_growth(ch, in.batch, in.count))
			return -EPROTO;
		in.count &= ~WIRE_FLAGS;
	}
	return take_messages(ch, in, to);
}

#endif
