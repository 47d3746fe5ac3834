/* SPDX-License-Identifier: MIT */
/*
 * Test cases, shared by delegrpc and shmipc, for servers and clients that sleep on descriptors:
 * which events make the descriptors readable, and which do not. A program first includes the
 * layer's test/rpc.h, and defines map_region().
 */
#ifndef SUPPORT_RPCFD_H
#define SUPPORT_RPCFD_H

#include <errno.h>
#include <signal.h>

#include "base/shm.h"
#include "base/wakefd.h"
#include "support/fdtest.h"
#include "support/rpcmap.h"
#include "support/rpcsolo.h"
#include "support/spawn.h"

#define FOR_EVER (-1) /* timeout; the time limit of the test program ends a wait that hangs */

/* Serves until the server can be armed: after clients have come or gone it may have work to do. */
static void settle(struct rpc_server *s)
{
	while (RPC(server_arm)(s))
		serve(s);
}

/* Arms the server, which has nothing to do, and checks that its descriptor is not readable. */
static void server_sleeps(struct rpc_server *s)
{
	CHECK_EQ(RPC(server_arm)(s), 0);
	CHECK(fdtest_sleeps(RPC(server_fd)(s)));
}

static void client_sleeps(struct rpc_client *c)
{
	CHECK_EQ(RPC(client_arm)(c), 0);
	CHECK(fdtest_sleeps(RPC(client_fd)(c)));
}

/* Answers the call of a client that sleeps on its descriptor. */
static void answer_wakes(struct rpc_server *s, struct rpc_client *c)
{
	CHECK_EQ(serve(s), 1);
	RPC(server_flush)(s);
	CHECK(fdtest_readable(RPC(client_fd)(c)));
	CHECK_EQ(poll_client(c), 1);
}

/* One client connects before the descriptor is made, and one after that. */
TEST(server_is_woken_by_calls)
{
	SERVER *s = server_new(2);
	struct rpc_client *c[2] = {client_new()};

	CHECK_EQ(RPC(server_arm)(s), -EBADF);
	CHECK(RPC(server_fd)(s) >= 0);
	CHECK_EQ(RPC(server_fd)(s), RPC(server_fd)(s));
	c[1] = client_new();
	settle(s);
	for (int i = 0; i < 10; i++) {
		server_sleeps(s);
		call(c[i % 2], 1);
		CHECK(fdtest_sleeps(RPC(server_fd)(s))); /* the call is not flushed yet */
		RPC(client_flush)(c[i % 2]);
		CHECK(fdtest_readable(RPC(server_fd)(s)));
		CHECK_EQ(RPC(server_arm)(s), 1);
		CHECK_EQ(RPC(server_poll)(s), 1);
		CHECK_EQ(RPC(server_arm)(s), 1); /* the request was found, but not received */
		CHECK_EQ(serve(s), 1);
		server_sleeps(s);
		CHECK_EQ(poll_client(c[i % 2]), 1);
	}
	RPC(client_disconnect)(c[0]);
	RPC(client_disconnect)(c[1]);
	settle(s);
}

/* The server has no descriptor here. */
TEST(client_is_woken_by_replies)
{
	SERVER *s = server_new(2);
	CLIENT *c = client_new(), *other = client_new();

	CHECK_EQ(RPC(client_arm)(c), -EBADF);
	CHECK(RPC(client_fd)(c) >= 0);
	CHECK_EQ(RPC(client_fd)(c), RPC(client_fd)(c));
	CHECK(RPC(client_fd)(c) != RPC(client_fd)(other));
	serve(s);
	for (uint64_t i = 0; i < 10; i++) {
		call(c, i);
		client_sleeps(c); /* also publishes the call */
		CHECK_EQ(serve(s), 1);
		CHECK(fdtest_sleeps(RPC(client_fd)(other)));
		RPC(server_flush)(s);
		CHECK(fdtest_readable(RPC(client_fd)(c)));
		CHECK(fdtest_sleeps(RPC(client_fd)(other)));
		CHECK_EQ(RPC(client_arm)(c), 1);
		CHECK_EQ(poll_client(c), 1);
		client_sleeps(c);
	}
	CHECK_EQ(client_stats_of(c).sleeps, 20);
}

/*
 * After many empty polls a client's sleep word is SLEEP_WAITING. Arming must still change it to
 * SLEEP_ON_FD.
 */
TEST(client_sleeps_after_many_polls)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();

	CHECK(RPC(client_fd)(c) >= 0);
	for (uint64_t polls = 0; polls < 100; polls++) {
		call(c, polls);
		for (uint64_t i = 0; i < polls; i++)
			CHECK_EQ(poll_client(c), 0);
		client_sleeps(c);
		answer_wakes(s, c);
	}
}

/* Arming first publishes collected messages and wakes the peer. */
TEST(arming_lets_the_others_go_on)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rpcsolo_req r, first;
	int n = 0;

	CHECK(RPC(server_fd)(s) >= 0 && RPC(client_fd)(c) >= 0);
	settle(s);
	for (uint64_t i = 0; i < 12; i++)
		call(c, i);
	client_sleeps(c);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
	while (n < 12) {
		CHECK(RPC(server_poll)(s) > 0);
		for (; receive(s, &r); n++)
			if (!n)
				first = r;
	}
	answer(s, &first);
	server_sleeps(s);
	CHECK(fdtest_readable(RPC(client_fd)(c)));
}

/* No timer runs if neither side waits for anything. */
TEST(idle_ones_have_no_timer)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();

	CHECK(RPC(server_fd)(s) >= 0 && RPC(client_fd)(c) >= 0);
	settle(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
	call(c, 1);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 1); /* because the server might die */
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(poll_client(c), 1);
	server_sleeps(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
}

TEST(server_that_goes_wakes_its_clients)
{
	struct rpc_server *s = server_new(1);
	CLIENT *c = client_new();

	CHECK(RPC(client_fd)(c) >= 0);
	serve(s);
	client_sleeps(c);
	RPC(server_destroy)(s);
	CHECK(fdtest_readable(RPC(client_fd)(c)));
	CHECK_EQ(RPC(client_arm)(c), 1);
	CHECK_EQ(poll_client(c), -EPIPE);
	CHECK_EQ(RPC(client_arm)(c), 1);
}

static void serve_in_child(void)
{
	server_new(64);
}

/* The server is a process of its own, which is killed. */
TEST(killed_server_is_noticed)
{
	pid_t pid = spawn(serve_in_child);
	CLIENT *c = client_new();
	int polls = 0, n;

	CHECK(RPC(client_fd)(c) >= 0);
	call(c, 1);
	CHECK_EQ(RPC(client_arm)(c), 0);
	test_kill(pid);
	while ((n = poll_client(c)) == 0) {
		if (!RPC(client_arm)(c))
			fdtest_readable_within(RPC(client_fd)(c), FOR_EVER);
		polls++;
	}
	CHECK_EQ(n, -EPIPE);
	CHECK(polls <= 3); /* the polls are 0.1 s apart */
}

/* If a process has no free descriptor for waking, it wakes no sleeper, and tries again later. */
static void wake_without_descriptors(void *arg)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rlimit old;

	CHECK(RPC(server_fd)(s) >= 0 && RPC(client_fd)(c) >= 0);
	fdtest_fill_gaps();
	settle(s);
	call(c, 1);
	old = fdtest_limit(0);
	CHECK_EQ(RPC(client_arm)(c), -EMFILE);
	CHECK_EQ(poll_client(c), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(fdtest_sleeps(RPC(server_fd)(s)));
	RPC(client_flush)(c);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
	client_sleeps(c);
	fdtest_fill_gaps();
	old = fdtest_limit(0);
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(RPC(server_arm)(s), 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(fdtest_sleeps(RPC(server_fd)(s)));
	CHECK(fdtest_sleeps(RPC(client_fd)(c)));
	CHECK_EQ(fdtest_timers(), 2); /* both will try again */
	server_sleeps(s);
	CHECK(fdtest_readable(RPC(client_fd)(c)));
}

TEST_WITH(waker_without_descriptors_tries_again, fdtest_in_child, wake_without_descriptors, NULL);

static void fail_to_make_one(void *arg)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rlimit old;

	fdtest_fill_gaps();
	old = fdtest_limit(2);
	CHECK_EQ(RPC(server_fd)(s), -EMFILE);
	CHECK_EQ(RPC(client_fd)(c), -EMFILE);
	CHECK_EQ(RPC(server_arm)(s), -EBADF);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(RPC(server_fd)(s) >= 0 && RPC(client_fd)(c) >= 0);
}

TEST_WITH(no_descriptor_is_left_for_it, fdtest_in_child, fail_to_make_one, NULL);

struct both {
	struct rpc_server *s;
	struct rpc_client *c;
};

static void use_in_child(void *arg)
{
	struct both *b = arg;

	CHECK_EQ(RPC(server_fd)(b->s), -EBADF);
	CHECK_EQ(RPC(client_fd)(b->c), -EBADF);
	CHECK_EQ(RPC(server_arm)(b->s), -EBADF);
	CHECK_EQ(RPC(client_arm)(b->c), -EBADF);
	RPC(client_disconnect)(b->c);
	RPC(server_destroy)(b->s);
}

TEST(child_has_no_descriptors)
{
	struct both b = {server_new(1), client_new()};

	CHECK(RPC(server_fd)(b.s) >= 0 && RPC(client_fd)(b.c) >= 0);
	settle(b.s);
	fdtest_in_child(use_in_child, &b);
	call(b.c, 1);
	client_sleeps(b.c);
	CHECK(fdtest_readable(RPC(server_fd)(b.s)));
	answer_wakes(b.s, b.c);
	RPC(client_disconnect)(b.c);
	RPC(server_destroy)(b.s);
}

/* The namespaces are forged in the region; test-wakefd.c uses real ones. */
TEST(other_namespaces_are_refused)
{
	struct rpc_server *s = server_new(2);
	struct rpc_client *c = client_new(), *late;
	struct RPC(look_region) look;
	struct rpc_map m;

	map_region(test_name, &m);
	CHECK(m.server_addr->netns);
	CHECK_EQ(m.client_addr->netns, m.server_addr->netns);
	/* A client of another namespace is connected when the server makes its descriptor. */
	m.client_addr->netns++;
	CHECK_EQ(RPC(server_fd)(s), -ENETUNREACH);
	CHECK_EQ(m.server_addr->name, 0);
	late = client_new();
	RPC(client_disconnect)(late);
	m.client_addr->netns--;
	CHECK(RPC(server_fd)(s) >= 0);
	/* The server is in another namespace when a client connects, or makes its descriptor. */
	m.server_addr->netns++;
	serve(s);
	CHECK_EQ(RPC(client_connect)(test_name, NULL, &late), -ENETUNREACH);
	CHECK_EQ(RPC(client_fd)(c), -ENETUNREACH);
	m.server_addr->netns--;
	serve(s);
	CHECK_EQ(RPC(look)(test_name, &look, sizeof(look), NULL, NULL), 0);
	CHECK_EQ(look.clients, 1); /* the refused client has left */
	CHECK_EQ(look.dead_clients, 0);
	CHECK(RPC(client_fd)(c) >= 0);
	shm_close(&m.region);
	RPC(client_disconnect)(c);
	RPC(server_destroy)(s);
}

/* A client forges its sleep word and its address: it seems to sleep at an invented address. */
TEST(forged_address_does_no_harm)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rpc_map m;

	map_region(test_name, &m);
	serve(s);
	for (uint32_t i = 0; i < 10; i++) {
		call(c, i);
		RPC(client_flush)(c);
		m.client_addr->name = i ? test_rand(&m.client_addr->cookie) : 0;
		*m.client_state = SLEEP_ON_FD + i % 2;
		CHECK_EQ(serve(s), 1);
		RPC(server_flush)(s);
		CHECK_EQ(*m.client_state, SLEEP_RUNNING);
		CHECK_EQ(poll_client(c), 1);
	}
	shm_close(&m.region);
}

/*
 * A client that gets the place of an earlier one in the region has another address, and is awake at
 * first.
 */
TEST(places_are_reused)
{
	SERVER *s = server_new(1);
	CLIENT *c = client_new();
	struct rpc_map m;
	uint64_t address;

	map_region(test_name, &m);
	serve(s);
	CHECK(RPC(client_fd)(c) >= 0);
	address = m.client_addr->name;
	client_sleeps(c);
	RPC(client_disconnect)(c);
	serve(s);
	c = client_new();
	CHECK_EQ(*m.client_state, SLEEP_RUNNING);
	CHECK_EQ(RPC(client_arm)(c), -EBADF);
	CHECK(RPC(client_fd)(c) >= 0);
	CHECK(m.client_addr->name != address);
	serve(s);
	call(c, 1);
	client_sleeps(c);
	answer_wakes(s, c);
	shm_close(&m.region);
}

TEST(nothing_is_left_open)
{
	SERVER *s = server_new(1);
	struct rpc_client *c;
	int before;

	CHECK(RPC(server_fd)(s) >= 0);
	before = fdtest_open();
	for (uint32_t i = 0; i < 10000; i++) {
		c = client_new();
		if (i % 2)
			CHECK(RPC(client_fd)(c) >= 0);
		settle(s);
		call(c, i);
		CHECK_EQ(RPC(client_arm)(c), i % 2 ? 0 : -EBADF);
		RPC(client_flush)(c);
		CHECK_EQ(serve(s), 1);
		RPC(server_flush)(s);
		RPC(client_disconnect)(c);
		serve(s);
	}
	CHECK_EQ(fdtest_open(), before + 1); /* the socket with which the server wakes clients */
}

#endif
