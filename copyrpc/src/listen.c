/* SPDX-License-Identifier: MIT */
/* Listeners, and the connections that they have accepted, until the endpoints are connected. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "copyrpc_tcp.h"
#include "lobby.h"
#include "meet.h"

#define GUESTS 64 /* default of max_guests */
#define PATIENCE_MS 5000 /* default of patience_ms */
#define TAKE 4 /* maximum number of connections that are accepted at one event of a listener */
/* copyrpc_accept(): a connection delays the next one for at most YOUNG_NS, or GRACE_NS if it has
 * sent a greeting. It delays the context's traffic for at most GRACE_NS. */
#define YOUNG_NS (100 * NSEC_PER_MSEC)
#define GRACE_NS (500 * NSEC_PER_MSEC)
#define LOOK_NS (10 * NSEC_PER_MSEC) /* interval between two checks for traffic */

/* A connection that was accepted and whose endpoint does not belong to the user yet. */
struct guest {
	struct watch w;
	struct meeting m;
	struct listening *at;
	uint64_t since_ns;
	bool parked; /* the connection is lost, but the peer may have the endpoint */
	int err; /* the result, when the meeting has ended */
	struct guest *next;
};

struct listening {
	struct watch w; /* its socket belongs to the user */
	struct copyrpc_ctx *ctx;
	struct stat socket; /* identity of the socket, because its number may be used for another
			       file later */
	struct plan plan;
	bool called; /* used by copyrpc_accept(), which takes the connections itself */
	uint32_t most, n;
	uint64_t patience_ns; /* a guest older than this is closed; NEVER: no limit */
	uint64_t token;
	uint64_t again_at; /* no descriptor was free: no connection is taken before this time; 0:
			      none */
	struct guest *guests, *parked; /* the oldest first */
	struct guest *ended; /* if `called`: guests that copyrpc_accept() must return */
};

/* ------------------------------------------------------------------ guests */

static void append(struct guest **list, struct guest *g)
{
	while (*list)
		list = &(*list)->next;
	g->next = NULL;
	*list = g;
}

/* Closes the connection of a guest, and removes the guest from the list of its listener. */
static void guest_leave(struct lobby *y, struct guest *g)
{
	struct guest **link = g->parked ? &g->at->parked : &g->at->guests;

	while (*link != g)
		link = &(*link)->next;
	*link = g->next;
	g->at->n -= !g->parked;
	lobby_close(y, &g->w);
}

static void guest_free(struct guest *g)
{
	meet_drop(&g->m);
	free(g);
}

static void guest_close(struct lobby *y, struct watch *w)
{
	struct guest *g = container_of(w, struct guest, w);

	guest_leave(y, g);
	lobby_leave(y, w);
	guest_free(g);
}

/* Parks a guest whose connection is lost: the peer may have the endpoint, so the endpoint waits for
 * the peer. */
static void guest_park(struct lobby *y, struct guest *g)
{
	struct listening *l = g->at;
	struct copyrpc_ep *ep = g->m.ep, *oldest = NULL;
	uint32_t n = 0;

	guest_leave(y, g);
	g->parked = true;
	ep->held = NULL;
	ep->parked = &g->m.ep;
	ep_leave(ep, -ECONNRESET);
	append(&l->parked, g);
	for (const struct guest *p = l->parked; p; p = p->next)
		if (p->m.ep && !p->m.ep->ch.status && !n++)
			oldest = p->m.ep;
	if (n > l->most)
		ep_break(oldest, -ECONNRESET);
}

/* Ends a guest for which there is no time or no room any more. */
static void guest_drop(struct lobby *y, struct guest *g)
{
	if (meet_is_open(&g->m))
		guest_park(y, g);
	else
		guest_close(y, &g->w);
}

/* Reports the result of the meeting to the program. */
static void guest_report(struct lobby *y, struct guest *g, int err)
{
	lobby_leave(y, &g->w);
	g->err = err;
	if (g->at->called) {
		if (!err)
			g->m.ep->parked = &g->m.ep; /* a request can arrive before copyrpc_accept()
						       returns the endpoint, and the program can
						       then destroy it */
		append(&g->at->ended, g);
		return;
	}
	if (!err)
		lobby_up(g->m.ep, g->at->token);
	free(g);
}

/* Handles the end of a meeting. */
static void guest_end(struct lobby *y, struct guest *g, int err)
{
	if (err && meet_is_open(&g->m)) {
		guest_park(y, g);
		return;
	}
	guest_leave(y, g);
	if (err)
		meet_drop(&g->m);
	if (!g->m.again) {
		guest_report(y, g, err);
		return;
	}
	lobby_leave(y, &g->w); /* the program or a parked guest has the endpoint already */
	free(g);
}

/* Checks a parked guest. The guest is reported when the peer has returned or has sent a message,
 * and closed when its endpoint has failed, which is the case after reconnect_ms at the latest. */
static uint64_t parked_tick(struct lobby *y, struct guest *g, uint64_t now)
{
	struct copyrpc_ep *ep = g->m.ep;

	if (!ep || ep->ch.status) {
		guest_close(y, &g->w);
		return NEVER;
	}
	if (!ep->is_up && !ep->ch.live.pos)
		return now + PROBE_NS;
	meet_up(&g->m);
	ep->parked = NULL;
	guest_leave(y, g);
	guest_report(y, g, 0);
	return NEVER;
}

static void guest_ready(struct lobby *y, struct watch *w, uint64_t now)
{
	struct guest *g = container_of(w, struct guest, w);
	int err = meet_step(&g->m, y->ctx, &g->at->plan.attr);

	if (err == -EAGAIN)
		err = lobby_watch(y, w, g->m.events) ? -ENOMEM : -EAGAIN;
	if (err != -EAGAIN)
		guest_end(y, g, err);
}

static uint64_t guest_tick(struct lobby *y, struct watch *w, uint64_t now)
{
	struct guest *g = container_of(w, struct guest, w);
	uint64_t patience = g->at->patience_ns;
	bool over = patience != NEVER && now - g->since_ns >= patience;

	if (g->parked)
		return parked_tick(y, g, now);
	if (!over && !g->m.waits)
		return patience == NEVER ? NEVER : g->since_ns + patience;
	if (!lobby_may_act(y, w))
		return now;
	if (over) {
		guest_drop(y, g);
		return now + PROBE_NS;
	}
	guest_ready(y, w, now);
	return now + (y->ctx->port_down ? PROBE_NS : NSEC_PER_MSEC);
}

static const struct watch_ops guest_ops = {guest_ready, guest_tick, guest_close};

/* ------------------------------------------------------------------ listeners */

static int take_fd(struct lobby *y, struct listening *l, uint64_t now, int *fd_p)
{
	int err = tcp_take(l->w.fd, fd_p);

	if (tcp_is_short(err) && l->guests) {
		guest_drop(y, l->guests);
		err = tcp_take(l->w.fd, fd_p);
	}
	if (!tcp_is_short(err))
		return err;
	l->again_at = now + TCP_AGAIN_MS * NSEC_PER_MSEC;
	lobby_watch(y, &l->w, 0);
	return -EAGAIN;
}

/* Accepts a connection. If there are more than l->most, drops the oldest. Returns 0, -EAGAIN if
 * there is none, or no descriptor or memory for it, or an error of the socket. */
static int take(struct lobby *y, struct listening *l, uint64_t now)
{
	struct guest *g;
	int fd, err = take_fd(y, l, now, &fd);

	if (err)
		return err;
	g = calloc(1, sizeof(*g));
	if (!g) {
		close(fd);
		return -EAGAIN;
	}
	g->w = (struct watch){.ops = &guest_ops, .fd = fd};
	g->m = (struct meeting){.fd = fd, .events = POLLIN, .came = ++y->came};
	g->at = l;
	g->since_ns = now;
	lobby_enter(y, &g->w);
	append(&l->guests, g);
	if (++l->n > l->most)
		guest_drop(y, l->guests);
	guest_ready(y, &g->w, now);
	return 0;
}

static void listening_ready(struct lobby *y, struct watch *w, uint64_t now)
{
	struct listening *l = container_of(w, struct listening, w);
	int err = 0;

	for (int i = 0; i < TAKE && !err && lobby_may_take(y); i++) {
		y->left--;
		err = take(y, l, now);
	}
	if (err && err != -EAGAIN)
		lobby_watch(y, w, 0); /* not a listening socket any more */
}

static uint64_t listening_tick(struct lobby *y, struct watch *w, uint64_t now)
{
	struct listening *l = container_of(w, struct listening, w);

	if (!l->again_at)
		return NEVER;
	if (now < l->again_at)
		return l->again_at;
	l->again_at = 0;
	if (!l->called)
		lobby_watch(y, w, POLLIN);
	return NEVER;
}

static void listening_close(struct lobby *y, struct watch *w)
{
	struct listening *l = container_of(w, struct listening, w);
	struct guest *g;

	while ((g = l->guests ? l->guests : l->parked))
		guest_close(y, &g->w);
	while ((g = l->ended)) {
		l->ended = g->next;
		guest_free(g);
	}
	lobby_leave(y, w);
	free(l);
}

static const struct watch_ops listening_ops = {listening_ready, listening_tick, listening_close};

/* True if the program has closed the socket of copyrpc_accept(), and its number belongs to another
 * file. */
static bool is_stale(const struct listening *l)
{
	struct stat now;

	return l->called && !fstat(l->w.fd, &now) &&
	       (now.st_ino != l->socket.st_ino || now.st_dev != l->socket.st_dev);
}

static struct listening *listening_of(struct lobby *y, int fd)
{
	struct watch *w = y->watches;
	struct listening *l;

	while (w && (w->ops != &listening_ops || w->fd != fd))
		w = w->next;
	l = w ? container_of(w, struct listening, w) : NULL;
	if (!l || !is_stale(l))
		return l;
	listening_close(y, w);
	return NULL;
}

/* Returns 0 if the descriptor is a listening socket. Another descriptor would never have an event,
 * so the program would wait for ever. */
static int check_listener(int fd)
{
	socklen_t len = sizeof(int);
	int listens;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len))
		return -errno;
	return listens ? 0 : -EINVAL;
}

static struct listening *listening_new(struct lobby *y, int fd)
{
	struct listening *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->w = (struct watch){.ops = &listening_ops, .fd = fd};
	l->ctx = y->ctx;
	l->most = GUESTS;
	l->patience_ns = NEVER;
	fstat(fd, &l->socket);
	lobby_enter(y, &l->w);
	return l;
}

int copyrpc_listen(struct copyrpc_ctx *ctx, const struct copyrpc_listen_attr *attr, int listener,
	uint64_t token)
{
	struct copyrpc_listen_attr a;
	struct listening *l;
	struct lobby *y;
	int err = SIZED_ATTR(&a, attr, patience_ms);

	if (!err)
		err = lobby_open(ctx, &y);
	if (err)
		return err;
	if (listening_of(y, listener))
		return -EBUSY;
	err = check_listener(listener);
	if (err)
		return err;
	l = listening_new(y, listener);
	if (!l)
		return -ENOMEM;
	l->token = token;
	l->most = a.max_guests ? a.max_guests : GUESTS;
	l->patience_ns = (a.patience_ms ? a.patience_ms : PATIENCE_MS) * NSEC_PER_MSEC;
	err = plan_copy(&l->plan, ctx, a.ep);
	if (!err)
		err = lobby_watch(y, &l->w, POLLIN);
	if (err)
		listening_close(y, &l->w);
	return err;
}

int copyrpc_unlisten(struct copyrpc_ctx *ctx, int listener)
{
	struct listening *l;
	struct lobby *y;
	int err = lobby_open(ctx, &y);

	if (err)
		return err;
	l = listening_of(y, listener);
	if (!l)
		return -ENOENT;
	listening_close(y, &l->w);
	return 0;
}

/* ------------------------------------------------------------------ waiting for one */

/*
 * True if other endpoints need a poll: messages to handle or to send, a completion, or an action
 * that is due. A delayed READ (in `dirty`) also counts: a peer without credit sends nothing and
 * waits for the credit that this READ lets us grant.
 */
static bool has_traffic(const struct copyrpc_ctx *ctx)
{
	return ctx->queue.head || ctx->ended.head || ctx->dirty || mlx5dvl_cq_ready(ctx->recv_cq) ||
	       mlx5dvl_cq_ready(ctx->send_cq) || !copyrpc_ctx_timeout(ctx);
}

/*
 * True if another connection may be taken from the listener: if no earlier connection is expected
 * to be ready soon. A connection that is not taken keeps the listener readable, so that a program
 * which waits for the listener calls copyrpc_accept() again. Connections that have sent a greeting
 * get more time. When an earlier connection's time is over, the next ones are taken immediately.
 */
static bool may_take(const struct listening *l, uint64_t now)
{
	bool overdue = l->guests && now - l->guests->since_ns >= YOUNG_NS;

	if (l->again_at)
		return false;
	for (const struct guest *g = l->guests; g; g = g->next)
		if (g->m.greeted ? now - g->since_ns < GRACE_NS : !overdue)
			return false;
	return true;
}

/* Waits for an event; if there are guests, at most until the next check for traffic. */
static int wait_for(const struct lobby *y, const struct listening *l, uint64_t limit)
{
	int listener = may_take(l, l->ctx->clock()) ? l->w.fd : -1, err;
	uint64_t look = clock_ns() + LOOK_NS;
	uint64_t until = l->guests && look < limit ? look : limit;

	err = lobby_wait(y, listener, until);
	return err == -ETIMEDOUT && until < limit ? 0 : err;
}

/* True if copyrpc_accept() has a guest to return. Frees those whose endpoint was destroyed. */
static bool has_ended(struct listening *l)
{
	struct guest *g;

	while ((g = l->ended) && !g->err && !g->m.ep) {
		l->ended = g->next;
		free(g);
	}
	return g;
}

/* Waits until a meeting has ended. */
static int next_ended(struct lobby *y, struct listening *l, uint64_t limit)
{
	struct copyrpc_ctx *ctx = l->ctx;

	for (;;) {
		uint64_t now = ctx->clock();
		int err = may_take(l, now) ? take(y, l, now) : 0;

		if (err && err != -EAGAIN)
			return err;
		lobby_step(ctx);
		if (has_ended(l))
			return 0;
		if (l->guests && now - l->guests->since_ns >= GRACE_NS && has_traffic(ctx))
			return -EAGAIN;
		err = wait_for(y, l, limit);
		while (err == -ETIMEDOUT && l->guests)
			guest_drop(y, l->guests);
		if (err)
			return err;
	}
}

int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p)
{
	uint64_t limit = tcp_limit(timeout_ms);
	struct listening *l;
	struct lobby *y;
	struct guest *g;
	int err = lobby_open(ctx, &y);

	if (err)
		return err;
	l = listening_of(y, listener);
	if (l && !l->called)
		return -EBUSY;
	if (!l) {
		err = check_listener(listener);
		if (err)
			return err;
		l = listening_new(y, listener);
	}
	if (!l)
		return -ENOMEM;
	l->called = true;
	err = plan_copy(&l->plan, ctx, attr);
	if (!err)
		err = next_ended(y, l, limit);
	if (err)
		return err;
	g = l->ended;
	l->ended = g->next;
	err = g->err;
	if (!err) {
		g->m.ep->parked = NULL;
		*ep_p = g->m.ep;
	}
	free(g);
	return err;
}
