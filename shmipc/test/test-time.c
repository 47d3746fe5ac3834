/* SPDX-License-Identifier: MIT */
/* The times that shmipc's manual promises, with a clock that only the test advances. */
#include "rpc.h"

#define DEATH_NS (30 * NSEC_PER_MSEC)
#include "support/rpctime.h"

/*
 * A server that always finds work yields its core about every 150 us while a client waits. It reads
 * the clock once per 2048 requests and polls.
 */
TEST(busy_server_yields)
{
	SERVER *s = server_new(8);
	CLIENT *c = client_new();
	uint64_t ns = 15 * NSEC_PER_MSEC, yields, end;

	for (uint32_t waits = 0; waits < 2; waits++) {
		yields = fake.yields;
		for (end = fake.ns + ns; fake.ns < end; fake.ns += 30) {
			call(c, 1);
			for (uint32_t i = 0; waits && i < 3 * SHMIPC_IDLE_POLLS; i++)
				CHECK_EQ(poll_client(c), 0);
			CHECK_EQ(serve(s), 1);
			shmipc_server_flush(s);
			CHECK_EQ(poll_client(c), 1);
		}
		yields = fake.yields - yields;
		CHECK(waits ? yields >= ns / (250 * NSEC_PER_USEC) : !yields);
		CHECK(yields <= ns / (150 * NSEC_PER_USEC) + 1);
	}
	CHECK_EQ(server_stats_of(s).yields, yields);
}

/* If the server does not clean a place that a client left, connect waits for one second. */
TEST(connect_waits_a_second)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	uint64_t start = fake.ns;

	shmipc_client_disconnect(c);
	fake.step_ns = 5 * NSEC_PER_MSEC;
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -EAGAIN);
	fake.step_ns = 0;
	CHECK(fake.ns - start >= NSEC_PER_SEC && fake.ns - start < NSEC_PER_SEC * 11 / 10);
	CHECK_EQ(shmipc_server_poll(s), 0);
	c = client_new();
}
