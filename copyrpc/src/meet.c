/* SPDX-License-Identifier: MIT */
#include "meet.h"

#include <endian.h>
#include <sys/random.h>

#include "base/tcp.h"
#include "blob.h"

#define GREETING_VERSION 2
#define FLAG_SINGLE 1u

static const char greeting_magic[8] = {'C', 'P', 'R', 'P', 'C', 'T', 'C', 'P'};
static const char result_magic[8] = {'C', 'P', 'R', 'P', 'C', 'R', 'E', 'S'};

static int draw(uint64_t *number)
{
	if (!*number && getrandom(number, sizeof(*number), 0) < 0)
		return -errno;
	return 0;
}

int ctx_set_node(struct copyrpc_ctx *ctx)
{
	return draw(&ctx->node);
}

uint64_t meet_node(const struct meeting *m)
{
	return m->greeted ? le64toh(m->greeting.node) : 0;
}

static void say(struct meeting *m, const void *bytes, size_t n)
{
	memcpy(m->out + m->out_len, bytes, n);
	m->out_len += n;
}

/* Prepares our greeting. Without an endpoint the blob is zero. */
static void say_greeting(struct meeting *m, uint64_t node)
{
	struct greeting g = {.version = htole16(GREETING_VERSION),
		.len = htole16(sizeof(g)),
		.flags = htole32(m->single ? FLAG_SINGLE : 0),
		.node = htole64(node)};

	memcpy(g.magic, greeting_magic, sizeof(g.magic));
	if (m->ep) {
		g.owner = htole64(m->ep->owner);
		copyrpc_ep_info(m->ep, g.blob);
	}
	say(m, &g, sizeof(g));
}

static void say_result(struct meeting *m, int err)
{
	struct result r = {.error = htole32((uint32_t)-err)};

	m->err = err;
	memcpy(r.magic, result_magic, sizeof(r.magic));
	say(m, &r, sizeof(r));
}

int meet_begin(struct meeting *m, struct copyrpc_ep *ep)
{
	int err = draw(&ep->owner);

	if (!err)
		err = ctx_set_node(ep->ctx);
	if (err)
		return err;
	m->ep = ep;
	ep->held = &m->ep;
	m->events = POLLIN;
	say_greeting(m, ep->ctx->node);
	return 0;
}

static int hear_greeting(struct meeting *m)
{
	const struct greeting *g = &m->greeting;
	size_t head = offsetof(struct greeting, flags);
	int err = 0;

	if (m->greeting_got < head)
		err = tcp_read(m->fd, &m->greeting, head, &m->greeting_got);
	if (err)
		return err;
	if (memcmp(g->magic, greeting_magic, sizeof(g->magic)))
		return -EPROTO;
	if (le16toh(g->version) != GREETING_VERSION)
		return -EPROTONOSUPPORT;
	if (le16toh(g->len) != sizeof(*g))
		return -EPROTO;
	err = tcp_read(m->fd, &m->greeting, sizeof(*g), &m->greeting_got);
	if (err)
		return err;
	if (le32toh(g->flags) & ~FLAG_SINGLE || !g->node)
		return -EPROTO;
	return 0;
}

static int hear_result(struct meeting *m)
{
	static const uint8_t zero[4];
	const struct result *r = &m->result;
	int err = tcp_read(m->fd, &m->result, sizeof(*r), &m->result_got);

	if (err)
		return err;
	if (memcmp(r->magic, result_magic, sizeof(r->magic)) ||
		memcmp(r->zero, zero, sizeof(r->zero)))
		return -EPROTO;
	switch (le32toh(r->error)) {
	case 0:
		return 0;
	case EISCONN:
		return m->single ? -EISCONN : -ECONNREFUSED;
	case EMFILE: /* no room now */
		return -ECONNRESET;
	default:
		return -ECONNREFUSED;
	}
}

/* Returns another connection of two contexts that may have a single one only. The context with the
 * larger number decides which one stays. */
static struct copyrpc_ep *other_single(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep = ctx->eps;

	while (ep && (ep == m->ep || !ep->qp || ep->ch.status || ep->single != meet_node(m)))
		ep = ep->next;
	return ep;
}

static bool decides(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	return m->single && ctx->node > meet_node(m);
}

/* True if this side has to refuse the connection, because there is another one. If the other one is
 * up, it is probed, because the peer may have destroyed its side before it called again. */
static bool is_second(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *other = decides(m, ctx) ? other_single(m, ctx) : NULL;

	if (!other)
		return false;
	if (other->is_up) {
		other->ch.probe = true;
		ep_dirty(other);
	}
	return true;
}

/* Creates the endpoint of a side that accepts, after a valid greeting, and prepares ours. */
static int create_ep(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	struct blob blob;
	int err = blob_decode(&blob, m->greeting.blob, sizeof(m->greeting.blob));

	if (!err)
		err = ctx_set_node(ctx);
	m->single = le32toh(m->greeting.flags) & FLAG_SINGLE && meet_node(m) != ctx->node;
	if (!err && is_second(m, ctx))
		err = -EISCONN;
	if (!err)
		err = copyrpc_ep_create(ctx, attr, &m->ep);
	if (!err) {
		m->ep->held = &m->ep;
		err = draw(&m->ep->owner);
	}
	say_greeting(m, ctx->node);
	return err;
}

static int connect_ep(struct meeting *m)
{
	struct copyrpc_ep *ep = m->ep;
	int err;

	if (!ep->name[0]) {
		tcp_peer(m->fd, ep->name, sizeof(ep->name));
		live_rename(ep->live, ep->name);
	}
	err = copyrpc_ep_connect(ep, m->greeting.blob, sizeof(m->greeting.blob));
	if (!err && m->single)
		ep->single = meet_node(m);
	return err;
}

/* True if the other side has no endpoint for this side that has called; its result says why. */
static bool is_refusal(const struct meeting *m)
{
	static const uint8_t none[COPYRPC_INFO_SIZE];

	return m->ep && !memcmp(m->greeting.blob, none, sizeof(none));
}

/* Decides about the peer's greeting, and prepares the answer. */
static void answer(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	int err = 0;

	m->greeted = true;
	if (is_refusal(m))
		return;
	if (!m->ep)
		err = create_ep(m, ctx, attr);
	else if (meet_node(m) == ctx->node)
		m->single = false;
	else if (is_second(m, ctx))
		err = -EISCONN;
	say_result(m, err ? err : connect_ep(m));
}

/* Fails the former endpoint of the same owner or, if the peer decides, the former single one. The
 * peer has destroyed its side, but this side may have nothing to send and would not detect that.
 * The numbers are random, so a peer cannot guess another's number. */
static void end_former(const struct meeting *m)
{
	struct copyrpc_ctx *ctx = m->ep->ctx;
	uint64_t owner = le64toh(m->greeting.owner);
	struct copyrpc_ep *other;

	for (struct copyrpc_ep *old = ctx->eps; owner && old; old = old->next)
		if (old != m->ep && old->qp && old->peer_owner == owner)
			ep_fail(old, -ECONNRESET);
	while (m->single && !decides(m, ctx) && (other = other_single(m, ctx)))
		ep_fail(other, -ECONNRESET);
	m->ep->peer_owner = owner;
}

/* Writes the messages that were prepared. */
static int speak(struct meeting *m)
{
	int err = tcp_write(m->fd, m->out, m->out_len, &m->sent);

	m->events = err == -EAGAIN ? POLLOUT : POLLIN;
	if (err == -EAGAIN)
		return err;
	return m->err ? m->err : err;
}

int meet_step(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	int err;

	/* The peer's first request can arrive before its result, and the program can then destroy
	 * the endpoint. */
	if (m->greeted && !m->ep && !m->err)
		return -ECANCELED;
	err = speak(m);
	if (!err && !m->greeted) {
		err = hear_greeting(m);
		if (err == -EPROTONOSUPPORT && !m->ep) {
			m->err = err;
			say_greeting(m, 0);
			return speak(m);
		}
		if (err)
			return err;
		answer(m, m->ep ? m->ep->ctx : ctx, attr);
		err = speak(m);
	}
	if (!err)
		err = hear_result(m);
	if (err)
		return err;
	if (m->ep->ch.status)
		return m->ep->ch.status == -ENOTCONN ? -EPROTO : -ECONNRESET;
	end_former(m);
	m->ep->held = NULL;
	m->ep->is_up = true;
	return 0;
}

void meet_discard(struct copyrpc_ep *ep)
{
	ep->held = NULL;
	if (ep->ch.status == -ENOTCONN)
		ep_free(ep);
	else
		copyrpc_ep_destroy(ep);
}
