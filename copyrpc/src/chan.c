/* SPDX-License-Identifier: MIT */
#include "grow.h"

#include <stdlib.h>

int chan_init(struct chan *ch, void *send_ring, const void *recv_ring, uint32_t blocks,
	uint32_t most, uint32_t max_pending, bool nested, struct req_queue *queue, uint64_t at)
{
	*ch = (struct chan){
		.status = -ENOTCONN,
		.send_ring = send_ring,
		.recv_ring = recv_ring,
		.unasked = credit_rmax(blocks),
		.mask = blocks - 1,
		.recv_mask = blocks - 1,
		.most = most,
		.nested = nested,
		.call_free = CALL_NONE,
		.max_pending = max_pending ? max_pending : UINT32_MAX,
		.sent = at,
		.live.pos = at,
		.recv_last = at - 1,
		.told = at,
		.queue = queue,
	};
	ch->live.next = ch->live.prev = &ch->live;
	credit_init(&ch->cr, blocks, at);
	chan_set_limits(ch);
	if (chan_add_reqs(ch, blocks) || chan_add_calls(ch, blocks)) {
		chan_fini(ch);
		return -ENOMEM;
	}
	return 0;
}

/* Frees the memory of a detached request. */
static void free_copy(struct copyrpc_req *req)
{
	if (req->served)
		req->ch->queue->release(req);
	else
		free((void *)(uintptr_t)req->data);
	req->detached = false;
}

void chan_fini(struct chan *ch)
{
	struct req_block *b;

	while ((b = ch->reqs)) {
		for (uint32_t i = 0; i < b->n; i++)
			if (b->reqs[i].detached)
				free_copy(&b->reqs[i]);
		ch->reqs = b->next;
		free(b);
	}
	free(ch->calls);
	free(ch->deadlines);
	ch->calls = NULL;
}

/* ------------------------------------------------------------------- sending */

/* If this function returns an error, it has placed no message, but it may have requested a larger
 * ring. */
COLD int chan_call_odd(struct chan *ch, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, bool nested)
{
	struct placement to;

	if (ch->status)
		return ch->status;
	if (len > ch->payload_max || resp_max > ch->payload_max)
		return -EMSGSIZE;
	if (chan_outgrows(ch, len, resp_max))
		return -EAGAIN;
	if (ch->cr.spent + credit_allowance(wire_blocks(resp_max)) > chan_spendable(ch, nested)) {
		ch->stats.credit_stalls++;
		chan_want(ch, 0, chan_larger(ch->recv_mask + 1));
		return -ENOBUFS;
	}
	if (ch->call_free == CALL_NONE)
		return -EAGAIN;
	to = credit_plan(&ch->cr, wire_blocks(len));
	if (!credit_call_fits(&ch->cr, to.end)) {
		ch->stats.ring_stalls++;
		ch->stalled = true;
		chan_want(ch, chan_larger(ch->cr.c), 0);
		return -EAGAIN;
	}
	if (to.joins)
		chan_advance(ch);
	else
		chan_new_batch(ch, to.wrap);
	return chan_add_call(ch, data, len, resp_max, token);
}

COLD int chan_reply_odd(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct chan *ch = req->ch;
	struct placement to;

	if (ch->status) {
		chan_drop_req(req);
		return ch->status;
	}
	if (len > req->resp_max)
		return -EMSGSIZE;
	to = credit_plan(&ch->cr, wire_blocks(len));
	if (!to.joins)
		chan_new_batch(ch, to.wrap);
	chan_append(ch, 0, req->id | WIRE_RESPONSE, req->resp_max, data, len);
	ch->stats.replies++;
	credit_replied(&ch->cr, req->allowance);
	chan_drop_req(req);
	return 0;
}

static struct batch take_front(struct chan *ch)
{
	struct batch b = ch->open;

	if (ch->nclosed) {
		b = ch->closed[0];
		ch->nclosed--;
		ch->closed[0] = ch->closed[1];
	} else {
		b.end = ch->cr.p;
		ch->cr.edge = 0;
		ch->bare = false;
	}
	return b;
}

uint32_t chan_seal(struct chan *ch, uint64_t consumer, uint64_t *pos_p, uint32_t *len_p)
{
	struct batch b = take_front(ch);
	uint32_t credit = credit_grant(&ch->cr);
	void *at = chan_at(ch->send_ring, ch, b.start);

	ch->unasked += credit;
	ch->sent = b.end;
	wire_put_meta(at, consumer, (uint64_t)credit * WIRE_BLOCK, b.count);
	if (ch->growing && b.count != WIRE_WRAP)
		chan_seal_growth(ch, at, b.count);
	if (b.count == WIRE_WRAP)
		ch->stats.wraps++;
	else if (b.count == 0)
		ch->stats.credit_only++;
	else
		ch->stats.batches++;
	*pos_p = b.start;
	*len_p = (uint32_t)b.bytes;
	ch->stats.bytes += *len_p;
	return (uint32_t)(b.end - b.start);
}

/* ----------------------------------------------------------------- receiving */

int chan_read_done(struct chan *ch, uint64_t consumer)
{
	uint64_t rc = ch->cr.rc;

	if (consumer % WIRE_BLOCK || !credit_consumed(&ch->cr, consumer / WIRE_BLOCK, ch->sent))
		return -EPROTO;
	if (ch->cr.rc != rc)
		ch->stalled = false;
	return 0;
}

/* -------------------------------------------------------------------- ending */

void chan_stop(struct chan *ch, int status)
{
	ch->nclosed = 0;
	ch->bare = false;
	ch->cr.edge = ch->end = ch->call_end = 0;
	ch->recv_last = ch->live.pos - 1;
	ch->away = ch->again = ch->growing = false;
	ch->status = status;
}

void chan_drop_req(struct copyrpc_req *req)
{
	if (req->detached)
		free_copy(req);
	else
		chan_release(req);
	chan_put_req(req->ch, req);
}

uint32_t chan_requests(const struct chan *ch)
{
	uint32_t n = ch->n_reqs;

	for (const struct copyrpc_req *req = ch->req_free; req; req = req->queued)
		n--;
	return n;
}

struct copyrpc_stats chan_stats(const struct chan *ch)
{
	struct copyrpc_stats s = ch->stats;

	s.calls = s.responses + s.failed_calls + ch->ncalls - ch->late;
	s.batches += ch->usual;
	s.doorbells += ch->usual;
	s.wqes += s.batches + s.wraps + s.credit_only + s.reads + s.resent;
	return s;
}

void chan_drop_queued(struct chan *ch)
{
	struct copyrpc_req **at = &ch->queue->head;

	while (*at) {
		struct copyrpc_req *req = *at;

		if (req->ch == ch) {
			*at = req->queued;
			chan_drop_req(req);
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
