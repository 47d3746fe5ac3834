/* SPDX-License-Identifier: MIT */
/*
 * Creates, stops and replaces the queue pairs of endpoints (docs/reconnect.md). An endpoint that
 * has lost its connection and may return is away: it has not failed, and accepts calls and replies,
 * but sends nothing.
 */
#include "internal.h"

/* The time after which a stopped queue pair counts as drained without a report of the device. */
#define DRAIN_NS NSEC_PER_SEC

static uint8_t or_default(const struct copyrpc_path *path, unsigned bit, uint8_t value,
	uint8_t otherwise)
{
	return value || (path->set & bit) ? value : otherwise;
}

static struct mlx5dvl_qp_attr qp_attr(const struct copyrpc_ctx *ctx,
	const struct copyrpc_path *path)
{
	return (struct mlx5dvl_qp_attr){
		.send_cq = ctx->send_cq,
		.recv_cq = ctx->recv_cq,
		.sq_depth = ctx->attr.sq_depth,
		.set = path->set,
		.mtu = path->mtu,
		.timeout = or_default(path, COPYRPC_SET_TIMEOUT, path->timeout, COPYRPC_TIMEOUT),
		.retry_cnt =
			or_default(path, COPYRPC_SET_RETRY_CNT, path->retry_cnt, COPYRPC_RETRIES),
		.rnr_retry = path->rnr_retry,
		.min_rnr_timer = path->min_rnr_timer,
		.sl = path->sl,
		.traffic_class = path->traffic_class,
		.flow_label = path->flow_label,
	};
}

int ctx_check_path(const struct copyrpc_ctx *ctx, const struct copyrpc_path *path)
{
	const struct mlx5dvl_qp_attr attr = qp_attr(ctx, path);

	return mlx5dvl_qp_check(ctx->dev, &attr);
}

int ep_create_qp(struct copyrpc_ep *ep)
{
	struct mlx5dvl_qp_attr attr = qp_attr(ep->ctx, &ep->path);
	int rc;

	attr.user = ep;
	ep->ctx->set_ups++;
	rc = mlx5dvl_qp_create(ep->ctx->dev, &attr, &ep->qp);
	if (rc)
		return rc;
	ep->qpn = mlx5dvl_qp_qpn(ep->qp);
	mlx5dvl_qp_get_info(ep->qp, &ep->own, sizeof(ep->own));
	return 0;
}

/* ------------------------------------------------------------------ going */

static void tell(struct copyrpc_ctx *ctx, struct news *n, int status)
{
	if (!n->kind)
		return;
	n->status = status;
	if (!n->queued)
		news_add(ctx, n);
}

void ep_tell_down(struct copyrpc_ep *ep, int status)
{
	news_remove(ep->ctx, &ep->back);
	tell(ep->ctx, &ep->down, status);
}

void ep_not_away(struct copyrpc_ep *ep)
{
	ep->ctx->n_away -= ep->ch.away;
	ep->ch.away = ep->ch.again = false;
	ep->away_why = 0;
}

bool ep_may_return(const struct copyrpc_ep *ep, int status)
{
	return ep->reconnect_ms && (status == -ECONNRESET || status == -ETIMEDOUT);
}

/* Stops the queue pair. One that was never connected has received nothing and is drained. */
static void stop_qp(struct copyrpc_ep *ep)
{
	int status = mlx5dvl_qp_status(ep->qp);

	if (ep->stopped)
		return;
	ep->stopped = true;
	ep->drained = status == -ENOTCONN;
	ep->handled_at = mlx5dvl_cq_count(ep->ctx->recv_cq);
	ep->drain_by = ep->ctx->clock() + DRAIN_NS;
	if (!status)
		mlx5dvl_qp_to_error(ep->qp);
}

void ep_leave(struct copyrpc_ep *ep, int status)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	struct chan *ch = &ep->ch;

	if (!ch->away) {
		ch->away = true;
		ctx->n_away++;
		ep->away_why = status;
		ep->again_error = 0;
		ep->away_since = ctx->clock();
		ep_tell_down(ep, -EAGAIN);
	}
	ch->again = ch->reading = ch->probe = ch->read_timed = false;
	ep->read_at = ep->asked = 0;
	stop_qp(ep);
	if (ctx->side)
		ctx->side->due = 0;
}

static bool has_address(const struct copyrpc_ep *ep)
{
	struct mlx5dvl_qp_info now;

	mlx5dvl_qp_get_info(ep->qp, &now, sizeof(now));
	return now.lid == ep->own.lid && !memcmp(now.gid, ep->own.gid, sizeof(now.gid));
}

COLD void ctx_leave_addresses(struct copyrpc_ctx *ctx)
{
	for (struct copyrpc_ep *ep = ctx->eps; ep; ep = ep->next)
		if (ep->qp && !ep->ch.status && ep_may_return(ep, -ECONNRESET) && !has_address(ep))
			ep_leave(ep, -ECONNRESET);
}

void ep_note_drained(struct copyrpc_ep *ep)
{
	ep->drained = true;
	ep->handled_at = mlx5dvl_cq_count(ep->ctx->recv_cq);
}

/* After the device's report that the queue pair has ended, its completions are all handled once the
 * CQ is seen empty. The CQ is shared, and perhaps never empty. So it is also enough that as many
 * completions as it can hold were handled since the report. */
bool ep_is_drained(struct copyrpc_ep *ep)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	uint32_t handled;

	if (!ep->drained && ctx->clock() >= ep->drain_by)
		ep_note_drained(ep);
	if (!ep->drained)
		return false;
	handled = mlx5dvl_cq_count(ctx->recv_cq) - ep->handled_at;
	return !mlx5dvl_cq_ready(ctx->recv_cq) || handled >= ctx->attr.cq_depth;
}

/* ------------------------------------------------------------------ coming back */

int ep_renew(struct copyrpc_ep *ep)
{
	struct mlx5dvl_qp *old = ep->qp;
	int rc = ep_create_qp(ep);

	if (rc)
		return rc;
	ep->ch.stats.wqes += mlx5dvl_sq_fillers(old);
	mlx5dvl_qp_destroy(old);
	raw_end(ep, ep->away_why);
	ep->moving = ep->stopped = false;
	return 0;
}

void ep_return(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;

	ep->ctx->n_away -= ch->away;
	ch->away = false;
	ch->stats.returns++;
	ep->away_why = ep->again_error = 0;
	ep->error = (struct mlx5dvl_error){0};
	if (ch->unwatched)
		ep_watch(ep, NOT_SEEN);
	ep_dirty(ep);
	tell(ep->ctx, &ep->back, 0);
}
