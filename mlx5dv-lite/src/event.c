/* SPDX-License-Identifier: MIT */
/* Asynchronous events of the device. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "device.h"

int fd_unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static enum mlx5dvl_event type_of(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		return MLX5DVL_EVENT_FATAL;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		return MLX5DVL_EVENT_QUEUE;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		return MLX5DVL_EVENT_QP;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return MLX5DVL_EVENT_DRAINED;
	case IBV_EVENT_PORT_ERR:
		return MLX5DVL_EVENT_PORT_DOWN;
	case IBV_EVENT_PORT_ACTIVE:
		return MLX5DVL_EVENT_PORT_UP;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		return MLX5DVL_EVENT_ADDRESS;
	default:
		return MLX5DVL_EVENT_OTHER;
	}
}

/* Of a retired QP nobody is told. */
static bool translate_qp(const struct ibv_async_event *e, struct async_event *event)
{
	struct qp *qp = e->element.qp->qp_context;

	if (event->type == MLX5DVL_EVENT_DRAINED)
		qp->drained = true;
	event->qp = &qp->queue;
	return !qp->retired;
}

/* What concerns another port of the device is none of ours. */
static bool translate(struct mlx5dvl_ctx *ctx, const struct ibv_async_event *e,
	struct async_event *event)
{
	enum mlx5dvl_event type = type_of(e);

	*event = (struct async_event){.type = type};
	switch (type) {
	case MLX5DVL_EVENT_QP:
	case MLX5DVL_EVENT_DRAINED:
		return translate_qp(e, event);
	case MLX5DVL_EVENT_PORT_UP:
	case MLX5DVL_EVENT_ADDRESS:
		if (e->element.port_num != ctx->port)
			return false;
		ctx_setup_port(ctx); /* if it fails, connecting will tell */
		return true;
	case MLX5DVL_EVENT_PORT_DOWN:
		return e->element.port_num == ctx->port;
	default:
		return true;
	}
}

static int next_event(struct mlx5dvl_ctx *ctx, struct async_event *event)
{
	struct ibv_async_event e;
	bool ours;

	do {
		if (ibv_get_async_event(ctx->ibv, &e))
			return 0;
		ours = translate(ctx, &e, event);
		ibv_ack_async_event(&e);
	} while (!ours);
	return 1;
}

void ctx_read_events(struct mlx5dvl_ctx *ctx)
{
	while (ctx->npending < PENDING_EVENTS && next_event(ctx, &ctx->pending[ctx->npending]))
		ctx->npending++;
}

void ctx_forget_events(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp *qp)
{
	for (uint32_t i = 0; i < ctx->npending; i++)
		if (ctx->pending[i].qp == qp)
			ctx->pending[i] = (struct async_event){.type = MLX5DVL_EVENT_OTHER};
}

enum mlx5dvl_event mlx5dvl_ctx_event_qp(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp **qp_p)
{
	struct async_event event;

	if (ctx->npending) {
		event = ctx->pending[0];
		memmove(ctx->pending, ctx->pending + 1, --ctx->npending * sizeof(*ctx->pending));
	} else if (!next_event(ctx, &event)) {
		event = (struct async_event){.type = MLX5DVL_EVENT_NONE};
	}
	*qp_p = event.qp;
	return event.type;
}

enum mlx5dvl_event mlx5dvl_ctx_event(struct mlx5dvl_ctx *ctx)
{
	struct mlx5dvl_qp *qp;

	return mlx5dvl_ctx_event_qp(ctx, &qp);
}

int mlx5dvl_ctx_fd(const struct mlx5dvl_ctx *ctx)
{
	return ctx->ibv->async_fd;
}
