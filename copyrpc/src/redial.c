/* SPDX-License-Identifier: MIT */
#include "redial.h"

#include <netdb.h>
#include <stdlib.h>

#include "copyrpc_tcp.h"
#include "meet.h"

#define PAUSE_NS (TCP_AGAIN_MS * NSEC_PER_MSEC)
#define MEETING_NS (5 * NSEC_PER_SEC) /* the longest time of an exchange over TCP (meet.h) */
/* A peer whose HCA does not answer a probe is asked over TCP whether it has the endpoint: after this
 * time, and again after a pause. */
#define ASK_NS (2 * PROBE_NS)
#define ASK_PAUSE_NS NSEC_PER_SEC

enum redial_state {
	CONNECTED, /* or the endpoint waits for its next attempt */
	CONNECTING, /* the socket is not connected yet */
	MEETING,
};

struct redial {
	struct watch w;
	struct meeting m;
	struct copyrpc_ep *ep; /* NULL: destroyed */
	enum redial_state state;
	struct addrinfo *addresses, *at;
	uint64_t part; /* end of the time for this address, or for the meeting */
	uint64_t again_at; /* time before which no attempt is made */
	bool asks; /* the endpoint is connected; the attempt only asks whether the peer has it */
};

/* Ends the attempt. The next one starts after a pause. */
static void pause_redial(struct lobby *y, struct redial *r, uint64_t now)
{
	lobby_close(y, &r->w);
	if (r->asks) {
		r->m.ep = NULL;
		r->ep->again_error = 0;
	}
	meet_drop(&r->m);
	r->state = CONNECTED;
	r->at = r->addresses;
	r->again_at = now + (r->asks && !r->ep->ch.away ? ASK_PAUSE_NS : PAUSE_NS);
	r->asks = false;
	y->side.due = 0;
}

/* Tries the addresses from r->at on. */
static void attempt(struct lobby *y, struct redial *r, uint64_t now)
{
	int fd;

	for (; r->at; r->at = r->at->ai_next) {
		r->ep->again_error = tcp_connect_begin(r->at, &fd);
		if (r->ep->again_error)
			continue;
		r->m = (struct meeting){.fd = fd};
		r->w.fd = fd;
		r->part = tcp_connect_limit(r->at, now, now + MEETING_NS);
		r->state = CONNECTING;
		if (!lobby_watch(y, &r->w, POLLOUT))
			return;
		lobby_close(y, &r->w);
	}
	pause_redial(y, r, now);
}

static void next_address(struct lobby *y, struct redial *r, uint64_t now)
{
	lobby_close(y, &r->w);
	r->at = r->at->ai_next;
	attempt(y, r, now);
}

/* Called when the TCP connection is open: sends to the peer the new queue pair and how far this end
 * has received, or only asks whether the peer has the endpoint. */
static int begin(struct redial *r, uint64_t now)
{
	int err = 0;

	if (r->asks)
		meet_begin_asking(&r->m, r->ep);
	else
		err = meet_begin_again(&r->m, r->ep);
	if (err)
		return err;
	r->state = MEETING;
	r->part = now + MEETING_NS;
	return 0;
}

static void redial_ready(struct lobby *y, struct watch *w, uint64_t now)
{
	struct redial *r = container_of(w, struct redial, w);
	int err = 0;

	if (!r->ep || r->ep->ch.status)
		return; /* tick() frees the redial */
	if (r->state == CONNECTING) {
		r->ep->again_error = tcp_connect_end(w->fd);
		if (r->ep->again_error) {
			next_address(y, r, now);
			return;
		}
		err = begin(r, now);
	}
	if (!err)
		err = meet_step(&r->m, NULL, NULL);
	if (err == -EAGAIN)
		err = lobby_watch(y, w, r->m.events) ? -ENOMEM : -EAGAIN;
	if (err == -EAGAIN)
		return;
	if (!err) {
		lobby_close(y, &r->w);
		r->m.ep = NULL;
		r->state = CONNECTED;
		return;
	}
	if (!r->ep->again_error)
		r->ep->again_error = err;
	pause_redial(y, r, now);
	/* The peer does not have this endpoint any more, or has another version. */
	if (err == -ECONNREFUSED || err == -EPROTONOSUPPORT)
		ep_break(r->ep, -ECONNRESET);
}

static void redial_close(struct lobby *y, struct watch *w)
{
	struct redial *r = container_of(w, struct redial, w);

	if (r->ep)
		r->ep->redial = NULL;
	if (r->m.ep && !r->asks)
		r->m.ep->held = NULL;
	lobby_close(y, &r->w);
	lobby_leave(y, w);
	freeaddrinfo(r->addresses);
	free(r);
}

/* True if the peer's HCA does not answer. Its process may have been killed, and another one may
 * listen. */
static bool is_silent(const struct redial *r, uint64_t now)
{
	return r->ep->asked && now - r->ep->asked >= ASK_NS;
}

static uint64_t redial_tick(struct lobby *y, struct watch *w, uint64_t now)
{
	struct redial *r = container_of(w, struct redial, w);
	uint64_t due;

	if (!r->ep || r->ep->ch.status) {
		redial_close(y, w);
		return NEVER;
	}
	if (r->asks && r->ep->ch.away)
		pause_redial(y, r, now);
	if (!r->ep->ch.away && r->state == CONNECTED && !is_silent(r, now))
		return NEVER;
	due = r->state == CONNECTED ? r->again_at : r->part;
	if (now < due)
		return due;
	if (!lobby_may_act(y, w))
		return now;
	if (r->state == CONNECTING) {
		r->ep->again_error = -ETIMEDOUT;
		next_address(y, r, now);
		return now + NSEC_PER_MSEC;
	}
	if (r->state == MEETING) {
		pause_redial(y, r, now);
		return r->again_at;
	}
	if (!r->ep->ch.away) {
		r->asks = true;
		attempt(y, r, now);
		return now + NSEC_PER_MSEC;
	}
	ctx_device_events(y->ctx);
	if (y->ctx->port_down) {
		r->ep->again_error = -ENETDOWN;
		return NEVER; /* until the device's event */
	}
	if (!r->ep->ch.status && ep_is_drained(r->ep))
		attempt(y, r, now);
	return now + NSEC_PER_MSEC;
}

static const struct watch_ops redial_ops = {redial_ready, redial_tick, redial_close};

int copyrpc_redial(struct copyrpc_ep *ep, const char *host, uint16_t port)
{
	struct addrinfo *addresses;
	struct redial *r;
	struct lobby *y;

	if (ep->ch.status)
		return ep->ch.status;
	if (!ep->redial)
		return -EOPNOTSUPP;
	addresses = tcp_resolve(host, port);
	if (!addresses)
		return -EADDRNOTAVAIL;
	r = container_of(ep->redial, struct redial, ep);
	y = container_of(ep->ctx->side, struct lobby, side);
	freeaddrinfo(r->addresses);
	r->addresses = r->at = addresses;
	if (r->state != MEETING) /* else the new addresses are used if the meeting fails */
		pause_redial(y, r, ep->ctx->clock());
	return 0;
}

int redial_start(struct lobby *y, struct copyrpc_ep *ep, struct addrinfo *addresses)
{
	struct redial *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->w = (struct watch){.ops = &redial_ops, .fd = -1};
	r->ep = ep;
	r->addresses = r->at = addresses;
	ep->redial = &r->ep;
	lobby_enter(y, &r->w);
	if (ep->ch.unwatched)
		ep_watch(ep, NOT_SEEN);
	return 0;
}
