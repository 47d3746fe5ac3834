/* SPDX-License-Identifier: MIT */
/* The gateway of the examples destroys the endpoint of each peer that has ended. */
#include "../../examples/gateway.h"
#include "internal.h"
#include "support/test.h"

struct rig {
	struct gateway g;
	struct copyrpc_ctx *client;
};

/* Connects a client; the gateway has not taken the event UP yet. */
static void open_rig(struct rig *r)
{
	struct copyrpc_event ev;
	bool up = false;

	memset(r, 0, sizeof(*r));
	CHECK_EQ(copyrpc_ctx_create(NULL, &r->g.ctx), 0);
	CHECK_EQ(copyrpc_ctx_create(NULL, &r->client), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &r->g.listener), 0);
	CHECK_EQ(copyrpc_listen(r->g.ctx, NULL, r->g.listener, 0), 0);
	CHECK_EQ(copyrpc_dial(r->client, NULL, "127.0.0.1",
			 (uint16_t)copyrpc_tcp_port(r->g.listener), -1, 0),
		0);
	while (!up || !r->g.ctx->news.head) {
		copyrpc_poll(r->client, NULL, NULL);
		copyrpc_poll(r->g.ctx, on_end, NULL);
		up |= copyrpc_event_recv(r->client, &ev, sizeof(ev));
	}
}

static void close_rig(struct rig *r)
{
	copyrpc_poll(r->g.ctx, on_end, NULL); /* frees the endpoints that were destroyed */
	CHECK(!r->g.ctx->eps);
	copyrpc_ctx_destroy(r->client);
	copyrpc_ctx_destroy(r->g.ctx);
	close(r->g.listener);
}

/*
 * @greeted: the gateway has taken the event UP before the endpoint fails. @polls: the gateway's
 * context is polled after the failure; this ends the call with which the gateway watches the peer.
 */
static void gone(bool greeted, bool polls)
{
	AT_END(close_rig) struct rig r;

	open_rig(&r);
	if (greeted)
		greet_peers(&r.g);
	ep_fail(r.g.ctx->eps, -ECONNRESET);
	if (polls)
		copyrpc_poll(r.g.ctx, on_end, NULL);
	greet_peers(&r.g);
}

TEST_WITH(gone_before_its_event, gone, false, false);
TEST_WITH(gone_between_two_events, gone, true, false);
TEST_WITH(gone_in_a_poll, gone, true, true);
