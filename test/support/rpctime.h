/* SPDX-License-Identifier: MIT */
/*
 * Tests the times that the manuals of delegrpc and shmipc promise, with a clock that only the test
 * advances. A program defines DEATH_NS, the time within which a client that polls often notices
 * that its server was killed.
 */
#ifndef SUPPORT_RPCTIME_H
#define SUPPORT_RPCTIME_H

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "support/fakeclock.h"
#include "support/rpcsolo.h"
#include "support/spawn.h"

static void serve_in_child(void)
{
	server_new(4);
}

/* Polls every @apart_ns until the client notices the server's death. Returns the time passed. */
static uint64_t death_seen_after(struct rpc_client *c, uint64_t apart_ns)
{
	uint64_t start = fake.ns;
	int n;

	do {
		fake.ns += apart_ns;
		n = poll_client(c);
		CHECK(fake.ns - start <= 60 * NSEC_PER_SEC);
	} while (n == 0);
	CHECK_EQ(n, -EPIPE);
	return fake.ns - start;
}

/* Like death_seen_after(), for a client that polled every @before_ns before the server's death. */
static uint64_t death_seen(uint64_t before_ns, uint64_t after_ns)
{
	pid_t pid = spawn(serve_in_child);
	struct rpc_client *c = client_new();
	uint64_t ns;

	call(c, 1);
	for (uint32_t k = 0; k < 1000; k++) {
		CHECK_EQ(poll_client(c), 0);
		fake.ns += before_ns;
	}
	test_kill(pid);
	ns = death_seen_after(c, after_ns);
	RPC(client_disconnect)(c);
	return ns;
}

/* A client notices the server's death within a second, however often it polls before and after. */
TEST(death_is_seen_in_time)
{
	static const uint64_t apart[] = {50, 20 * NSEC_PER_USEC, NSEC_PER_MSEC, 20 * NSEC_PER_MSEC,
		50 * NSEC_PER_MSEC};

	for (size_t i = 0; i < ARRAY_SIZE(apart); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(apart); k++)
			CHECK(death_seen(apart[i], apart[k]) < NSEC_PER_SEC);
		CHECK(death_seen(apart[i], apart[i]) <= DEATH_NS + apart[i]);
	}
	CHECK(death_seen(NSEC_PER_SEC, NSEC_PER_SEC) <= NSEC_PER_SEC);
}

/* A client also notices within a second that its server ended right after a response. */
TEST(death_behind_a_response_is_seen_in_time)
{
	struct rpc_server *s = server_new(4);
	CLIENT *c = client_new();

	for (uint32_t k = 0; k < 100; k++) {
		call(c, k);
		CHECK_EQ(poll_client(c), 0);
		CHECK_EQ(serve(s), 1);
		fake.ns += 50 * NSEC_PER_MSEC;
		CHECK_EQ(poll_client(c), 1);
	}
	RPC(server_destroy)(s);
	CHECK(death_seen_after(c, 50 * NSEC_PER_MSEC) < NSEC_PER_SEC);
}

/* A loop of empty polls reads the clock at every sixteenth poll. */
TEST(hot_polls_look_seldom_at_the_clock)
{
	SERVER *s = server_new(4);
	CLIENT *c = client_new();
	uint64_t looks;

	for (uint32_t k = 0; k < 100; k++)
		CHECK_EQ(poll_client(c), 0);
	looks = fake.looks;
	for (uint32_t k = 0; k < 16000; k++) {
		fake.ns += 30;
		CHECK_EQ(poll_client(c), 0);
	}
	CHECK(fake.looks - looks <= 1000);
	/* The first seven polls after a response do not read the clock. */
	for (uint32_t k = 0; k < 100; k++) {
		call(c, k);
		RPC(client_flush)(c);
		CHECK_EQ(serve(s), 1);
		CHECK_EQ(poll_client(c), 1);
		looks = fake.looks;
		for (uint32_t i = 0; i < 7; i++)
			CHECK_EQ(poll_client(c), 0);
		CHECK_EQ(fake.looks, looks);
	}
}

#endif
