/* SPDX-License-Identifier: MIT */
/* Servers and clients of delegrpc that sleep on descriptors. */
#include <pthread.h>

#include "rpc.h"
#include "map.h"
#include "support/rpcfd.h"
#include "raw.h"

/*
 * The server sleeps while a client has reserved slots. The client dies before it fills them. Then
 * the server wakes and skips them.
 */
TEST(server_looks_for_holes)
{
	SERVER *s = server_new(2);
	CLIENT *c = client_new();
	struct raw *raw;

	CHECK(delegrpc_server_fd(s) >= 0);
	raw = raw_open(test_name);
	raw_reserve(raw, 1, 3);
	server_sleeps(s);
	CHECK_EQ(fdtest_timers(), 1);
	call(c, 7);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK(fdtest_readable(delegrpc_server_fd(s)));
	CHECK_EQ(serve(s), 0);
	server_sleeps(s);
	raw_close(raw);
	CHECK(fdtest_readable_within(delegrpc_server_fd(s), FOR_EVER));
	while (!serve(s))
		CHECK_EQ(delegrpc_server_arm(s), 1);
	CHECK_EQ(server_stats_of(s).holes, 3);
	server_sleeps(s);
	CHECK_EQ(fdtest_timers(), 0);
}

/* The ring is full. The server does not wake the client when there is room again; a timer does. */
TEST(client_that_waits_for_room_tries_again)
{
	struct delegrpc_attr attr = {.max_clients = 1, .ring_depth = 16, .resp_depth = 64};
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();
	uint64_t made = 0;

	CHECK(delegrpc_client_fd(c) >= 0);
	while (!delegrpc_client_call(c, &made, sizeof(made), made))
		made++;
	CHECK(made > 16);
	while (delegrpc_client_pending(c)) {
		CHECK_EQ(delegrpc_client_arm(c), 0);
		CHECK_EQ(fdtest_timers(), 1);
		serve(s);
		CHECK(fdtest_readable_within(delegrpc_client_fd(c), FOR_EVER));
		CHECK(poll_client(c) >= 0);
		while (poll_client(c) > 0)
			;
	}
}

static void *come_and_go(void *arg)
{
	for (int i = 0; i < 8; i++)
		delegrpc_client_disconnect(client_new());
	return NULL;
}

/* A client that is connecting must not be taken for a client of another network namespace. */
TEST(connecting_clients_are_no_obstacle)
{
	for (int i = 0; i < 200; i++) {
		SERVER *s = server_new(2);
		pthread_t thread;

		CHECK_EQ(pthread_create(&thread, NULL, come_and_go, NULL), 0);
		for (int k = 0; k < i; k++) /* rounds meet the client at different steps */
			delegrpc_server_poll(s);
		CHECK(delegrpc_server_fd(s) >= 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
}

/* A dead client of another network namespace does not keep the server from getting a descriptor. */
TEST(dead_client_elsewhere_is_no_obstacle)
{
	SERVER *s = server_new(2);
	RAW *raw = raw_open(test_name);

	raw->lines[1].taken = 1;
	raw->lines[1].address.netns = 1;
	CHECK(delegrpc_server_fd(s) >= 0);
}

/*
 * The client has no descriptor left with which to wake the server: flush and poll return the error,
 * and each later poll tries again.
 */
static void flush_without_descriptors(void *arg)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rlimit old;

	CHECK(delegrpc_server_fd(s) >= 0);
	fdtest_fill_gaps();
	server_sleeps(s);
	call(c, 1);
	old = fdtest_limit(0);
	CHECK_EQ(delegrpc_client_flush(c), -EMFILE);
	CHECK_EQ(poll_client(c), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(poll_client(c), 0);
	CHECK(fdtest_readable(delegrpc_server_fd(s)));
}

TEST_WITH(flush_tells_of_lack_of_descriptors, fdtest_in_child, flush_without_descriptors, NULL);
