/* SPDX-License-Identifier: MIT */
/*
 * Clients and a server of delegrpc as threads, with rings that can be full and rings that cannot.
 *
 *	test-delegrpc-threads [TIMES]	multiplies the number of calls
 */
#include "rpc.h"
#include "support/rpcthreads.h"

static uint32_t times = 1;

static struct delegrpc_attr threads_attr(const struct shape *sh)
{
	return (struct delegrpc_attr){.max_clients = sh->places,
		.ring_depth = sh->ring,
		.resp_depth = sh->depth,
		.req_size = WORDS * 8,
		.resp_size = WORDS * 8};
}

static void check_stats(struct delegrpc_server *s, const struct shape *sh, uint64_t served)
{
	struct delegrpc_server_stats st = server_stats_of(s);

	CHECK_EQ(st.requests, served);
	CHECK_EQ(st.replies, served);
	CHECK_EQ(st.bad_requests, 0);
	CHECK_EQ(st.holes, 0);
}

TEST_WITH(ample_ring, run, &(struct shape){4, 4, 0, 32, 20000 * times, 1, false});
TEST_WITH(tight_ring, run, &(struct shape){3, 3, 32, 32, 20000 * times, 1, false});
TEST_WITH(one_call_in_flight, run, &(struct shape){2, 2, 0, 1, 5000 * times, 1, false});

TEST(clients_come_and_go)
{
	run(&(struct shape){4, 4, 0, 8, 100, 60 * times, false});
	run(&(struct shape){3, 3, 32, 16, 100, 60 * times, false});
}

TEST(sleeping)
{
	run(&(struct shape){4, 4, 0, 4, 3000 * times, 2, true});
	run(&(struct shape){3, 3, 32, 32, 6000 * times, 2, true});
}

int main(int argc, char **argv)
{
	if (argc > 1)
		times = (uint32_t)strtoul(argv[1], NULL, 10);
	CHECK(times > 0);
	threads_begin();
	return test_main(1, argv);
}
