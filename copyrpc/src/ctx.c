/* SPDX-License-Identifier: MIT */
/* Contexts. */
#include <stdlib.h>

#include "base/sized.h"
#include "bulk.h"
#include "internal.h"
#include "pool.h"
#include "serve.h"

/* Name of the file of the device's counter of messages for which no receive was posted. */
#define NO_RECEIVE "out_of_buffer"

/* Smallest and largest default depth of the receive queue; devices allow 32,767 receives. */
#define SRQ_LEAST 1024
#define SRQ_MOST 32767

/* Default depth of the send queues in blocks: SQ_ALL for all together; SQ_MOST and SQ_LEAST are the
 * limits for one. */
#define SQ_ALL (1u << 17)
#define SQ_MOST 256
#define SQ_LEAST 64

static const struct live_type live_ctx = {LIVE_MAGIC, "copyrpc", "context", "no yes",
	.field = {
		{"endpoints", LIVE_AT(struct copyrpc_ctx, n_eps)},
		{"most", LIVE_AT(struct copyrpc_ctx, attr.max_endpoints)},
		{"armed", LIVE_AT(struct copyrpc_ctx, armed), .form = LIVE_HEX},
		{"broken", LIVE_AT(struct copyrpc_ctx, broken), .form = LIVE_WORD},
		{"refills", LIVE_AT(struct copyrpc_ctx, refills)},
		{"port-downs", LIVE_AT(struct copyrpc_ctx, port_downs)},
	}};

/* The status of an endpoint after an error, as copyrpc_ep_status() returns it. Receives have no
 * buffers, because messages arrive as WRITE with immediate. So a receive fails only if the peer has
 * broken the protocol by a SEND with data. */
static int status_of(const struct mlx5dvl_error *error)
{
	if (error->is_recv && error->err != -ECANCELED)
		return -EPROTO;
	switch (error->err) {
	case -EACCES:
		return -EACCES;
	case -ETIMEDOUT: /* retries used up: no answer, */
	case -ENOBUFS: /* or no receive at the peer */
	case -EREMOTEIO:
	case -ECANCELED: /* flushed */
		return -ECONNRESET;
	default:
		return -EIO;
	}
}

static void on_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct copyrpc_ep *ep = mlx5dvl_qp_user(qp);
	bool raw = error->opcode == MLX5DVL_WRITE || error->opcode == MLX5DVL_READ;

	if (!ep->ch.status && !ep->ch.away)
		ep->error = *error;
	ep_fail(ep, status_of(error));
	if (!error->is_recv && raw && error->token != TOKEN_WORD)
		raw_done(ep, error->token, ep->ch.status ? ep->ch.status : ep->away_why);
}

/* The default depth of a send queue. Many idle endpoints must not use much memory: a block of a
 * send queue and its entry of the send CQ take 128 bytes. */
static uint32_t default_sq(const struct copyrpc_ctx_attr *a)
{
	uint64_t each = SQ_ALL / pow2_ceil(a->max_endpoints);

	if (each > SQ_MOST)
		return SQ_MOST;
	return each > SQ_LEAST ? (uint32_t)each : SQ_LEAST;
}

/*
 * The default depth of the receive queue: enough receives for all batches that the peers can have
 * in flight, if their send queues are as deep as this side's and a batch takes two blocks. A batch
 * that finds no receive is repeated after a time-out.
 */
static uint32_t default_srq(const struct copyrpc_ctx_attr *a)
{
	uint64_t batches = (uint64_t)a->max_endpoints * a->sq_depth / 2;

	if (batches > SRQ_MOST)
		return SRQ_MOST;
	return batches > SRQ_LEAST ? (uint32_t)batches : SRQ_LEAST;
}

/* The bits of the attribute `set`. */
#define CTX_SETS (unsigned)(COPYRPC_SET_GID_INDEX | COPYRPC_SET_PKEY_INDEX | COPYRPC_SET_VECTOR)

static int fill_attr(struct copyrpc_ctx_attr *a)
{
	if (a->set & ~CTX_SETS)
		return -E2BIG;
	if (!a->max_endpoints)
		a->max_endpoints = 64;
	if (!a->sq_depth)
		a->sq_depth = default_sq(a);
	if (!a->srq_depth)
		a->srq_depth = default_srq(a);
	if (!a->cq_depth)
		a->cq_depth = a->srq_depth > 4096 ? a->srq_depth : 4096;
	if (!a->ring_size)
		a->ring_size = 1 << 20;
	if (!a->probe_ms)
		a->probe_ms = 5000;
	if (a->cq_depth < a->srq_depth || a->sq_depth < 16 || a->sq_depth > 32768 ||
		!ring_size_ok(a->ring_size))
		return -EINVAL;
	/* mlx5dvl_qp_create() rounds the depth up in the same way. */
	a->sq_depth = (uint32_t)pow2_ceil(a->sq_depth);
	if ((uint64_t)a->sq_depth * a->max_endpoints > 1u << 22)
		return -EINVAL;
	return 0;
}

/* Creates one receive CQ for all endpoints. The send CQ has room for all requests of all endpoints,
 * because all may fail at the same time. */
static int create_queues(struct copyrpc_ctx *ctx)
{
	const struct copyrpc_ctx_attr *a = &ctx->attr;
	struct mlx5dvl_srq_attr srq = {.depth = a->srq_depth};
	struct mlx5dvl_cq_attr cq = {
		.size = sizeof(cq),
		.events = true,
		.set = a->set & COPYRPC_SET_VECTOR ? MLX5DVL_SET_VECTOR : 0,
		.vector = a->vector,
		.event_count = a->event_count,
		.event_period_us = a->event_period_us,
	};
	/* While an endpoint is connected again, it has two queue pairs for a moment; renew.c does
	 * this with one endpoint after another. */
	uint32_t qps = a->max_endpoints + (a->reconnect_ms ? 1 : 0);
	int rc;

	rc = mlx5dvl_srq_create(ctx->dev, &srq, &ctx->srq);
	if (rc)
		return rc;
	cq.depth = a->sq_depth * qps;
	rc = mlx5dvl_cq_create(ctx->dev, &cq, &ctx->send_cq);
	if (rc)
		return rc;
	cq.depth = a->cq_depth;
	cq.srq = ctx->srq;
	rc = mlx5dvl_cq_create(ctx->dev, &cq, &ctx->recv_cq);
	return rc ? rc : ctx_open_events(ctx);
}

int copyrpc_ctx_create(const struct copyrpc_ctx_attr *attr, struct copyrpc_ctx **ctx_p)
{
	struct copyrpc_ctx *ctx = calloc(1, sizeof(*ctx));
	struct mlx5dvl_ctx_attr dev = {.on_error = on_error};
	int rc;

	if (!ctx)
		return -ENOMEM;
	ctx->queue = (struct req_queue){NULL, &ctx->queue.head, serve_large, serve_release};
	QUEUE_CLEAR(&ctx->waiting);
	QUEUE_CLEAR(&ctx->ended);
	QUEUE_CLEAR(&ctx->watched);
	QUEUE_CLEAR(&ctx->raw);
	QUEUE_CLEAR(&ctx->work);
	QUEUE_CLEAR(&ctx->news);
	ctx->clock = clock_ns;
	ctx->fd = -1;
	ctx->deadline = NEVER;
	ctx->probed = ctx->clock();
	rc = SIZED_ATTR(&ctx->attr, attr, probe_ms);
	if (!rc)
		rc = path_read(&ctx->path, ctx->attr.path);
	if (!rc)
		rc = fill_attr(&ctx->attr);
	if (rc)
		goto fail;
	dev.device = ctx->attr.device;
	dev.port = ctx->attr.port;
	dev.set = ctx->attr.set;
	dev.gid_index = ctx->attr.gid_index;
	dev.pkey_index = ctx->attr.pkey_index;
	rc = mlx5dvl_ctx_open(&dev, &ctx->dev);
	if (rc)
		goto fail;
	ctx->attr.device = NULL; /* the caller may free the string and the path */
	ctx->attr.path = NULL;
	if (mlx5dvl_ctx_counter(ctx->dev, NO_RECEIVE, &ctx->no_receive))
		ctx->no_receive = 0;
	rc = create_queues(ctx);
	if (rc)
		goto fail;
	ctx->live = live_add(&live_ctx, ctx, mlx5dvl_ctx_device(ctx->dev));
	*ctx_p = ctx;
	return 0;
fail:
	copyrpc_ctx_destroy(ctx);
	return rc;
}

void copyrpc_ctx_destroy(struct copyrpc_ctx *ctx)
{
	if (!ctx)
		return;
	ctx->closing = true;
	live_remove(ctx->live);
	if (ctx->side)
		ctx->side->close(ctx);
	while (ctx->eps) {
		copyrpc_ep_destroy(ctx->eps);
		ep_end_transfers(ctx->eps);
		chan_drop_calls(&ctx->eps->ch);
		ep_free(ctx->eps);
	}
	ctx_free_bulks(ctx);
	pool_limit(ctx, 0);
	ctx_close_events(ctx);
	mlx5dvl_cq_destroy(ctx->send_cq);
	mlx5dvl_cq_destroy(ctx->recv_cq);
	mlx5dvl_srq_destroy(ctx->srq);
	mlx5dvl_ctx_close(ctx->dev);
	free(ctx);
}

int copyrpc_ctx_no_receive(const struct copyrpc_ctx *ctx, uint64_t *n_p)
{
	uint64_t now;
	int rc = mlx5dvl_ctx_counter(ctx->dev, NO_RECEIVE, &now);

	if (!rc)
		*n_p = now - ctx->no_receive;
	return rc;
}

/* Callbacks may add endpoints to ctx->ended again, including the current one. */
void ctx_end_endpoints(struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep;

	while ((ep = ctx->ended.head)) {
		QUEUE_SHIFT(&ctx->ended, ended_next);
		ep->ended = false;
		if (!ep->qp)
			ep_uncount(ep);
		if (ep->ch.status) {
			ep_end_transfers(ep);
			ep_end_served(ep);
		}
		ctx->to.handled += chan_end_calls(&ep->ch, &ctx->to);
		/* The endpoint is destroyed and none of its requests is held: there is no reference
		 * left. */
		if (!ep->qp && !chan_requests(&ep->ch) && !ep->ended)
			ep_free(ep);
	}
}
