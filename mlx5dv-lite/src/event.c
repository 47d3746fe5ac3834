/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous events of the device. ctx_reap() may read events before the user does, because only
 * an event reports that a QP is drained. It keeps the events for the user in a list. The list has
 * at most one entry for each kind of event, or for each kind and QP, so it cannot overflow.
 * The eventfd `unread` is readable while the list is not empty.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "device.h"

int fd_unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static enum mlx5dvl_event type_of(const struct ibv_async_event *e)
{
	static const enum mlx5dvl_event types[] = {
		[IBV_EVENT_DEVICE_FATAL] = MLX5DVL_EVENT_FATAL,
		[IBV_EVENT_CQ_ERR] = MLX5DVL_EVENT_QUEUE,
		[IBV_EVENT_SRQ_ERR] = MLX5DVL_EVENT_QUEUE,
		[IBV_EVENT_QP_FATAL] = MLX5DVL_EVENT_QP,
		[IBV_EVENT_QP_REQ_ERR] = MLX5DVL_EVENT_QP,
		[IBV_EVENT_QP_ACCESS_ERR] = MLX5DVL_EVENT_QP,
		[IBV_EVENT_PATH_MIG_ERR] = MLX5DVL_EVENT_QP,
		[IBV_EVENT_QP_LAST_WQE_REACHED] = MLX5DVL_EVENT_DRAINED,
		[IBV_EVENT_PORT_ERR] = MLX5DVL_EVENT_PORT_DOWN,
		[IBV_EVENT_PORT_ACTIVE] = MLX5DVL_EVENT_PORT_UP,
		[IBV_EVENT_LID_CHANGE] = MLX5DVL_EVENT_ADDRESS,
		[IBV_EVENT_PKEY_CHANGE] = MLX5DVL_EVENT_ADDRESS,
		[IBV_EVENT_GID_CHANGE] = MLX5DVL_EVENT_ADDRESS,
		[IBV_EVENT_SM_CHANGE] = MLX5DVL_EVENT_ADDRESS,
		[IBV_EVENT_CLIENT_REREGISTER] = MLX5DVL_EVENT_ADDRESS,
	};
	size_t i = (size_t)e->event_type;

	return i < ARRAY_SIZE(types) && types[i] ? types[i] : MLX5DVL_EVENT_OTHER;
}

static void drop(struct async_event *event)
{
	if (!event->next)
		return;
	event->prev->next = event->next;
	event->next->prev = event->prev;
	event->next = NULL;
}

/* Puts the event at the end of the list. If the event is in the list already, it moves to the end,
 * so that the last event of a port shows its present state. */
static void keep(struct mlx5dvl_ctx *ctx, struct async_event *event, enum mlx5dvl_event type,
	struct mlx5dvl_qp *qp)
{
	struct async_event *list = &ctx->pending;

	drop(event);
	event->type = type;
	event->qp = qp;
	event->prev = list->prev;
	event->next = list;
	event->prev->next = list->prev = event;
}

/* Handles an event of a QP. Events of a retired QP are not kept for the user. */
static void note_qp(struct mlx5dvl_ctx *ctx, const struct ibv_async_event *e,
	enum mlx5dvl_event type)
{
	struct qp *qp = e->element.qp->qp_context;

	if (type == MLX5DVL_EVENT_DRAINED)
		qp->drained = true;
	if (!qp->retired)
		keep(ctx, &qp->events[type == MLX5DVL_EVENT_DRAINED], type, &qp->queue);
}

/* Handles an event of the device. Events of other ports are ignored. */
static void note(struct mlx5dvl_ctx *ctx, const struct ibv_async_event *e)
{
	enum mlx5dvl_event type = type_of(e);

	switch (type) {
	case MLX5DVL_EVENT_QP:
	case MLX5DVL_EVENT_DRAINED:
		note_qp(ctx, e, type);
		return;
	case MLX5DVL_EVENT_PORT_UP:
	case MLX5DVL_EVENT_PORT_DOWN:
	case MLX5DVL_EVENT_ADDRESS:
		if (e->element.port_num != ctx->port)
			return;
		if (type != MLX5DVL_EVENT_PORT_DOWN)
			port_setup(ctx); /* an error shows when a QP is connected */
		break;
	default:
		break;
	}
	keep(ctx, &ctx->events[type], type, NULL);
}

static bool read_event(struct mlx5dvl_ctx *ctx)
{
	struct ibv_async_event e;

	if (ibv_get_async_event(ctx->ibv, &e))
		return false;
	note(ctx, &e);
	ibv_ack_async_event(&e);
	return true;
}

static bool has_pending(const struct mlx5dvl_ctx *ctx)
{
	return ctx->pending.next != &ctx->pending;
}

/* Makes the eventfd `unread` readable if the list is not empty, otherwise not readable. */
static void show_pending(struct mlx5dvl_ctx *ctx)
{
	eventfd_t n;

	if (ctx->shown == has_pending(ctx))
		return;
	ctx->shown = !ctx->shown;
	if (ctx->shown)
		eventfd_write(ctx->unread, 1);
	else
		eventfd_read(ctx->unread, &n);
}

void ctx_read_events(struct mlx5dvl_ctx *ctx)
{
	while (read_event(ctx))
		;
	show_pending(ctx);
}

void ctx_forget_events(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp *queue)
{
	struct qp *qp = qp_of(queue);

	for (size_t i = 0; i < ARRAY_SIZE(qp->events); i++)
		drop(&qp->events[i]);
	show_pending(ctx);
}

enum mlx5dvl_event mlx5dvl_ctx_event_qp(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp **qp_p)
{
	struct async_event *event;

	*qp_p = NULL;
	while (!has_pending(ctx) && read_event(ctx))
		;
	if (!has_pending(ctx))
		return MLX5DVL_EVENT_NONE;
	event = ctx->pending.next;
	drop(ctx->pending.next);
	show_pending(ctx);
	*qp_p = event->qp;
	return event->type;
}

enum mlx5dvl_event mlx5dvl_ctx_event(struct mlx5dvl_ctx *ctx)
{
	struct mlx5dvl_qp *qp;

	return mlx5dvl_ctx_event_qp(ctx, &qp);
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int events_open(struct mlx5dvl_ctx *ctx)
{
	int err = fd_unblock(ctx->ibv->async_fd);

	ctx->pending.prev = ctx->pending.next = &ctx->pending;
	if (err)
		return err;
	ctx->unread = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->unread < 0)
		return -errno;
	ctx->fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->fd < 0)
		return -errno;
	err = watch(ctx->fd, ctx->unread);
	return err ? err : watch(ctx->fd, ctx->ibv->async_fd);
}

void events_close(struct mlx5dvl_ctx *ctx)
{
	if (ctx->fd >= 0)
		close(ctx->fd);
	if (ctx->unread >= 0)
		close(ctx->unread);
}

int mlx5dvl_ctx_fd(const struct mlx5dvl_ctx *ctx)
{
	return ctx->fd;
}
