/* SPDX-License-Identifier: MIT */
/* A cable is unplugged while TCP works: nothing is connected until the port is active again. */
#include "back.h"
#include "meet.h"

static void plug(int side, bool up)
{
	CHECK_EQ(HCA(softhca_link_set)(devices[side], up), 0);
}

static void open_two(struct node n[2])
{
	devices[0] = "mlx5_0";
	devices[1] = "mlx5_1";
	open_contexts(n, &returning, false);
}

/*
 * However long the cable is unplugged, each side loses its connection at most once. When the cable
 * is plugged in again, both sides are connected again.
 */
static void pulled(int side, uint32_t count)
{
	NODES n[2];

	open_two(n);
	dial_node(n);
	up(n);
	calls(n, 10);
	plug(side, false);
	n[0].most += count;
	n[1].most += count;
	UNTIL(n[0].downs);
	turns(n, 20000);
	/* An idle listening side may not have noticed the loss. */
	CHECK(n[0].downs == 1 && n[1].downs <= 1);
	CHECK_EQ(n[0].backs + n[1].backs, 0);
	CHECK(side || described(n[0].ep, "last attempt: Network is down"));
	plug(side, true);
	UNTIL(n[0].backs && n[1].backs && idle(&n[0]) && idle(&n[1]));
	turns(n, 1000);
	UNTIL(n[0].backs == n[0].downs && n[1].backs == n[1].downs);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(of_the_dialing_side, pulled, 0, 20);
TEST_WITH(of_the_listening_side, pulled, 1, 20);
TEST_WITH(of_the_idle_dialing_side, pulled, 0, 0);
TEST_WITH(of_the_idle_listening_side, pulled, 1, 0);

/*
 * A side that has lost its connection and whose cable is unplugged needs a poll only every 0.1 s
 * until the device's event. Two intervals may be shorter: before the loss, this side may have begun
 * to ask over TCP whether the peer still has the endpoint (redial.c). Then one poll is due when the
 * attempt to ask ends, and another one when the pause after it ends.
 */
TEST(no_busy_loop)
{
	NODES n[2];
	uint32_t made;

	open_two(n);
	dial_node(n);
	up(n);
	plug(0, false);
	UNTIL(n[0].downs);
	turn(&n[0]);
	made = n[0].ctx->set_ups;
	for (int i = 0; i < 100; i++) {
		CHECK(copyrpc_ctx_timeout(n[0].ctx) > 0);
		now += (uint64_t)copyrpc_ctx_timeout(n[0].ctx) * NSEC_PER_MSEC;
		copyrpc_poll(n[0].ctx, on_response, &n[0]);
	}
	CHECK(now - n[0].ctx->eps->away_since >= 97 * PROBE_NS);
	CHECK_EQ(n[0].ctx->set_ups, made);
	plug(0, true);
	UNTIL(n[0].backs && n[1].backs);
}

/* A dial waits until the ports of both sides are active. */
static void first(int side)
{
	NODES n[2];

	open_two(n);
	plug(side, false);
	dial_node(n);
	turns(n, 1000);
	CHECK(!n[0].ep && !n[1].ep);
	plug(side, true);
	up(n);
	calls(n, 10);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
}

TEST_WITH(first_dial, first, 0);
TEST_WITH(first_of_the_listener, first, 1);
