/* SPDX-License-Identifier: MIT */
/* Addresses of ports are deleted and added, on RoCE, with an adapter for each node. */
#include "back.h"

/* The library prefers IPv4, which is at index 1. */
static void set_address(int side, unsigned index, const char *address)
{
	CHECK_EQ(HCA(softhca_gid_set)(devices[side], index, address), 0);
}

/* Time passes within a poll, too. */
static uint64_t moving_clock(void)
{
	return now += NSEC_PER_USEC;
}

static void open_up(struct node n[2])
{
	devices[0] = "mlx5_0";
	devices[1] = "mlx5_1";
	open_nodes(n, &returning);
	n[0].ctx->clock = n[1].ctx->clock = moving_clock;
	up(n);
	calls(n, 10);
}

/* The endpoint gives up its connection as soon as the change is known, and returns with the other
 * address. */
static void replaced(int side, bool traffic)
{
	NODES n[2];

	open_up(n);
	for (uint32_t i = 1; i <= 3; i++) {
		uint8_t last = replace_address(devices[side]);

		calls(n, traffic ? 20 : 0);
		UNTIL(n[0].backs >= i && n[1].backs >= i);
		CHECK(!memcmp(n[!side].ep->peer.gid, n[side].ep->own.gid, 16));
		CHECK_EQ(n[side].ep->own.gid[15], last);
	}
	calls(n, 20);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(of_the_dialing_side, replaced, 0, true);
TEST_WITH(of_the_listening_side, replaced, 1, true);
TEST_WITH(of_the_idle_dialing_side, replaced, 0, false);
TEST_WITH(of_the_idle_listening_side, replaced, 1, false);

/* Without any address the endpoint does not return, and its description contains the reason. */
static void none_left(int side)
{
	const char *says = side ? "last attempt: " : "Invalid argument";
	NODES n[2];

	open_up(n);
	set_address(side, 1, NULL);
	UNTIL(n[side].downs);
	set_address(side, 0, NULL);
	n[0].most += 5;
	n[1].most += 5;
	UNTIL(described(n[0].ep, says));
	turns(n, 3000);
	CHECK_EQ(n[0].backs, n[1].backs);
	CHECK(n[0].ep->ch.away && n[1].ep->ch.away);
	set_address(side, 1, side ? "192.0.2.200" : "192.0.2.201");
	UNTIL(!n[0].ep->ch.away && !n[1].ep->ch.away && idle(&n[0]) && idle(&n[1]));
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(none_of_the_dialing_side, none_left, 0);
TEST_WITH(none_of_the_listening_side, none_left, 1);

/* An address that no endpoint uses is replaced: no connection is lost. */
TEST(another_address)
{
	NODES n[2];

	open_up(n);
	set_address(0, 0, "2001:db8::1");
	now += NSEC_PER_SEC;
	calls(n, 50);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
}
