/* SPDX-License-Identifier: MIT */
#include "lobby.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/sized.h"
#include "copyrpc_tcp.h"

#define EVENTS 8 /* that a step handles at most */

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "one set of bits");

int plan_copy(struct plan *plan, const struct copyrpc_ep_attr *attr)
{
	int rc = SIZED_ATTR(&plan->attr, attr, name);

	if (!rc && plan->attr.path)
		rc = path_read(&plan->path, plan->attr.path);
	if (rc)
		return rc;
	plan->attr.size = sizeof(plan->attr);
	if (plan->attr.path)
		plan->attr.path = &plan->path;
	if (plan->attr.name) {
		snprintf(plan->name, sizeof(plan->name), "%s", plan->attr.name);
		plan->attr.name = plan->name;
	}
	return 0;
}

void lobby_enter(struct lobby *y, struct watch *w)
{
	w->next = y->watches;
	w->link_p = &y->watches;
	if (w->next)
		w->next->link_p = &w->next;
	y->watches = w;
	y->side.due = 0;
}

void lobby_leave(struct lobby *y, struct watch *w)
{
	lobby_watch(y, w, 0);
	*w->link_p = w->next;
	if (w->next)
		w->next->link_p = w->link_p;
}

int lobby_watch(struct lobby *y, struct watch *w, short events)
{
	struct epoll_event e = {.events = (uint32_t)events, .data.ptr = w};
	int op = !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == w->events)
		return 0;
	if (epoll_ctl(y->epoll, op, w->fd, &e) && events)
		return -errno;
	w->events = events;
	return 0;
}

/* Handles one event at a time, because handling one may free the watch of another. Creating an
 * endpoint takes long, so a step ends after one. */
void lobby_step(struct copyrpc_ctx *ctx)
{
	struct lobby *y = container_of(ctx->side, struct lobby, side);
	uint64_t now = ctx->clock(), due = NEVER;
	uint32_t n_eps = ctx->n_eps;
	struct epoll_event e;

	for (int i = 0; i < EVENTS && ctx->n_eps <= n_eps; i++) {
		struct watch *w;

		if (epoll_wait(y->epoll, &e, 1, 0) != 1)
			break;
		w = e.data.ptr;
		w->ops->ready(y, w, now);
	}
	for (struct watch *w = y->watches, *next; w; w = next) {
		uint64_t at;

		next = w->next;
		at = w->ops->tick(y, w, now);
		due = at < due ? at : due;
	}
	y->side.due = due;
	y->side.stepped = now;
}

static int until_ms(const struct lobby *y, uint64_t limit)
{
	uint64_t now = y->ctx->clock(), due = y->side.due;
	int left = tcp_left_ms(limit), ms;

	if (due == NEVER)
		return left;
	ms = due <= now ? 0 : (int)((due - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
	return left < 0 || ms < left ? ms : left;
}

int lobby_wait(const struct lobby *y, int fd, uint64_t limit_ns)
{
	struct pollfd fds[] = {{.fd = y->epoll, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	int n = poll(fds, ARRAY_SIZE(fds), until_ms(y, limit_ns));

	if (n < 0 && errno != EINTR)
		return -errno;
	return !n && tcp_left_ms(limit_ns) == 0 ? -ETIMEDOUT : 0;
}

void lobby_up(struct copyrpc_ep *ep, uint64_t token)
{
	ep->up = (struct news){.kind = COPYRPC_UP, .token = token, .ep = ep};
	ep->down = (struct news){.kind = COPYRPC_DOWN, .token = token, .ep = ep};
	news_add(ep->ctx, &ep->up);
}

static void lobby_close(struct copyrpc_ctx *ctx)
{
	struct lobby *y = container_of(ctx->side, struct lobby, side);

	for (struct watch *w; (w = y->watches);)
		w->ops->close(y, w);
	close(y->epoll);
	ctx->side = NULL;
	free(y);
}

int lobby_open(struct copyrpc_ctx *ctx, struct lobby **y_p)
{
	struct lobby *y;
	int rc;

	if (ctx->side) {
		*y_p = container_of(ctx->side, struct lobby, side);
		return 0;
	}
	y = calloc(1, sizeof(*y));
	if (!y)
		return -ENOMEM;
	y->side = (struct ctx_side){.due = NEVER, .step = lobby_step, .close = lobby_close};
	y->ctx = ctx;
	y->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = y->epoll < 0 ? -errno : ctx_add_side(ctx, &y->side, y->epoll);
	if (rc) {
		if (y->epoll >= 0)
			close(y->epoll);
		free(y);
		return rc;
	}
	*y_p = y;
	return 0;
}
