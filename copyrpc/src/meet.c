/* SPDX-License-Identifier: MIT */
/* Connecting endpoints over a stream socket: greetings and results. */
#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/tcp.h"
#include "copyrpc_tcp.h"
#include "internal.h"

#define GREETING_VERSION 1

static const char greeting_magic[8] = {'C', 'P', 'R', 'P', 'C', 'T', 'C', 'P'};
static const char result_magic[8] = {'C', 'P', 'R', 'P', 'C', 'R', 'E', 'S'};

struct greeting {
	char magic[8];
	uint16_t version, len;
	uint8_t zero[4];
	uint64_t owner;
	uint8_t blob[COPYRPC_INFO_SIZE];
	uint8_t zero2[8];
};
static_assert(sizeof(struct greeting) == 128 && offsetof(struct greeting, blob) == 24, "no holes");

struct result {
	char magic[8];
	uint32_t error;
	uint8_t zero[4];
};
static_assert(sizeof(struct result) == 16, "no holes");

/* One TCP connection over which an endpoint is being connected. */
struct meeting {
	struct tcp_guest guest; /* its descriptor and the events that it waits for */
	struct copyrpc_ep *ep; /* NULL: not yet created; a valid greeting is required first */
	struct greeting greeting;
	struct result result;
	size_t greeting_got, result_got;
	uint8_t out[sizeof(struct greeting) + sizeof(struct result)];
	size_t out_len, sent;
	bool greeted; /* the peer's greeting is valid */
	int err; /* own error; the meeting ends when the result was sent to the peer */
};

static void say(struct meeting *m, const void *bytes, size_t n)
{
	memcpy(m->out + m->out_len, bytes, n);
	m->out_len += n;
}

/* Prepares our greeting. Without an endpoint the greeting has only our version. */
static int say_greeting(struct meeting *m)
{
	struct greeting g = {.version = htole16(GREETING_VERSION), .len = htole16(sizeof(g))};
	struct copyrpc_ep *ep = m->ep;

	memcpy(g.magic, greeting_magic, sizeof(g.magic));
	if (ep) {
		if (!ep->owner && getrandom(&ep->owner, sizeof(ep->owner), 0) < 0)
			return -errno;
		g.owner = htole64(ep->owner);
		copyrpc_ep_info(ep, g.blob);
	}
	say(m, &g, sizeof(g));
	return 0;
}

static void say_result(struct meeting *m)
{
	struct result r = {.error = htole32((uint32_t)-m->err)};

	memcpy(r.magic, result_magic, sizeof(r.magic));
	say(m, &r, sizeof(r));
}

static int hear_greeting(struct meeting *m)
{
	static const uint8_t zero[8];
	const struct greeting *g = &m->greeting;
	size_t head = offsetof(struct greeting, zero);
	int err = 0;

	if (m->greeting_got < head)
		err = tcp_read(m->guest.fd, &m->greeting, head, &m->greeting_got);
	if (err)
		return err;
	if (memcmp(g->magic, greeting_magic, sizeof(g->magic)))
		return -EPROTO;
	if (le16toh(g->version) != GREETING_VERSION)
		return -EPROTONOSUPPORT;
	if (le16toh(g->len) != sizeof(*g))
		return -EPROTO;
	err = tcp_read(m->guest.fd, &m->greeting, sizeof(*g), &m->greeting_got);
	if (err)
		return err;
	if (memcmp(g->zero, zero, sizeof(g->zero)) || memcmp(g->zero2, zero, sizeof(g->zero2)))
		return -EPROTO;
	return 0;
}

static int hear_result(struct meeting *m)
{
	static const uint8_t zero[4];
	const struct result *r = &m->result;
	int err = tcp_read(m->guest.fd, &m->result, sizeof(*r), &m->result_got);

	if (err)
		return err;
	if (memcmp(r->magic, result_magic, sizeof(r->magic)) ||
		memcmp(r->zero, zero, sizeof(r->zero)))
		return -EPROTO;
	return r->error ? -ECONNREFUSED : 0;
}

/* Creates the endpoint if there is none yet, connects it, and prepares our result. */
static int connect_ep(struct meeting *m, struct copyrpc_ctx *ctx,
	const struct copyrpc_ep_attr *attr)
{
	int err = 0;

	if (!m->ep) {
		err = copyrpc_ep_create(ctx, attr, &m->ep);
		if (!err)
			err = say_greeting(m);
	}
	if (err)
		return err;
	m->greeted = true;
	if (!m->ep->name[0])
		tcp_peer(m->guest.fd, m->ep->name, sizeof(m->ep->name));
	m->err = copyrpc_ep_connect(m->ep, m->greeting.blob, sizeof(m->greeting.blob));
	say_result(m);
	return 0;
}

/*
 * Fails the former endpoint of the peer's owner. The peer has destroyed its side, but this side may
 * have nothing to send and would not detect that. Owner numbers are random, so a peer cannot guess
 * another's number.
 */
static void end_former(struct copyrpc_ep *ep)
{
	for (struct copyrpc_ep *old = ep->ctx->eps; old; old = old->next)
		if (old != ep && old->qp && old->peer_owner == ep->peer_owner)
			ep_fail(old, -ECONNRESET);
}

/* Writes the messages that were prepared. */
static int speak(struct meeting *m)
{
	int err = tcp_write(m->guest.fd, m->out, m->out_len, &m->sent);

	m->guest.events = err == -EAGAIN ? POLLOUT : POLLIN;
	if (err == -EAGAIN)
		return err;
	return m->err ? m->err : err;
}

/* Proceeds as far as possible without waiting. Returns 0 if both ends are connected and have
 * exchanged their results, -EAGAIN if the peer's messages are missing, or another error. */
static int go_on(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	int err = speak(m);

	if (!err && !m->greeted) {
		err = hear_greeting(m);
		if (err == -EPROTONOSUPPORT && !m->ep) {
			m->err = err;
			say_greeting(m);
			return speak(m);
		}
		if (!err)
			err = connect_ep(m, ctx, attr);
		if (!err)
			err = speak(m);
	}
	if (!err)
		err = hear_result(m);
	if (err)
		return err;
	m->ep->peer_owner = le64toh(m->greeting.owner);
	if (m->ep->peer_owner)
		end_former(m->ep);
	return 0;
}

static int meet_until(struct copyrpc_ep *ep, int fd, uint64_t limit)
{
	struct meeting m = {.guest.fd = fd, .ep = ep};
	int err;

	if (ep->ch.status != -ENOTCONN)
		return -EISCONN;
	err = say_greeting(&m);
	if (err)
		return err;
	while ((err = go_on(&m, NULL, NULL)) == -EAGAIN) {
		err = tcp_wait(fd, m.guest.events, limit);
		if (err)
			return err;
	}
	return err;
}

int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms)
{
	return meet_until(ep, fd, tcp_limit(timeout_ms));
}

/* Destroys an endpoint. If it was never connected, its memory is freed immediately, because no
 * message can arrive. */
static void discard(struct copyrpc_ep *ep)
{
	if (ep->ch.status == -ENOTCONN)
		ep_free(ep);
	else
		copyrpc_ep_destroy(ep);
}

/* ------------------------------------------------------------------ accepting */

#define GUESTS 64 /* connections that have not been completed, per listener */
/* The longest times that a connection in progress delays the next one, and the context's traffic. */
#define YOUNG_NS (100 * NSEC_PER_MSEC)
#define GRACE_NS (500 * NSEC_PER_MSEC)
#define LOOK_NS (10 * NSEC_PER_MSEC) /* interval between two checks for traffic */

/* The connections that were accepted from a listener and are not endpoints of the user yet. They
 * are kept from one copyrpc_accept() to the next. */
struct lobby {
	struct tcp_crowd crowd;
	int listener;
	struct copyrpc_ctx *ctx;
	const struct copyrpc_ep_attr *attr; /* of the current copyrpc_accept() */
	struct lobby *next;
};

static struct tcp_guest *lobby_open(void *arg)
{
	struct meeting *m = calloc(1, sizeof(*m));

	return m ? &m->guest : NULL;
}

static int lobby_step(void *arg, struct tcp_guest *g)
{
	const struct lobby *l = arg;

	return go_on(container_of(g, struct meeting, guest), l->ctx, l->attr);
}

static void lobby_close(void *arg, struct tcp_guest *g)
{
	struct meeting *m = container_of(g, struct meeting, guest);

	if (m->ep)
		discard(m->ep);
	free(m);
}

static struct lobby *lobby_of(struct copyrpc_ctx *ctx, int listener)
{
	struct lobby *l = ctx->lobbies;

	while (l && l->listener != listener)
		l = l->next;
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->listener = listener;
	l->ctx = ctx;
	l->crowd = (struct tcp_crowd){.open = lobby_open,
		.step = lobby_step,
		.close = lobby_close,
		.arg = l,
		.most = GUESTS};
	l->next = ctx->lobbies;
	ctx->lobbies = l;
	return l;
}

void ctx_close_lobbies(struct copyrpc_ctx *ctx)
{
	struct lobby *l;

	while ((l = ctx->lobbies)) {
		ctx->lobbies = l->next;
		tcp_crowd_fini(&l->crowd);
		free(l);
	}
}

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
static bool may_take(const struct lobby *l, uint64_t now)
{
	bool overdue = l->crowd.guests && now - l->crowd.guests->since_ns >= YOUNG_NS;

	for (const struct tcp_guest *g = l->crowd.guests; g; g = g->next) {
		const struct meeting *m = container_of(g, struct meeting, guest);

		if (m->greeted ? now - g->since_ns < GRACE_NS : !overdue)
			return false;
	}
	return true;
}

/* Waits for an event; if there are guests, at most until the next check for traffic. */
static int lobby_wait(const struct lobby *l, uint64_t now, uint64_t limit)
{
	int listener = may_take(l, now) ? l->listener : -1, err;
	uint64_t look = clock_ns() + LOOK_NS;
	uint64_t until = l->crowd.guests && look < limit ? look : limit;

	err = tcp_crowd_wait(&l->crowd, listener, now, until);
	return err == -ETIMEDOUT && until < limit ? 0 : err;
}

static int next_guest(struct lobby *l, uint64_t limit, struct tcp_guest **guest_p)
{
	for (;;) {
		uint64_t now = l->ctx->clock();
		const struct tcp_guest *oldest;
		int err = tcp_crowd_next(&l->crowd, l->listener, may_take(l, now), now, guest_p);

		if (err != -EAGAIN)
			return err;
		oldest = l->crowd.guests;
		if (oldest && now - oldest->since_ns >= GRACE_NS && has_traffic(l->ctx))
			return -EAGAIN;
		err = lobby_wait(l, now, limit);
		if (err)
			return err;
	}
}

int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p)
{
	struct lobby *l = lobby_of(ctx, listener);
	struct tcp_guest *g;
	struct meeting *m;
	int err;

	if (!l)
		return -ENOMEM;
	l->attr = attr;
	err = next_guest(l, tcp_limit(timeout_ms), &g);
	if (err == -ETIMEDOUT)
		tcp_crowd_fini(&l->crowd);
	if (err)
		return err;
	m = container_of(g, struct meeting, guest);
	*ep_p = m->ep;
	close(g->fd);
	free(m);
	return 0;
}

/* ------------------------------------------------------------------ connecting */

/* Creates an endpoint, connects it over the socket @fd, and closes the socket. */
static int meet_anew(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, uint64_t owner,
	int fd, uint64_t limit, struct copyrpc_ep **ep_p)
{
	struct copyrpc_ep *ep;
	int err = copyrpc_ep_create(ctx, attr, &ep);

	if (!err) {
		ep->owner = owner;
		err = meet_until(ep, fd, limit);
		if (err)
			discard(ep);
	}
	close(fd);
	if (!err)
		*ep_p = ep;
	return err;
}

static int connect_as(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, uint64_t owner,
	const char *host, uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p)
{
	uint64_t limit = tcp_limit(timeout_ms);
	int fd, err = tcp_connect(host, port, true, limit, &fd);

	return err ? err : meet_anew(ctx, attr, owner, fd, limit, ep_p);
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
		.ring_size = old->ch.cr.c * WIRE_BLOCK,
		.max_pending = old->ch.max_calls,
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

/* ------------------------------------------------------------------ connections */

int copyrpc_tcp_listen(const char *host, uint16_t port, int *fd_p)
{
	return tcp_listen(host, port, fd_p);
}

int copyrpc_tcp_port(int fd)
{
	return tcp_port(fd);
}

/* Makes the socket blocking and passes it to the program. */
static int make_blocking(int fd, int *fd_p)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK)) {
		int err = -errno;

		close(fd);
		return err;
	}
	*fd_p = fd;
	return 0;
}

int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p)
{
	int fd, err = tcp_accept(listener, tcp_limit(timeout_ms), &fd);

	return err ? err : make_blocking(fd, fd_p);
}

int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p)
{
	int fd, err = tcp_connect(host, port, true, tcp_limit(timeout_ms), &fd);

	return err ? err : make_blocking(fd, fd_p);
}
