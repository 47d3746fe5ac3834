/* SPDX-License-Identifier: MIT */
#include "lobby.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/sized.h"
#include "copyrpc_tcp.h"

/* Limits of one step: EVENTS for the events of sockets plus the accepted connections, ACTIONS for
 * due actions. */
#define EVENTS 16
#define ACTIONS 8

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT, "poll and epoll use the same bits");

int plan_copy(struct plan *plan, const struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	struct plan p = {.name = ""};
	int rc = SIZED_ATTR(&p.attr, attr, name);

	if (!rc && p.attr.by_hand)
		rc = -EINVAL;
	if (!rc && p.attr.ring_size && !ring_size_ok(p.attr.ring_size))
		rc = -EINVAL;
	if (!rc && p.attr.path)
		rc = path_read(&p.path, p.attr.path);
	if (!rc)
		rc = ctx_check_path(ctx, p.attr.path ? &p.path : &ctx->path);
	if (rc)
		return rc;
	p.attr.size = sizeof(p.attr);
	if (p.attr.name)
		snprintf(p.name, sizeof(p.name), "%s", p.attr.name);
	*plan = p;
	if (p.attr.path)
		plan->attr.path = &plan->path;
	if (p.attr.name)
		plan->attr.name = plan->name;
	return 0;
}

void lobby_enter(struct lobby *y, struct watch *w)
{
	LINK(&y->watches, w);
	y->side.due = 0;
}

void lobby_leave(struct lobby *y, struct watch *w)
{
	lobby_watch(y, w, 0);
	UNLINK(w);
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

void lobby_close(struct lobby *y, struct watch *w)
{
	if (w->fd < 0)
		return;
	lobby_watch(y, w, 0);
	close(w->fd);
	w->fd = -1;
}

bool lobby_may_act(struct lobby *y, struct watch *w)
{
	if (lobby_may_take(y)) {
		y->left--;
		return true;
	}
	if (!y->postponed)
		y->postponed = w;
	return false;
}

/* Makes a watch the first one. The watches before it move to the end of the list. */
static void put_first(struct lobby *y, struct watch *w)
{
	struct watch **end_p = &w->next;

	while (*end_p)
		end_p = &(*end_p)->next;
	*w->link_p = NULL;
	*end_p = y->watches;
	if (*end_p)
		(*end_p)->link_p = end_p;
	y->watches = w;
	w->link_p = &y->watches;
}

/* Begins a part of the step, which may handle at most @left events or actions. */
static void begin_part(struct lobby *y, uint32_t left)
{
	y->set_ups = y->ctx->set_ups;
	y->left = left;
}

/* Handles one event at a time, because handling one may free the watch of another. */
static void handle_events(struct lobby *y, uint64_t now)
{
	struct epoll_event e;

	begin_part(y, EVENTS);
	while (lobby_may_take(y) && epoll_wait(y->epoll, &e, 1, 0) == 1) {
		struct watch *w = e.data.ptr;

		y->left--;
		w->ops->ready(y, w, now);
	}
}

/* The work of a step is bounded, because the context's calls wait meanwhile. */
void lobby_step(struct copyrpc_ctx *ctx)
{
	struct lobby *y = container_of(ctx->side, struct lobby, side);
	uint64_t now = ctx->clock(), due = NEVER;

	handle_events(y, now);
	begin_part(y, ACTIONS);
	y->postponed = NULL;
	for (struct watch *w = y->watches, *next; w; w = next) {
		uint64_t at;

		next = w->next;
		at = w->ops->tick(y, w, now);
		due = at < due ? at : due;
	}
	if (y->postponed)
		put_first(y, y->postponed);
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
	ep->back = (struct news){.kind = COPYRPC_BACK, .token = token, .ep = ep};
	news_add(ep->ctx, &ep->up);
	if (ep->ch.away)
		ep_tell_down(ep, -EAGAIN);
}

static void close_lobby(struct copyrpc_ctx *ctx)
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
	y->side = (struct ctx_side){.due = NEVER, .step = lobby_step, .close = close_lobby};
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
