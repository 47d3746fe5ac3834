/* SPDX-License-Identifier: MIT */
/* Dials (connections that this side opens), and the events of connections. */
#include <netdb.h>
#include <stdlib.h>

#include "base/sized.h"
#include "copyrpc_tcp.h"
#include "lobby.h"
#include "meet.h"
#include "redial.h"

#define AGAIN_NS (TCP_AGAIN_MS * NSEC_PER_MSEC)

enum dial_state {
	CONNECTING, /* the socket is not connected yet */
	MEETING,
	PAUSED, /* there is no socket until the next attempt */
	ENDED,
};

struct dial {
	struct watch w;
	struct meeting m;
	struct plan plan;
	enum dial_state state;
	struct addrinfo *addresses, *at; /* all addresses of the host; the current one */
	uint64_t owner;
	uint64_t limit, part; /* deadline of the dial, and of the attempt at this address */
	uint64_t again_at;
	uint64_t peer; /* number of the peer's context, if a second connection with it was refused;
			  0: none */
	bool single, called; /* called: a function waits for the dial, so no event is reported */
	int err; /* error of the ended dial, or of the last attempt */
	struct news news; /* GONE */
};

/* Returns the endpoint that is the single connection to the context @node, if both sides are ready,
 * else NULL. */
static struct copyrpc_ep *single_up(const struct copyrpc_ctx *ctx, uint64_t node)
{
	struct copyrpc_ep *ep = ctx->eps;

	while (ep && (!ep->is_up || !ep->qp || ep->ch.status || ep->single != node))
		ep = ep->next;
	return ep;
}

static void drop_ep(struct dial *d)
{
	if (d->m.ep)
		meet_discard(d->m.ep);
	d->m.ep = NULL;
	d->m.again = false;
}

static void dial_free(struct lobby *y, struct dial *d)
{
	lobby_leave(y, &d->w);
	news_remove(y->ctx, &d->news);
	free(d);
}

/* May free the dial. */
static void dial_end(struct lobby *y, struct dial *d, int err)
{
	lobby_close(y, &d->w);
	if (err || !d->m.ep->reconnect_ms || redial_start(y, d->m.ep, d->addresses))
		freeaddrinfo(d->addresses);
	d->state = ENDED;
	d->err = err;
	if (err)
		drop_ep(d);
	if (d->called)
		return;
	if (err) {
		d->news.status = err;
		news_add(y->ctx, &d->news); /* take_gone() frees the dial */
		return;
	}
	lobby_up(d->m.ep, d->news.token);
	dial_free(y, d);
}

/* Schedules another attempt. Keeps the endpoint if the peer may have connected it already. */
static void pause_dial(struct lobby *y, struct dial *d, int err, uint64_t now)
{
	lobby_close(y, &d->w);
	if (meet_is_open(&d->m))
		d->m.again = true;
	if (!d->m.again)
		drop_ep(d);
	else if (d->m.ep && !d->m.ep->ch.status)
		ep_leave(d->m.ep, -ECONNRESET);
	d->err = err;
	d->at = d->addresses;
	d->again_at = now + AGAIN_NS;
	d->state = PAUSED;
}

/* Tries the addresses from d->at on. May free the dial. */
static void attempt(struct lobby *y, struct dial *d, int err, uint64_t now)
{
	int fd;

	ctx_device_events(y->ctx);
	if (y->ctx->port_down) {
		pause_dial(y, d, -ENETDOWN, now);
		return;
	}
	for (; d->at; d->at = d->at->ai_next) {
		err = tcp_connect_begin(d->at, &fd);
		if (err)
			continue;
		d->m = (struct meeting){.fd = fd,
			.ep = d->m.ep,
			.single = d->single,
			.again = d->m.again};
		d->w.fd = fd;
		d->part = tcp_connect_limit(d->at, now, d->limit);
		d->state = CONNECTING;
		err = lobby_watch(y, &d->w, POLLOUT);
		if (!err)
			return;
		lobby_close(y, &d->w);
	}
	if (err == -ECONNREFUSED || d->m.again)
		pause_dial(y, d, err, now);
	else
		dial_end(y, d, err);
}

static void next_address(struct lobby *y, struct dial *d, int err, uint64_t now)
{
	lobby_close(y, &d->w);
	d->at = d->at->ai_next;
	attempt(y, d, err, now);
}

/* Called when the TCP connection is open: creates the endpoint, unless there is one from an earlier
 * attempt. All attempts have the same owner number (copyrpc_tcp.h). */
static int begin(struct lobby *y, struct dial *d)
{
	struct copyrpc_ep *ep = d->m.ep;
	int err;

	d->state = MEETING;
	if (d->m.again)
		return !ep           ? -ECANCELED :
		       ep->ch.status ? -ECONNREFUSED :
				       meet_begin_again(&d->m, ep);
	err = copyrpc_ep_create(y->ctx, &d->plan.attr, &ep);
	if (err)
		return err;
	ep->owner = d->owner;
	ep->reconnect_ms = y->ctx->attr.reconnect_ms;
	err = meet_begin(&d->m, ep);
	d->owner = ep->owner;
	if (err)
		meet_discard(ep);
	return err;
}

/* Handles a failed meeting. The dial tries again if the peer has closed the connection (for example
 * because of max_guests), has no room, or is connected with this context already. It also tries
 * again if the peer may have connected the endpoint. If the peer has lost that endpoint
 * (-ECONNREFUSED), the dial creates a new one. */
static void failed(struct lobby *y, struct dial *d, int err, uint64_t now)
{
	if (d->m.again && err != -ECANCELED) {
		d->m.again = err != -ECONNREFUSED;
		pause_dial(y, d, err, now);
		return;
	}
	switch (err) {
	case -EISCONN:
		d->peer = meet_node(&d->m);
		pause_dial(y, d, -ETIMEDOUT, now);
		break;
	case -EMFILE:
	case -ECONNRESET:
		pause_dial(y, d, err, now);
		break;
	default:
		dial_end(y, d, err);
	}
}

static void dial_ready(struct lobby *y, struct watch *w, uint64_t now)
{
	struct dial *d = container_of(w, struct dial, w);
	int err;

	if (d->state == CONNECTING) {
		err = tcp_connect_end(d->w.fd);
		if (err) {
			next_address(y, d, err, now);
			return;
		}
		err = begin(y, d);
		if (err) {
			failed(y, d, err, now);
			return;
		}
	}
	err = meet_step(&d->m, NULL, NULL);
	if (err == -EAGAIN)
		err = lobby_watch(y, w, d->m.events) ? -ENOMEM : -EAGAIN;
	if (!err)
		dial_end(y, d, 0);
	else if (err != -EAGAIN)
		failed(y, d, err, now);
}

/* True if another connection with the peer was made. */
static bool is_met(const struct lobby *y, const struct dial *d)
{
	return d->state == PAUSED && d->peer && single_up(y->ctx, d->peer);
}

/* Returns true if the next attempt can begin. If the endpoint was kept, its queue pair must be
 * drained first. A function that waits (`called`) handles no completions. If some are pending, the
 * queue pair cannot become drained, so the endpoint is dropped. */
static bool may_attempt(struct lobby *y, struct dial *d)
{
	if (d->m.again)
		ctx_device_events(y->ctx);
	if (!d->m.again || !d->m.ep)
		return true;
	if (d->m.ep->ch.status || (d->called && mlx5dvl_cq_ready(y->ctx->recv_cq)))
		drop_ep(d);
	return !d->m.ep || ep_is_drained(d->m.ep);
}

/* Returns the time of the dial's next action. */
static uint64_t dial_due(const struct lobby *y, const struct dial *d)
{
	uint64_t due = d->state == PAUSED     ? d->again_at :
		       d->state == CONNECTING ? d->part :
						d->limit;

	if (d->state == ENDED)
		return NEVER;
	if (is_met(y, d))
		return 0;
	return due < d->limit ? due : d->limit;
}

static uint64_t dial_tick(struct lobby *y, struct watch *w, uint64_t now)
{
	struct dial *d = container_of(w, struct dial, w);
	uint64_t due = dial_due(y, d);
	bool paused = d->state == PAUSED;

	if (now < due)
		return due;
	if (!lobby_may_act(y, w))
		return now;
	if (is_met(y, d))
		dial_end(y, d, -EISCONN);
	else if (now >= d->limit)
		dial_end(y, d, paused ? d->err : -ETIMEDOUT);
	else if (paused && !may_attempt(y, d))
		return now + NSEC_PER_MSEC;
	else if (paused)
		attempt(y, d, d->err, now);
	else
		next_address(y, d, -ETIMEDOUT, now);
	return now;
}

static void dial_close(struct lobby *y, struct watch *w)
{
	struct dial *d = container_of(w, struct dial, w);

	if (d->state != ENDED) {
		d->called = true; /* no event is reported */
		dial_end(y, d, -ECANCELED);
	}
	dial_free(y, d);
}

static const struct watch_ops dial_ops = {dial_ready, dial_tick, dial_close};

/* Starts a dial with the attributes @attr of its endpoint; other settings are those of @model. */
static int start(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, const char *host,
	uint16_t port, const struct dial *model, struct dial **d_p)
{
	struct lobby *y;
	struct dial *d;
	int err = lobby_open(ctx, &y);

	if (err)
		return err;
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = *model;
	d->w = (struct watch){.ops = &dial_ops, .fd = -1};
	err = plan_copy(&d->plan, ctx, attr);
	if (!err) {
		d->addresses = d->at = tcp_resolve(host, port);
		err = d->at ? 0 : -EADDRNOTAVAIL;
	}
	if (err) {
		free(d);
		return err;
	}
	lobby_enter(y, &d->w);
	*d_p = d;
	attempt(y, d, 0, ctx->clock());
	return 0;
}

static uint64_t limit_of(const struct copyrpc_ctx *ctx, int timeout_ms)
{
	return timeout_ms < 0 ? NEVER : ctx->clock() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
}

int copyrpc_dial(struct copyrpc_ctx *ctx, const struct copyrpc_dial_attr *attr, const char *host,
	uint16_t port, int timeout_ms, uint64_t token)
{
	struct copyrpc_dial_attr a;
	struct dial model = {.news = {.kind = COPYRPC_GONE, .token = token}}, *d;
	int err = SIZED_ATTR(&a, attr, single);

	if (err)
		return err;
	model.single = a.single;
	model.limit = limit_of(ctx, timeout_ms);
	return start(ctx, a.ep, host, port, &model, &d);
}

int copyrpc_dial_cancel(struct copyrpc_ctx *ctx, uint64_t token)
{
	struct lobby *y;
	int n = 0, err = lobby_open(ctx, &y);

	if (err)
		return err;
	for (struct watch *w = y->watches; w; w = w->next) {
		struct dial *d = container_of(w, struct dial, w);

		if (w->ops != &dial_ops || d->state == ENDED || d->news.token != token)
			continue;
		dial_end(y, d, -ECANCELED);
		n++;
	}
	return n;
}

/* ------------------------------------------------------------------ events */

/* Completes the event that reports the end of a dial. If another connection with the peer was made
 * meanwhile, the event names its endpoint. */
static void take_gone(struct copyrpc_ctx *ctx, struct news *n, struct copyrpc_event *ev)
{
	struct dial *d = container_of(n, struct dial, news);

	if (n->status == -EISCONN) {
		ev->ep = single_up(ctx, d->peer);
		ev->kind = ev->ep ? COPYRPC_UP : COPYRPC_GONE;
		ev->status = ev->ep ? -EISCONN : -ECONNRESET;
	}
	dial_free(container_of(ctx->side, struct lobby, side), d);
}

int copyrpc_event_recv(struct copyrpc_ctx *ctx, struct copyrpc_event *event_p, size_t size)
{
	struct news *n = ctx->news.head;
	struct copyrpc_event ev;

	if (!n)
		return 0;
	ev = (struct copyrpc_event){n->kind, n->status, n->ep, n->token};
	news_remove(ctx, n);
	if (!n->ep)
		take_gone(ctx, n, &ev);
	sized_out(event_p, size, &ev, sizeof(ev));
	return 1;
}

/* ------------------------------------------------------------------ waiting */

static int connect_as(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, uint64_t owner,
	const char *host, uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p)
{
	struct dial model = {.called = true, .owner = owner, .limit = limit_of(ctx, timeout_ms)};
	struct dial *d;
	struct lobby *y;
	int err = start(ctx, attr, host, port, &model, &d);

	if (err)
		return err;
	y = container_of(ctx->side, struct lobby, side);
	while (d->state != ENDED && !err) {
		err = lobby_wait(y, -1, TCP_FOREVER);
		lobby_step(ctx);
	}
	if (d->state != ENDED)
		dial_end(y, d, err);
	err = d->err;
	if (!err)
		*ep_p = d->m.ep;
	dial_free(y, d);
	return err;
}

int copyrpc_connect(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, const char *host,
	uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p)
{
	return connect_as(ctx, attr, 0, host, port, timeout_ms, ep_p);
}

int copyrpc_reconnect(struct copyrpc_ep *old, const char *host, uint16_t port, int timeout_ms,
	struct copyrpc_ep **ep_p)
{
	const struct copyrpc_ep_attr attr = {
		.ring_size = old->ch.most * WIRE_BLOCK,
		.max_pending = old->ch.max_pending,
		.user = old->user,
		.path = &old->path,
		.name = old->named ? old->name : NULL,
	};
	struct copyrpc_ep *ep;
	int err = connect_as(old->ctx, &attr, old->owner, host, port, timeout_ms, &ep);

	if (err)
		return err;
	copyrpc_ep_destroy(old);
	*ep_p = ep;
	return 0;
}
