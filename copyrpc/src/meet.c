/* SPDX-License-Identifier: MIT */
#include "meet.h"

#include <endian.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/tcp.h"
#include "blob.h"

#define GREETING_VERSION 2
#define FLAG_SINGLE 1u
#define FLAG_RETURNS 2u /* the endpoint can be connected again */
#define FLAG_AGAIN 4u /* the endpoint is being connected again */

static const char greeting_magic[8] = {'C', 'P', 'R', 'P', 'C', 'T', 'C', 'P'};
static const char place_magic[8] = {'C', 'P', 'R', 'P', 'C', 'P', 'O', 'S'};
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

bool meet_is_open(const struct meeting *m)
{
	return m->ep && !m->again && m->greeted && !m->err && m->ep->reconnect_ms &&
	       !m->ep->ch.status && m->sent == m->out_len && m->result_got < sizeof(m->result);
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

/* Prepares our greeting. Without an endpoint the blob is zero, or contains only our version, if the
 * peer has another version. */
static void say_greeting(struct meeting *m, uint64_t node)
{
	struct greeting g = {.version = htole16(GREETING_VERSION),
		.len = htole16(sizeof(g)),
		.node = htole64(node)};
	uint32_t flags = m->single ? FLAG_SINGLE : 0;

	memcpy(g.magic, greeting_magic, sizeof(g.magic));
	if (m->ep) {
		g.owner = htole64(m->ep->owner);
		copyrpc_ep_info(m->ep, g.blob);
		flags |= m->ep->reconnect_ms ? FLAG_RETURNS : 0;
		flags |= m->again ? FLAG_AGAIN : 0;
	} else if (m->err == -EPROTONOSUPPORT) {
		blob_encode(&(struct blob){0}, g.blob);
	}
	g.flags = htole32(flags);
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

/* Returns the flags that a peer may set. If this side has dialed without reconnect_ms, the peer
 * must set neither FLAG_RETURNS nor FLAG_AGAIN. */
static uint32_t known_flags(const struct meeting *m)
{
	return m->ep && !m->ep->reconnect_ms ? FLAG_SINGLE :
					       FLAG_SINGLE | FLAG_RETURNS | FLAG_AGAIN;
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
	return le32toh(g->flags) & ~known_flags(m) || !g->node ? -EPROTO : 0;
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
	case EALREADY: /* the peer has seen a newer attempt */
	case EMFILE: /* no room now */
		return -ECONNRESET;
	default:
		return -ECONNREFUSED;
	}
}

/* Returns another endpoint that is the `single` connection with the peer's context, or NULL. The
 * context with the larger number decides which of the connections stays. */
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

/* True if this side must refuse the connection, because there is another one. If the other
 * connection is up, it is probed, because the peer may have destroyed its endpoint before it dialed
 * again. If the other connection was lost in its meeting, it fails after probe_ms, because a peer that
 * still had its endpoint would have returned by then. */
static bool is_second(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *other = decides(m, ctx) ? other_single(m, ctx) : NULL;

	if (!other)
		return false;
	if (other->parked && !other->is_up &&
		ctx->clock() - other->away_since >= ctx->attr.probe_ms * NSEC_PER_MSEC) {
		ep_break(other, -ECONNRESET);
		return is_second(m, ctx);
	}
	if (other->is_up) {
		other->ch.probe = true;
		ep_dirty(other);
	}
	return true;
}

/*
 * Ends the endpoints of earlier attempts of the same dial that are not up: the peer has not
 * completed these attempts, because it dials anew. Returns -EALREADY if there is an endpoint of a
 * later attempt, whose greeting was read before this one.
 */
static int end_unmet(const struct meeting *m, struct copyrpc_ctx *ctx)
{
	uint64_t owner = le64toh(m->greeting.owner);

	for (struct copyrpc_ep *old = ctx->eps; owner && old; old = old->next) {
		if (!old->qp || !old->came || old->peer_owner != owner)
			continue;
		if (old->came > m->came)
			return -EALREADY;
		if (!old->is_up && old->reconnect_ms)
			ep_break(old, -ECONNRESET);
	}
	return 0;
}

/* Returns the time within which the endpoint must return; 0 if it does not return. */
static uint64_t reconnect_ms(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	return le32toh(m->greeting.flags) & FLAG_RETURNS ? ctx->attr.reconnect_ms : 0;
}

/* Creates the endpoint of a side that accepts, after a valid greeting, and prepares our
 * greeting. */
static int create_ep(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	struct blob blob;
	int err = ctx_read_blob(ctx, &blob, m->greeting.blob, sizeof(m->greeting.blob));

	if (!err)
		err = ctx_set_node(ctx);
	if (!err)
		err = end_unmet(m, ctx);
	m->single = le32toh(m->greeting.flags) & FLAG_SINGLE && meet_node(m) != ctx->node;
	if (!err && is_second(m, ctx))
		err = -EISCONN;
	if (!err)
		err = copyrpc_ep_create(ctx, attr, &m->ep);
	if (!err) {
		m->ep->held = &m->ep;
		m->ep->came = m->came;
		m->ep->reconnect_ms = reconnect_ms(m, ctx);
		err = draw(&m->ep->owner);
	}
	m->err = err;
	say_greeting(m, ctx->node);
	return err;
}

static int connect_ep(struct meeting *m)
{
	struct copyrpc_ep *ep = m->ep;
	int err;

	if (ep->reconnect_ms)
		ep->reconnect_ms = reconnect_ms(m, ep->ctx);

	if (!ep->name[0]) {
		tcp_peer(m->fd, ep->name, sizeof(ep->name));
		live_rename(ep->live, ep->name);
	}
	ep->peer_owner = le64toh(m->greeting.owner);
	err = copyrpc_ep_connect(ep, m->greeting.blob, sizeof(m->greeting.blob));
	if (!err && m->single)
		ep->single = meet_node(m);
	return err;
}

/* True if this side has dialed, and the other side has created no endpoint. The result contains the
 * reason. */
static bool is_refusal(const struct meeting *m)
{
	static const uint8_t none[COPYRPC_INFO_SIZE];

	return m->ep && !memcmp(m->greeting.blob, none, sizeof(none));
}

/* Accepts or refuses the peer's greeting, and prepares the answer. */
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

/* ------------------------------------------------------------------ again */

static void say_place(struct meeting *m, uint64_t attempt)
{
	struct place p = {.whom = htole64(m->ep->peer_owner),
		.attempt = htole64(attempt),
		.received = htole64(m->ep->ch.live.pos * WIRE_BLOCK)};

	memcpy(p.magic, place_magic, sizeof(p.magic));
	say(m, &p, sizeof(p));
}

int meet_begin_again(struct meeting *m, struct copyrpc_ep *ep)
{
	int err = ep_renew(ep);

	if (err)
		return err;
	ep->attempt++;
	m->ep = ep;
	ep->held = &m->ep;
	m->again = true;
	m->events = POLLIN;
	say_greeting(m, ep->ctx->node);
	say_place(m, m->ep->attempt);
	return 0;
}

void meet_begin_asking(struct meeting *m, struct copyrpc_ep *ep)
{
	m->ep = ep;
	m->again = true;
	m->events = POLLIN;
	say_greeting(m, ep->ctx->node);
	say_place(m, 0);
}

static int hear_place(struct meeting *m)
{
	int err = tcp_read(m->fd, &m->place, sizeof(m->place), &m->place_got);

	return !err && memcmp(m->place.magic, place_magic, sizeof(place_magic)) ? -EPROTO : err;
}

/* Returns the endpoint that the peer wants to connect again, or NULL if the peer has no such
 * endpoint here. Only an endpoint that was accepted qualifies: for others the side that has dialed,
 * or the program, begins the attempts. */
static struct copyrpc_ep *find(const struct meeting *m, const struct copyrpc_ctx *ctx)
{
	uint64_t whom = le64toh(m->place.whom), owner = le64toh(m->greeting.owner);
	struct copyrpc_ep *ep = ctx->eps;

	while (ep && (!ep->qp || ep->ch.status || !ep->reconnect_ms || !ep->came ||
			     ep->owner != whom || ep->peer_owner != owner))
		ep = ep->next;
	return ep;
}

/* True if the first meeting of the endpoint is in progress. The peer has lost the TCP connection,
 * so this side shuts it down, too. The meeting then fails, unless the peer's result has already
 * arrived. */
static bool ends_first(const struct copyrpc_ep *ep)
{
	const struct meeting *m = ep->held ? container_of(ep->held, struct meeting, ep) : NULL;

	if (!m || m->again)
		return false;
	shutdown(m->fd, SHUT_RDWR);
	return true;
}

/* Begins the attempt of the other side to connect an endpoint again, and gives up an older attempt
 * in progress. Returns -EAGAIN if the first meeting has not ended here. */
static int take_up(struct meeting *m, const struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep = find(m, ctx);

	m->waits = ep && ends_first(ep);
	if (m->waits)
		return -EAGAIN;
	m->again = true;
	if (!ep)
		return -ENOENT;
	if (le64toh(m->place.attempt) <= ep->attempt)
		return -EALREADY;
	ep->attempt = le64toh(m->place.attempt);
	if (ep->held)
		*ep->held = NULL;
	ep_leave(ep, -ECONNRESET);
	m->ep = ep;
	m->single = ep->single;
	ep->held = &m->ep;
	m->waits = true;
	return 0;
}

/* Connects the new queue pair, and prepares the result. If this side cannot connect now, for
 * example because its port has no address, the other side tries again. */
static void say_rejoined(struct meeting *m)
{
	int err = ep_rejoin(m->ep, m->greeting.blob, sizeof(m->greeting.blob),
		le64toh(m->place.received));

	m->ep->again_error = err;
	say_result(m, err && err != -EPROTO ? -EMFILE : err);
}

/* Refuses, or connects a new queue pair when the old one is drained. */
static int answer_again(struct meeting *m, struct copyrpc_ctx *ctx)
{
	int err = ctx_set_node(ctx); /* a process that was restarted may have none yet */

	if (err)
		return err;
	if (!m->ep)
		err = take_up(m, ctx);
	m->events = 0;
	if (err == -EAGAIN)
		return err;
	ctx_device_events(ctx);
	if (!err && m->ep->ch.status)
		err = -ENOENT;
	if (!err && (ctx->port_down || !ep_is_drained(m->ep)))
		return -EAGAIN;
	m->waits = false;
	m->greeted = true;
	if (!err)
		err = ep_renew(m->ep) ? -EMFILE : 0;
	if (err) {
		meet_drop(m);
		say_greeting(m, ctx->node);
		say_result(m, err);
		return 0;
	}
	say_greeting(m, ctx->node);
	say_place(m, m->ep->attempt);
	say_rejoined(m);
	return 0;
}

/* Handles the greeting of a peer that connects an endpoint again. Returns 0 if the struct place
 * that follows has arrived, too (a refusal has none), and this side's answer is prepared. */
static int reply_again(struct meeting *m, struct copyrpc_ctx *ctx)
{
	int err;

	if (m->ep && !m->again) /* this side did not send FLAG_AGAIN */
		return -EPROTO;
	if (is_refusal(m)) {
		m->greeted = true;
		return 0;
	}
	err = hear_place(m);
	if (err)
		return err;
	if (!m->ep || m->waits)
		return answer_again(m, ctx);
	m->greeted = true;
	if (!m->ep->ch.away) /* this side has only asked (meet_begin_asking()) */
		return -EPROTO;
	if (le64toh(m->place.attempt) != m->ep->attempt || le64toh(m->place.whom) != m->ep->owner)
		return -EPROTO;
	say_rejoined(m);
	return 0;
}

/* Fails the former endpoint with the same owner number and, if the peer decides about single
 * connections, the former single endpoint. The peer has destroyed its endpoint, but this side may
 * have nothing to send and would not detect that. The numbers are random, so a peer cannot guess
 * another's number. */
static void end_former(const struct meeting *m)
{
	struct copyrpc_ctx *ctx = m->ep->ctx;
	uint64_t owner = le64toh(m->greeting.owner);
	struct copyrpc_ep *other;

	for (struct copyrpc_ep *old = ctx->eps; owner && old; old = old->next)
		if (old != m->ep && old->qp && old->peer_owner == owner)
			ep_break(old, -ECONNRESET);
	while (m->single && !decides(m, ctx) && (other = other_single(m, ctx)))
		ep_break(other, -ECONNRESET);
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

/* Handles the peer's greeting, and prepares the answer. */
static int greet(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	int err = hear_greeting(m);

	if (err == -EPROTONOSUPPORT)
		ctx_note_version(m->ep ? m->ep->ctx : ctx, "greeting", &m->greeting,
			GREETING_VERSION);
	if (!err && !m->ep) {
		ctx_device_events(ctx);
		m->waits = ctx->port_down;
		m->events = m->waits ? 0 : POLLIN;
		if (m->waits)
			return -EAGAIN;
	}
	if (err == -EPROTONOSUPPORT && !m->ep) {
		m->err = err;
		say_greeting(m, 0);
	} else if (!err && (m->again || le32toh(m->greeting.flags) & FLAG_AGAIN)) {
		err = reply_again(m, m->ep ? m->ep->ctx : ctx);
	} else if (!err) {
		answer(m, m->ep ? m->ep->ctx : ctx, attr);
	}
	return err;
}

void meet_up(struct meeting *m)
{
	if (!m->ep->is_up)
		end_former(m);
	m->ep->is_up = true;
}

/* Called when both sides have reported that they are connected. */
static int complete(struct meeting *m)
{
	struct copyrpc_ep *ep = m->ep;

	if (ep->ch.status || (m->again && ep->stopped))
		return -ECONNRESET;
	meet_up(m);
	if (m->again)
		ep_return(ep);
	ep->held = NULL;
	return 0;
}

int meet_step(struct meeting *m, struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr)
{
	int err;

	/* The peer's first request can arrive before its result, and the program can then destroy
	 * the endpoint. */
	if ((m->greeted || m->again) && !m->ep && !m->err)
		return -ECANCELED;
	err = speak(m);
	if (!err && !m->greeted) {
		err = greet(m, ctx, attr);
		if (err == -EPROTONOSUPPORT && m->err)
			return speak(m);
		if (err)
			return err;
		err = speak(m);
	}
	if (!err)
		err = hear_result(m);
	if (!err && is_refusal(m)) /* without a reason */
		err = -EPROTO;
	return err ? err : complete(m);
}

void meet_drop(struct meeting *m)
{
	struct copyrpc_ep *ep = m->ep;

	m->ep = NULL;
	if (!ep)
		return;
	if (!m->again) {
		meet_discard(ep);
		return;
	}
	ep->held = NULL;
	if (!ep->ch.status)
		ep_leave(ep, -ECONNRESET);
}

void meet_discard(struct copyrpc_ep *ep)
{
	if (ep->ch.status == -ENOTCONN)
		ep_free(ep);
	else
		copyrpc_ep_destroy(ep);
}
