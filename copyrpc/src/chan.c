/* SPDX-License-Identifier: MIT */
#include "chan.h"

#include <stdlib.h>

int chan_init(struct chan *ch, void *send_ring, const void *recv_ring, uint32_t blocks,
	uint32_t max_calls, struct req_queue *queue, uint64_t at)
{
	/* A request, and a call, costs two blocks of the credit at least. */
	uint32_t most = credit_rmax(blocks) / 2;

	*ch = (struct chan){
		.status = -ENOTCONN,
		.send_ring = send_ring,
		.recv_ring = recv_ring,
		.payload_max = wire_payload(credit_message_max(blocks)),
		.mask = blocks - 1,
		.sent = at,
		.parsed = at,
		.told = at,
		.queue = queue,
	};
	ch->live.next = ch->live.prev = &ch->live;
	credit_init(&ch->cr, blocks, at);
	if (!max_calls || max_calls > most)
		max_calls = most;
	ch->reqs = calloc(most, sizeof(*ch->reqs));
	ch->calls = calloc(max_calls, sizeof(*ch->calls));
	if (!ch->reqs || !ch->calls || slab_init(&ch->req_ids, most) ||
		slab_init(&ch->call_ids, max_calls)) {
		chan_fini(ch);
		return -ENOMEM;
	}
	return 0;
}

void chan_fini(struct chan *ch)
{
	for (uint32_t id = 0; ch->req_ids.next && id < ch->req_ids.capacity; id++)
		if (slab_in_use(&ch->req_ids, id) && ch->reqs[id].detached)
			chan_free_detached(&ch->reqs[id]);
	slab_fini(&ch->call_ids);
	slab_fini(&ch->req_ids);
	free(ch->calls);
	free(ch->reqs);
	ch->calls = NULL;
	ch->reqs = NULL;
}

/* ------------------------------------------------------------------- sending */

static void close_batch(struct chan *ch, struct batch b)
{
	assert(ch->nclosed < ARRAY_SIZE(ch->closed));
	ch->closed[ch->nclosed++] = b;
}

void chan_new_batch(struct chan *ch, uint32_t wrap)
{
	uint64_t p = ch->cr.p;

	if (ch->cr.open)
		close_batch(ch, ch->open);
	if (wrap)
		close_batch(ch, (struct batch){p, p + wrap, WIRE_WRAP, 0});
	ch->open = (struct batch){.start = p + wrap};
}

uint32_t chan_seal(struct chan *ch, uint64_t *pos_p, uint32_t *len_p)
{
	struct batch b = *chan_front(ch);
	uint32_t blocks = (uint32_t)(b.end - b.start);

	if (ch->nclosed) {
		ch->nclosed--;
		ch->closed[0] = ch->closed[1];
	} else {
		ch->cr.open = false;
	}
	wire_put_meta(chan_at(ch->send_ring, ch, b.start), chan_consumer(ch) * WIRE_BLOCK,
		(uint64_t)credit_grant(&ch->cr) * WIRE_BLOCK, b.count);
	ch->sent = b.end;
	if (b.count == WIRE_WRAP)
		ch->stats.wraps++;
	else if (b.count == 0)
		ch->stats.credit_only++;
	else
		ch->stats.batches++;
	*pos_p = b.start;
	*len_p = b.count == WIRE_WRAP ? WIRE_BLOCK : blocks * WIRE_BLOCK;
	ch->stats.bytes += *len_p;
	return blocks;
}

/* ----------------------------------------------------------------- receiving */

/* What flow control says: the position, then the credit. */
static int take_meta(struct chan *ch, const struct wire_meta *m)
{
	uint64_t consumer = m->consumer / WIRE_BLOCK;
	uint64_t rc = ch->cr.rc;

	if (m->consumer % WIRE_BLOCK || m->credit % WIRE_BLOCK)
		return -EPROTO;
	if (consumer < ch->told || !credit_consumed(&ch->cr, consumer, ch->sent))
		return -EPROTO;
	if (!credit_granted(&ch->cr, m->credit / WIRE_BLOCK))
		return -EPROTO;
	ch->told = consumer;
	if (ch->cr.rc != rc)
		ch->stalled = false;
	return 0;
}

int chan_read_done(struct chan *ch, uint64_t consumer)
{
	uint64_t rc = ch->cr.rc;

	if (consumer % WIRE_BLOCK || !credit_consumed(&ch->cr, consumer / WIRE_BLOCK, ch->sent))
		return -EPROTO;
	if (ch->cr.rc != rc)
		ch->stalled = false;
	return 0;
}

static int take_request(
	struct chan *ch, const struct wire_header *h, const void *payload, uint64_t pos)
{
	struct copyrpc_req *req;
	uint32_t id;

	/* As every request costs two blocks or more of R, there are enough of reqs. */
	if (h->allowance < 2 || h->allowance > credit_allowance_max(ch->cr.c) ||
		h->allowance > ch->cr.r - ch->held)
		return -EPROTO;
	id = slab_get(&ch->req_ids);
	assert(id != SLAB_NONE);
	ch->held += h->allowance;
	req = &ch->reqs[id];
	req->ch = ch;
	req->data = payload;
	req->pos = pos;
	req->len = h->len;
	req->id = h->id;
	req->allowance = h->allowance;
	req->detached = false;
	req->next = &ch->live;
	req->prev = ch->live.prev;
	req->prev->next = req;
	ch->live.prev = req;
	req->queued = NULL;
	*ch->queue->tail_p = req;
	ch->queue->tail_p = &req->queued;
	ch->stats.requests++;
	return 0;
}

static int take_response(struct chan *ch, const struct wire_header *h, const void *payload,
	copyrpc_response_fn *fn, void *arg)
{
	uint32_t id = h->id & ~WIRE_RESPONSE;
	const struct call *call;

	if (!slab_in_use(&ch->call_ids, id))
		return -EPROTO;
	call = &ch->calls[id];
	if (h->len > call->resp_max || h->allowance != call->allowance)
		return -EPROTO;
	slab_put(&ch->call_ids, id);
	ch->stats.responses++;
	fn(arg, ch->ep, call->token, 0, payload, h->len);
	return 0;
}

static int take_messages(struct chan *ch, uint64_t at, uint64_t end, uint32_t count,
	copyrpc_response_fn *fn, void *arg)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *msg = ch->recv_ring + (size_t)(at & ch->mask) * WIRE_BLOCK;
		struct wire_header h;
		uint32_t size;
		int rc;

		if (at == end)
			return -EPROTO;
		h = wire_get_header(msg);
		msg += sizeof(h);
		if (h.len > ch->payload_max)
			return -EPROTO;
		size = wire_blocks(h.len);
		if (size > end - at)
			return -EPROTO;
		if (h.id & WIRE_RESPONSE)
			rc = take_response(ch, &h, msg, fn, arg);
		else
			rc = take_request(ch, &h, msg, at);
		if (unlikely(rc))
			return rc;
		if (unlikely(ch->status))
			return (int)i + 1;
		at += size;
	}
	return at == end ? (int)count : -EPROTO;
}

int chan_receive(struct chan *ch, uint32_t n, copyrpc_response_fn *fn, void *arg)
{
	uint64_t start = ch->parsed;
	uint32_t off = (uint32_t)start & ch->mask;
	struct wire_meta m;
	int rc;

	/* It neither crosses the ring's end nor covers what we have not given back. */
	if (!n || n > ch->cr.c - off || start + n - chan_consumer(ch) > ch->cr.c)
		return -EPROTO;
	m = wire_get_meta(ch->recv_ring + (size_t)off * WIRE_BLOCK);
	rc = take_meta(ch, &m);
	if (unlikely(rc))
		return rc;
	ch->parsed = start + n;
	ch->stats.batches_received++;
	if (m.count == WIRE_WRAP)
		return off + n == ch->cr.c ? 0 : -EPROTO;
	return take_messages(ch, start + 1, start + n, m.count, fn, arg);
}

/* -------------------------------------------------------------------- ending */

int chan_end_calls(struct chan *ch, copyrpc_response_fn *fn, void *arg)
{
	int ended = 0;

	for (uint32_t id = 0; ch->call_ids.used && id < ch->call_ids.capacity; id++) {
		if (!slab_in_use(&ch->call_ids, id))
			continue;
		slab_put(&ch->call_ids, id);
		ch->stats.failed_calls++;
		ended++;
		fn(arg, ch->ep, ch->calls[id].token, ch->status, NULL, 0);
	}
	return ended;
}

void chan_drop_queued(struct chan *ch)
{
	struct copyrpc_req **at = &ch->queue->head;

	while (*at) {
		struct copyrpc_req *req = *at;

		if (req->ch == ch) {
			*at = req->queued;
			chan_put_req(req);
		} else {
			at = &req->queued;
		}
	}
	ch->queue->tail_p = at;
}

int chan_detach(struct copyrpc_req *req)
{
	void *copy;

	if (req->detached)
		return 0;
	copy = malloc(req->len ? req->len : 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, req->data, req->len);
	chan_release(req);
	req->data = copy;
	req->detached = true;
	return 0;
}

void chan_free_detached(struct copyrpc_req *req)
{
	free((void *)(uintptr_t)req->data);
}
