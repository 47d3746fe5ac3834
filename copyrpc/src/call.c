/* SPDX-License-Identifier: MIT */
/* Calls, requests and replies, and the counters. */
#include "base/sized.h"
#include "internal.h"
#include "serve.h"

int copyrpc_call(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token)
{
	/* The next flush must visit the endpoint even if chan_call() refuses the call: it may have
	 * to READ the peer's position, or ask for a larger ring. */
	ep_dirty(ep);
	return chan_call(&ep->ch, data, len, resp_max, token, false);
}

int copyrpc_call_nested(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token)
{
	if (!ep->ch.reserve)
		return -EOPNOTSUPP;
	ep_dirty(ep);
	return chan_call(&ep->ch, data, len, resp_max, token, true);
}

int copyrpc_call_timed(struct copyrpc_ep *ep, const void *data, uint32_t len, uint32_t resp_max,
	uint64_t token, uint32_t timeout_ms)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	uint64_t deadline = ctx->clock() + timeout_ms * NSEC_PER_MSEC;
	int rc;

	if (!timeout_ms)
		return copyrpc_call(ep, data, len, resp_max, token);
	ep_dirty(ep);
	rc = chan_call_timed(&ep->ch, data, len, resp_max, token, deadline);
	if (!rc && deadline < ctx->deadline)
		ctx->deadline = deadline;
	return rc;
}

int copyrpc_cancel(struct copyrpc_ep *ep, uint64_t token)
{
	int rc = chan_cancel(&ep->ch, token);

	if (!rc)
		ep_end(ep);
	return rc;
}

int copyrpc_recv(struct copyrpc_ctx *ctx, struct copyrpc_req **req_p)
{
	struct copyrpc_req *req = ctx->queue.head;

	if (!req)
		return 0;
	QUEUE_SHIFT(&ctx->queue, queued);
	*req_p = req;
	return 1;
}

const void *copyrpc_req_data(const struct copyrpc_req *req)
{
	return req->data;
}

uint32_t copyrpc_req_len(const struct copyrpc_req *req)
{
	return req->len;
}

uint32_t copyrpc_req_allowance(const struct copyrpc_req *req)
{
	return req->resp_max;
}

struct copyrpc_ep *copyrpc_req_ep(const struct copyrpc_req *req)
{
	return ep_of(req->ch);
}

/* Handles the unusual cases of a reply. If the endpoint is destroyed and this is its last held
 * request, ep_end() lets a poll free the endpoint. */
static NOINLINE int reply_odd(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct copyrpc_ep *ep = ep_of(req->ch);

	if (ep->qp)
		ep_dirty(ep);
	else
		ep_end(ep);
	return req->served ? serve_reply(req, data, len) : chan_reply_odd(req, data, len);
}

static inline void make_dirty(struct chan *ch)
{
	ep_dirty(ep_of(ch));
}

int copyrpc_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	return chan_reply(req, data, len, make_dirty, reply_odd);
}

int copyrpc_req_detach(struct copyrpc_req *req)
{
	int rc = chan_detach(req);

	if (!rc)
		ep_dirty(ep_of(req->ch));
	return rc;
}

void copyrpc_ep_get_load(const struct copyrpc_ep *ep, struct copyrpc_ep_load *load_p, size_t size)
{
	const struct chan *ch = &ep->ch;
	uint32_t calls, messages = chan_unsent(ch, &calls);
	struct copyrpc_ep_load load;

	load = (struct copyrpc_ep_load){
		.open_calls = calls,
		.open_replies = messages - calls,
		.pending = ch->ncalls - ch->late,
		.credit = credit_left(&ch->cr) * WIRE_BLOCK,
		.posted = ch->sent * WIRE_BLOCK,
		.consumed = ch->cr.rc * WIRE_BLOCK,
	};
	sized_out(load_p, size, &load, sizeof(load));
}

void copyrpc_ep_get_stats(const struct copyrpc_ep *ep, struct copyrpc_stats *stats_p, size_t size)
{
	struct copyrpc_stats stats = ep_stats(ep);

	sized_out(stats_p, size, &stats, sizeof(stats));
}

void copyrpc_ctx_get_stats(const struct copyrpc_ctx *ctx, struct copyrpc_stats *stats_p,
	size_t size)
{
	struct copyrpc_stats sum = ctx->gone;

	for (const struct copyrpc_ep *ep = ctx->eps; ep; ep = ep->next)
		add_ep_stats(&sum, ep);
	sum.refills = ctx->refills;
	sum.port_downs = ctx->port_downs;
	sized_out(stats_p, size, &sum, sizeof(sum));
}
