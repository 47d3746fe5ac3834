/* SPDX-License-Identifier: MIT */
/* Connecting endpoints over a stream socket: greetings and results. */
#include <assert.h>
#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copyrpc_tcp.h"
#include "internal.h"
#include "tcp.h"

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

static int put_all(int fd, const void *data, size_t len, uint64_t limit)
{
	const char *at = data;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		int err = 0;

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			err = wait_for(fd, POLLOUT, limit);
		} else if (errno != EINTR) {
			err = errno == EPIPE ? -ECONNRESET : -errno;
		}
		if (err)
			return err;
	}
	return 0;
}

static int get_all(int fd, void *data, size_t len, uint64_t limit)
{
	char *at = data;

	while (len) {
		int err = wait_for(fd, POLLIN, limit);
		ssize_t n = err ? 0 : recv(fd, at, len, MSG_DONTWAIT);

		if (err)
			return err;
		if (!n)
			return -ECONNRESET;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int put_greeting(const struct copyrpc_ep *ep, int fd, uint64_t limit)
{
	struct greeting g = {
		.version = htole16(GREETING_VERSION),
		.len = htole16(sizeof(g)),
		.owner = htole64(ep->owner),
	};

	memcpy(g.magic, greeting_magic, sizeof(g.magic));
	copyrpc_ep_info(ep, g.blob);
	return put_all(fd, &g, sizeof(g), limit);
}

/* Who speaks another version is told ours before we leave, by put_greeting(). */
static int get_greeting(int fd, struct greeting *g, uint64_t limit)
{
	static const uint8_t zero[8];
	size_t head = offsetof(struct greeting, zero);
	int err = get_all(fd, g, head, limit);

	if (err)
		return err;
	if (memcmp(g->magic, greeting_magic, sizeof(g->magic)))
		return -EPROTO;
	if (le16toh(g->version) != GREETING_VERSION)
		return -EPROTONOSUPPORT;
	if (le16toh(g->len) != sizeof(*g))
		return -EPROTO;
	err = get_all(fd, (char *)g + head, sizeof(*g) - head, limit);
	if (err)
		return err;
	if (memcmp(g->zero, zero, sizeof(g->zero)) || memcmp(g->zero2, zero, sizeof(g->zero2)))
		return -EPROTO;
	return 0;
}

/* Tells our result and gets the other one. */
static int exchange_results(int fd, int err, uint64_t limit)
{
	struct result mine = {.error = htole32((uint32_t)-err)}, theirs;
	static const uint8_t zero[4];
	int rc;

	memcpy(mine.magic, result_magic, sizeof(mine.magic));
	rc = put_all(fd, &mine, sizeof(mine), limit);
	if (err)
		return err;
	if (!rc)
		rc = get_all(fd, &theirs, sizeof(theirs), limit);
	if (rc)
		return rc;
	if (memcmp(theirs.magic, result_magic, sizeof(theirs.magic)) ||
		memcmp(theirs.zero, zero, sizeof(theirs.zero)))
		return -EPROTO;
	return theirs.error ? -ECONNREFUSED : 0;
}

/* The owner of the peer has left its former endpoint, which may have nothing to send and would
 * not find out. Owners are random, so nobody can name those of others. */
static void end_former(struct copyrpc_ep *ep)
{
	for (struct copyrpc_ep *old = ep->ctx->eps; old; old = old->next)
		if (old != ep && old->qp && old->peer_owner == ep->peer_owner)
			ep_fail(old, -ECONNRESET);
}

int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms)
{
	uint64_t limit = limit_of(timeout_ms);
	struct greeting g;
	int err;

	if (ep->ch.status != -ENOTCONN)
		return -EISCONN;
	if (!ep->owner && getrandom(&ep->owner, sizeof(ep->owner), 0) != sizeof(ep->owner))
		return -errno;
	err = put_greeting(ep, fd, limit);
	if (!err)
		err = get_greeting(fd, &g, limit);
	if (err)
		return err;
	if (!ep->name[0])
		peer_name(fd, ep->name, sizeof(ep->name));
	err = exchange_results(fd, copyrpc_ep_connect(ep, g.blob, sizeof(g.blob)), limit);
	if (err)
		return err;
	ep->peer_owner = le64toh(g.owner);
	if (ep->peer_owner)
		end_former(ep);
	return 0;
}

/* Nothing of an endpoint that was never connected can arrive any more. */
static void discard(struct copyrpc_ep *ep)
{
	if (ep->ch.status == -ENOTCONN)
		ep_free(ep);
	else
		copyrpc_ep_destroy(ep);
}

/* Creates an endpoint, connects it over the line, and closes the line. */
static int meet_anew(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, uint64_t owner,
	int fd, int timeout_ms, struct copyrpc_ep **ep_p)
{
	struct copyrpc_ep *ep;
	int err = copyrpc_ep_create(ctx, attr, &ep);

	if (!err) {
		ep->owner = owner;
		err = copyrpc_ep_meet(ep, fd, timeout_ms);
		if (err)
			discard(ep);
	}
	close(fd);
	if (!err)
		*ep_p = ep;
	return err;
}

/* What is left of a time for the rest of the work. */
static int rest_ms(uint64_t limit)
{
	uint64_t now;

	if (limit == UINT64_MAX)
		return -1;
	now = clock_ns();
	return now < limit ? (int)((limit - now) / NSEC_PER_MSEC) : 0;
}

int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p)
{
	uint64_t limit = limit_of(timeout_ms);
	int fd, err = copyrpc_tcp_accept(listener, timeout_ms, &fd);

	return err ? err : meet_anew(ctx, attr, 0, fd, rest_ms(limit), ep_p);
}

static int connect_as(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, uint64_t owner,
	const char *host, uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p)
{
	uint64_t limit = limit_of(timeout_ms);
	int fd, err = copyrpc_tcp_connect(host, port, timeout_ms, &fd);

	return err ? err : meet_anew(ctx, attr, owner, fd, rest_ms(limit), ep_p);
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
