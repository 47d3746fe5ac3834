/* SPDX-License-Identifier: MIT */
/* Asynchronous events of the device, and a descriptor to sleep on. */
#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"

/* `what` is a CQ, the context's `side`, or NULL for the device's own events. */
static int watch(int epoll, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int ctx_open_events(struct copyrpc_ctx *ctx)
{
	int rc;

	ctx->fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->fd < 0)
		return -errno;
	rc = watch(ctx->fd, mlx5dvl_cq_fd(ctx->recv_cq), ctx->recv_cq);
	if (!rc)
		rc = watch(ctx->fd, mlx5dvl_cq_fd(ctx->send_cq), ctx->send_cq);
	return rc ? rc : watch(ctx->fd, mlx5dvl_ctx_fd(ctx->dev), NULL);
}

int ctx_add_side(struct copyrpc_ctx *ctx, struct ctx_side *side, int fd)
{
	int rc = watch(ctx->fd, fd, side);

	if (!rc)
		ctx->side = side;
	return rc;
}

void ctx_close_events(struct copyrpc_ctx *ctx)
{
	if (ctx->fd >= 0)
		close(ctx->fd);
}

int copyrpc_ctx_fd(const struct copyrpc_ctx *ctx)
{
	return ctx->fd;
}

/* Arms a CQ, which stays armed until its event is read. The device sends the event for the first
 * completion after the consumer index that mlx5dvl_cq_arm() writes. */
static void arm(struct copyrpc_ctx *ctx, struct mlx5dvl_cq *cq, unsigned which)
{
	if (ctx->armed & which)
		return;
	mlx5dvl_cq_arm(cq);
	ctx->armed |= which;
}

int copyrpc_ctx_arm(struct copyrpc_ctx *ctx)
{
	if (ctx_has_dirty(ctx) || ctx->ended.head || ctx->serve_again ||
		(ctx->work_due && ctx->work.head))
		return 1;
	arm(ctx, ctx->recv_cq, ARMED_RECV);
	arm(ctx, ctx->send_cq, ARMED_SEND);
	ctx->armed |= ARMED_NOW;
	ctx->calm = NOT_CALM;
	return mlx5dvl_cq_ready(ctx->recv_cq) || mlx5dvl_cq_ready(ctx->send_cq);
}

/* Fails all connected endpoints, because the device or a queue of the context has failed. */
static void fail_all(struct copyrpc_ctx *ctx)
{
	ctx->broken = true;
	for (struct copyrpc_ep *ep = ctx->eps; ep; ep = ep->next)
		ep_fail(ep, -EIO);
}

COLD void ctx_device_events(struct copyrpc_ctx *ctx)
{
	enum mlx5dvl_event event;
	struct mlx5dvl_qp *qp;

	while ((event = mlx5dvl_ctx_event_qp(ctx->dev, &qp)) != MLX5DVL_EVENT_NONE) {
		switch (event) {
		case MLX5DVL_EVENT_FATAL:
		case MLX5DVL_EVENT_QUEUE:
			fail_all(ctx);
			break;
		case MLX5DVL_EVENT_QP:
			ep_fail(mlx5dvl_qp_user(qp), -ECONNRESET);
			break;
		case MLX5DVL_EVENT_DRAINED:
			ep_note_drained(mlx5dvl_qp_user(qp));
			break;
		case MLX5DVL_EVENT_PORT_UP:
			ctx->port_down = false;
			if (ctx->side)
				ctx->side->due = 0;
			ctx_leave_addresses(ctx);
			break;
		case MLX5DVL_EVENT_ADDRESS:
			ctx_leave_addresses(ctx);
			break;
		case MLX5DVL_EVENT_PORT_DOWN:
			ctx->port_down = true;
			ctx->port_downs++;
			break;
		default:
			break;
		}
	}
}

COLD void ctx_drain(struct copyrpc_ctx *ctx)
{
	struct epoll_event ready[4];
	int n = epoll_wait(ctx->fd, ready, ARRAY_SIZE(ready), 0);

	ctx->armed &= ~(unsigned)ARMED_NOW;
	for (int i = 0; i < n; i++) {
		struct mlx5dvl_cq *cq = ready[i].data.ptr;

		if (ready[i].data.ptr == ctx->side && ctx->side) {
			ctx->side->step(ctx);
			continue;
		}
		if (!cq)
			ctx_device_events(ctx);
		while (cq && mlx5dvl_cq_event(cq))
			ctx->armed &= ~(cq == ctx->recv_cq ? ARMED_RECV : ARMED_SEND);
	}
}

/* Returns the time of the earliest READ, or attempt to allocate a larger ring, that a flush has
 * delayed. */
static uint64_t next_flush(const struct copyrpc_ctx *ctx)
{
	uint64_t at = NEVER;

	for (const struct copyrpc_ep *ep = ctx->dirty; ep; ep = ep->dirty_next) {
		if (ep->read_at && !ep->ch.reading && ep->read_at < at)
			at = ep->read_at;
		if (ep->grow_at && ep->grow_at < at)
			at = ep->grow_at;
	}
	return at;
}

/* True if a peer must be watched. Endpoints that await nothing leave the list at the next check. */
static bool has_awaiting(const struct copyrpc_ctx *ctx)
{
	const struct copyrpc_ep *ep = ctx->watched.head;

	while (ep && !ep_awaits(ep))
		ep = ep->watched_next;
	return ep;
}

int copyrpc_ctx_timeout(const struct copyrpc_ctx *ctx)
{
	uint64_t at = next_flush(ctx), now;

	if (ctx->probed + PROBE_NS < at && (ctx->n_away || has_awaiting(ctx)))
		at = ctx->probed + PROBE_NS;
	if (ctx->deadline < at)
		at = ctx->deadline;
	if (ctx->side && ctx->side->due < at)
		at = ctx->side->due;
	if (at == NEVER)
		return -1;
	now = ctx->clock();
	if (at <= now)
		return 0;
	at = (at - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return at < INT_MAX ? (int)at : INT_MAX;
}
