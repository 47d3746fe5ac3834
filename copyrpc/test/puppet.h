/* SPDX-License-Identifier: MIT */
/* A puppet is a client whose messages to a listener the test itself writes into a socket. So the
 * test decides when each is sent, and greetings and results can wait in the listener's backlog. */
#ifndef COPYRPC_TEST_PUPPET_H
#define COPYRPC_TEST_PUPPET_H

#include <endian.h>
#include <unistd.h>

#include "support/stranger.h"
#include "meet.h"
#include "pair.h"

struct puppet {
	int fd;
	struct copyrpc_ep *ep;
};

/* A valid greeting, with the endpoint's blob. */
static inline struct greeting greeting_of(const struct copyrpc_ep *ep, uint32_t flags,
	uint64_t owner, uint64_t node)
{
	struct greeting g = {.magic = "CPRPCTCP",
		.version = htole16(2),
		.len = htole16(sizeof(g)),
		.flags = htole32(flags),
		.owner = htole64(owner),
		.node = htole64(node)};

	copyrpc_ep_info(ep, g.blob);
	return g;
}

/* Creates the endpoint, and connects the socket. @ring_size: of the endpoint; 0: that of the
 * context. */
static inline void puppet_come(struct puppet *p, struct copyrpc_ctx *ctx, uint16_t port,
	uint32_t ring_size)
{
	const struct copyrpc_ep_attr attr = {.ring_size = ring_size};

	CHECK_EQ(copyrpc_ep_create(ctx, &attr, &p->ep), 0);
	p->fd = stranger_connect(port);
}

static inline void puppet_say(struct puppet *p, uint32_t flags, uint64_t owner)
{
	struct greeting g = greeting_of(p->ep, flags, owner, 1);

	stranger_say(p->fd, &g, sizeof(g));
}

static inline void puppet_greet(struct puppet *p, struct copyrpc_ctx *ctx, uint16_t port,
	uint32_t ring_size)
{
	puppet_come(p, ctx, port, ring_size);
	puppet_say(p, 0, 0);
}

static inline void puppet_result(const struct puppet *p)
{
	const struct result r = {.magic = "CPRPCRES"};

	stranger_say(p->fd, &r, sizeof(r));
}

/* Connects the client's endpoint. The server must have sent its greeting and result. */
static inline void puppet_connect(struct puppet *p)
{
	struct greeting g;
	struct result r;

	CHECK_EQ(recv(p->fd, &g, sizeof(g), MSG_DONTWAIT), sizeof(g));
	CHECK_EQ(recv(p->fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	CHECK_EQ(r.error, 0);
	CHECK_EQ(copyrpc_ep_connect(p->ep, g.blob, sizeof(g.blob)), 0);
}

static inline void puppet_close(struct puppet *p)
{
	close(p->fd);
	copyrpc_ep_destroy(p->ep);
}

#endif
