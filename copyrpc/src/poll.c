/* SPDX-License-Identifier: MIT */
/* Polling: batches, completions, and the ends of calls. */
#include "base/probe.h"
#include "internal.h"
#include "receive.h"

/* Completions consumed in one round; receives are posted again after each round. */
#define POLL_BATCH 64

ALWAYS_INLINE void note_batch(const struct copyrpc_ep *ep, const struct incoming *in)
{
	PROBE(copyrpc, batch_received, ep->qpn, in->count);
}

static NOINLINE void take_messages_odd(struct copyrpc_ep *ep, struct copyrpc_ctx *ctx,
	struct incoming in)
{
	int rc;

	ep->ch.handling = true;
	rc = chan_handle(&ep->ch, in, &ctx->to);
	ep->ch.handling = false;
	if (unlikely(rc))
		ep_fail(ep, -EPROTO);
}

/* Handles an expected batch. Except for the callback, each call that is not inlined is a tail call,
 * so that few registers are saved. */
static NOINLINE void take_batch(struct copyrpc_ep *ep, struct copyrpc_ctx *ctx, uint32_t blocks)
{
	struct incoming in;
	int rc;

	ep_dirty(ep);
	if (unlikely(chan_accept(&ep->ch, blocks, &in))) {
		ep_fail(ep, -EPROTO);
		return;
	}
	note_batch(ep, &in);
	if (unlikely(in.count != 1)) {
		take_messages_odd(ep, ctx, in);
		return;
	}
	rc = chan_handle_one(&ep->ch, in, &ctx->to);
	if (unlikely(rc == TAKE_ODD))
		take_messages_odd(ep, ctx, in);
	else if (unlikely(rc))
		ep_fail(ep, -EPROTO);
}

/* Handles a batch that is not expected: a goodbye, a batch of one block, one that breaks the
 * protocol, or one beyond the position that chan_look_ahead() has computed. */
static NOINLINE void take_odd(struct copyrpc_ep *ep, struct copyrpc_ctx *ctx, uint32_t blocks)
{
	struct chan *ch = &ep->ch;
	struct incoming in;

	if (ch->status)
		return;
	if (blocks == WIRE_GOODBYE) {
		ep_hear_goodbye(ep);
		return;
	}
	chan_look_ahead(ch);
	if (chan_expects(ch, blocks)) {
		take_batch(ep, ctx, blocks);
		return;
	}
	ep_dirty(ep);
	if (chan_accept_block(ch, blocks, &in)) {
		ep_fail(ep, -EPROTO);
		return;
	}
	note_batch(ep, &in);
	take_messages_odd(ep, ctx, in);
}

/* The loop over the receive CQ inlines this function. */
static inline void on_batch(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct copyrpc_ep *ep = mlx5dvl_qp_user(qp);

	if (unlikely(recv->opcode != MLX5DVL_RECV_WRITE_IMM))
		ep_fail(ep, -EPROTO);
	else if (likely(chan_expects(&ep->ch, recv->imm)))
		take_batch(ep, arg, recv->imm);
	else
		take_odd(ep, arg, recv->imm);
}

static inline void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct copyrpc_ep *ep = mlx5dvl_qp_user(qp);

	if (sent->token == TOKEN_WORD)
		ep_word_read(ep);
	else if (sent->token == TOKEN_MOVE)
		ep->moving = false;
	else
		raw_done(ep, sent->token, 0);
}

/* Handles all batches in the CQ, but at most as many as there are receives, so that a fast peer
 * cannot keep this loop running. */
static NOINLINE void take_batches(struct copyrpc_ctx *ctx)
{
	uint32_t taken = 0;
	int n;

	do {
		n = mlx5dvl_mono_poll(ctx->recv_cq, POLL_BATCH, on_batch, ctx);
		taken += (uint32_t)n;
		if (!n)
			mlx5dvl_cq_release(ctx->recv_cq);
		if (mlx5dvl_srq_refill(ctx->srq))
			ctx->refills++;
	} while (n == POLL_BATCH && taken < ctx->attr.srq_depth);
}

/* In the usual case there is one batch, which is handled without the loop. Its CQE need not be
 * released before receives are posted again: the CQ has a CQE for each receive. */
static inline void take_batch_or_more(struct copyrpc_ctx *ctx)
{
	if (likely(mlx5dvl_mono_take_write(ctx->recv_cq, on_batch, ctx))) {
		if (unlikely(mlx5dvl_srq_due(ctx->srq) || mlx5dvl_cq_ready(ctx->recv_cq)))
			take_batches(ctx);
	} else if (unlikely(mlx5dvl_cq_ready(ctx->recv_cq))) {
		take_batches(ctx);
	}
}

/* Handles send completions. There are few, because few WRITEs are signaled. */
static NOINLINE void take_sent(struct copyrpc_ctx *ctx)
{
	while (mlx5dvl_send_poll(ctx->send_cq, POLL_BATCH, on_sent, ctx) == POLL_BATCH)
		;
}

/* Probes a peer from which no batch has arrived since the last check, at least PROBE_NS ago. */
static void ask(struct copyrpc_ep *ep, uint64_t now)
{
	struct copyrpc_ctx *ctx = ep->ctx;

	/* A READ that is pending for another reason serves as the probe. */
	if (!ep->asked && ep->ch.reading)
		ep->asked = now;
	if (ep->asked && now - ep->asked >= ctx->attr.probe_ms * NSEC_PER_MSEC) {
		ep_fail(ep, -ETIMEDOUT);
		return;
	}
	ep->ch.probe = true;
	ep_dirty(ep);
}

static void look_at(struct copyrpc_ep *ep, uint64_t now)
{
	uint64_t received = ep->ch.stats.batches_received;

	ep->ch.unwatched = true;
	if (!ep_awaits(ep))
		return;
	if (ep->seen == received)
		ask(ep, now);
	else
		ep->asked = 0;
	if (!ep->ch.status && !ep->ch.away)
		ep_watch(ep, received);
}

/* Fails the endpoints that have not returned in time. */
static void give_up(struct copyrpc_ctx *ctx)
{
	uint64_t now = ctx->clock(); /* away_since may be later than the time in ctx_look() */

	for (struct copyrpc_ep *ep = ctx->eps; ep && ctx->n_away; ep = ep->next)
		if (ep->ch.away && now - ep->away_since >= ep->reconnect_ms * NSEC_PER_MSEC)
			ep_break(ep, ep->away_why);
}

/* Ends calls whose time is over, and finds the next deadline. */
static void expire(struct copyrpc_ctx *ctx, uint64_t now)
{
	ctx->deadline = NEVER;
	for (struct copyrpc_ep *ep = ctx->eps; ep; ep = ep->next)
		ctx->to.handled += chan_expire(&ep->ch, now, &ctx->to, &ctx->deadline);
}

COLD void ctx_look(struct copyrpc_ctx *ctx)
{
	uint64_t now = ctx->clock();
	struct copyrpc_ep *ep;

	ctx->looked = ticks_era() - ctx->look_always;
	if (now >= ctx->deadline)
		expire(ctx, now);
	if (ctx->side && now - ctx->side->stepped >= NSEC_PER_MSEC)
		ctx->side->step(ctx);
	if (now - ctx->probed < PROBE_NS)
		return;
	ctx->probed = now;
	ctx_device_events(ctx);
	give_up(ctx);
	now = ctx->clock(); /* a callback may have sent a probe meanwhile */
	ep = ctx->watched.head;
	QUEUE_CLEAR(&ctx->watched);
	while (ep) {
		struct copyrpc_ep *next = ep->watched_next;

		look_at(ep, now);
		ep = next;
	}
}

/* Does the work that is rarely necessary. Returns the same as copyrpc_poll_recv(). */
static COLD int poll_rest(struct copyrpc_ctx *ctx)
{
	uint32_t consumed = ctx_consumed(ctx);

	if (ticks_era() != ctx->looked)
		ctx_look(ctx);
	/* An armed CQ may have an event if completions were consumed since the last look, or if the
	 * context was just armed. */
	if (ctx->armed && (consumed != ctx->consumed || (ctx->armed & ARMED_NOW)))
		ctx_drain(ctx);
	ctx->consumed = consumed;
	if (ctx->serve_again)
		ctx_serve(ctx);
	if (ctx->work.head)
		ctx_transfers(ctx);
	if (ctx->ended.head)
		ctx_end_endpoints(ctx);
	if (!ctx->armed && !ctx->ended.head && !ctx->work.head && !ctx->serve_again)
		ctx->calm = ctx->looked;
	return ctx->to.handled;
}

int copyrpc_poll_recv(struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg)
{
	ctx->to = (struct listener){fn, arg, 0};
	take_batch_or_more(ctx);
	if (unlikely(mlx5dvl_cq_ready(ctx->send_cq)))
		take_sent(ctx);
	/* Every poll reads the era, not only every n-th one: the next poll may be much later. */
	if (unlikely(ticks_era() != ctx->calm))
		return poll_rest(ctx);
	return ctx->to.handled;
}

int copyrpc_poll(struct copyrpc_ctx *ctx, copyrpc_response_fn *fn, void *arg)
{
	int n = copyrpc_poll_recv(ctx, fn, arg);

	if (ctx->dirty)
		copyrpc_flush(ctx);
	return n;
}
