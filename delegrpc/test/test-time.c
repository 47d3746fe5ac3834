/* SPDX-License-Identifier: MIT */
/* The times that delegrpc's manual promises, with a clock that only the test advances. */
#include "raw.h"
#include "rpc.h"

#define DEATH_NS (120 * NSEC_PER_MSEC)
#include "support/rpctime.h"

/*
 * A server that always finds work yields its core every 150 us if a client waits, and reads the
 * clock at intervals.
 */
TEST(busy_server_yields)
{
	SERVER *s = server_new(4);
	CLIENT *c = client_new();
	uint64_t yields, looks, ns;
	RAW *raw = raw_open(test_name);

	for (uint32_t waits = 0; waits < 2; waits++) {
		yields = fake.yields;
		looks = fake.looks;
		for (uint32_t k = 0; k < 150000; k++) {
			raw->lines[0].state = waits ? DELEGRPC_WAITING : DELEGRPC_RUNNING;
			call(c, 1);
			delegrpc_client_flush(c);
			fake.ns += 100;
			CHECK_EQ(serve(s), 1);
			CHECK_EQ(poll_client(c), 1);
		}
		/* The loop has taken 15 ms of the test's clock. */
		ns = 15 * NSEC_PER_MSEC;
		yields = fake.yields - yields;
		CHECK(waits ? yields >= ns / (300 * NSEC_PER_USEC) : !yields);
		CHECK(yields <= ns / (150 * NSEC_PER_USEC) + 1);
		CHECK(fake.looks - looks <= ns / (75 * NSEC_PER_USEC) + 20);
	}
	CHECK_EQ(server_stats_of(s).yields, yields);
}
