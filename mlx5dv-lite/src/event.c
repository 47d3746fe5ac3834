/* SPDX-License-Identifier: MIT */
/* Asynchronous events of the device. */
#include <errno.h>
#include <fcntl.h>

#include "device.h"

int fd_unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static enum mlx5dvl_event_type type_of(const struct ibv_async_event *e)
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

static struct mlx5dvl_qp *qp_of(struct mlx5dvl_ctx *ctx, const struct ibv_async_event *e)
{
	uint32_t qpn = e->element.qp->qp_num;

	return ctx->core.table.leaf[qpn / MLX5DVL_QPN_LEAF_]->qp[qpn % MLX5DVL_QPN_LEAF_];
}

/* What concerns another port of the device is none of ours. */
static bool translate(struct mlx5dvl_ctx *ctx, const struct ibv_async_event *e,
	struct mlx5dvl_event *event)
{
	enum mlx5dvl_event_type type = type_of(e);

	*event = (struct mlx5dvl_event){.type = type};
	switch (type) {
	case MLX5DVL_EVENT_QP:
	case MLX5DVL_EVENT_DRAINED:
		event->qp = qp_of(ctx, e);
		return true;
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

int mlx5dvl_ctx_event(struct mlx5dvl_ctx *ctx, struct mlx5dvl_event *event_p)
{
	struct ibv_async_event e;
	bool ours;

	do {
		if (ibv_get_async_event(ctx->ibv, &e))
			return 0;
		ours = translate(ctx, &e, event_p);
		ibv_ack_async_event(&e);
	} while (!ours);
	return 1;
}

int mlx5dvl_ctx_event_fd(const struct mlx5dvl_ctx *ctx)
{
	return ctx->ibv->async_fd;
}
