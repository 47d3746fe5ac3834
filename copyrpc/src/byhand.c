/* SPDX-License-Identifier: MIT */
/*
 * Connecting an endpoint again over a channel of the program: docs/reconnect.md. A hello is the
 * message of copyrpc_ep_again_info(). Both sides begin attempts, which are numbered. For each
 * number a side makes one queue pair and one hello. Queue pairs are connected only if the two
 * hellos have the same number.
 */
#include <assert.h>
#include <endian.h>

#include "internal.h"

static const char magic[8] = {'C', 'P', 'R', 'P', 'C', 'A', 'G', 'N'};

struct hello {
	char magic[8];
	uint64_t from, to; /* numbers of both endpoints */
	uint64_t attempt;
	uint64_t received; /* end of the received batches, bytes */
	uint64_t connected; /* 1: the sender is connected by this attempt */
	uint8_t blob[COPYRPC_INFO_SIZE];
};
static_assert(sizeof(struct hello) == COPYRPC_AGAIN_SIZE, "no holes");

static int check(const struct copyrpc_ep *ep)
{
	if (ep->ch.status)
		return ep->ch.status;
	return ep->by_hand && ep->reconnect_ms ? 0 : -EOPNOTSUPP;
}

/* True if this side has a new queue pair, which is not connected yet. */
static bool is_offered(const struct copyrpc_ep *ep)
{
	return ep->ch.away && !ep->stopped;
}

/* Makes a queue pair for the next attempt. */
static int offer(struct copyrpc_ep *ep)
{
	int err;

	ctx_device_events(ep->ctx);
	err = check(ep);
	if (err)
		return err;
	if (ep->ctx->port_down)
		return -ENETDOWN;
	if (!ep_is_drained(ep))
		return -EAGAIN;
	err = ep_renew(ep);
	if (err)
		return err;
	ep->attempt++;
	if (ep->attempt < ep->wanted)
		ep->attempt = ep->wanted;
	ep->told = ep->ch.live.pos;
	return 0;
}

int copyrpc_ep_again_info(struct copyrpc_ep *ep, void *hello)
{
	struct hello h;
	int err = check(ep);

	if (!err && !ep->ch.away && !ep->attempt)
		err = -EISCONN;
	if (!err && ep->ch.away && !is_offered(ep))
		err = offer(ep);
	if (err)
		return err;
	h = (struct hello){.from = htole64(ep->owner),
		.to = htole64(ep->peer_owner),
		.attempt = htole64(ep->attempt),
		.received = htole64(ep->told * WIRE_BLOCK),
		.connected = htole64(!ep->ch.away)};
	memcpy(h.magic, magic, sizeof(magic));
	copyrpc_ep_info(ep, h.blob);
	memcpy(hello, &h, sizeof(h));
	return 0;
}

/* Connects this side, which has offered a queue pair for the same attempt as the hello. */
static int join(struct copyrpc_ep *ep, const struct hello *h)
{
	int err = ep_rejoin(ep, h->blob, sizeof(h->blob), le64toh(h->received));

	if (!err)
		ep_return(ep);
	else if (!ep->ch.status)
		ep_leave(ep, -ECONNRESET);
	return err;
}

int copyrpc_ep_again(struct copyrpc_ep *ep, const void *hello, size_t len)
{
	struct hello h;
	uint64_t attempt;
	int err = check(ep);

	if (err)
		return err;
	if (len != sizeof(h))
		return -EINVAL;
	memcpy(&h, hello, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)))
		return -EINVAL;
	if (le64toh(h.from) != ep->peer_owner || le64toh(h.to) != ep->owner)
		return -ENOENT;
	attempt = le64toh(h.attempt);
	if (attempt == ep->attempt && is_offered(ep))
		return join(ep, &h);
	if (attempt == ep->attempt && !ep->ch.away && h.connected)
		return 0;
	if (attempt <= ep->attempt)
		return -ESTALE;
	ep->wanted = attempt;
	ep_leave(ep, -ECONNRESET);
	return -EAGAIN;
}
