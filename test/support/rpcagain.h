/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: clients that wait for a server, and that outlive one. A client
 * occupies a place (an index) in the server's region. A program first includes the layer's
 * test/rpc.h.
 */
#ifndef SUPPORT_RPCAGAIN_H
#define SUPPORT_RPCAGAIN_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "support/fdtest.h"
#include "support/rpctokens.h"

/* A thread that connects with a limit of a minute. */
struct again_thread {
	pthread_t thread;
	struct rpc_client *c;
	uint32_t tid, done;
};

static inline void *again_connect(void *arg)
{
	const struct rpc_attr attr = {.size = sizeof(attr), .connect_ms = 60000};
	struct again_thread *t = arg;

	__atomic_store_n(&t->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	CHECK_EQ(RPC(client_connect)(test_name, &attr, &t->c), 0);
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Returns when the thread sleeps in connect. */
static inline void again_begin(struct again_thread *t)
{
	*t = (struct again_thread){.done = 0};
	CHECK_EQ(pthread_create(&t->thread, NULL, again_connect, t), 0);
	while (!test_blocked((pid_t)__atomic_load_n(&t->tid, __ATOMIC_ACQUIRE)))
		sched_yield();
	CHECK(!__atomic_load_n(&t->done, __ATOMIC_ACQUIRE));
}

static inline struct rpc_client *again_end(struct again_thread *t, struct rpc_server *s)
{
	while (!__atomic_load_n(&t->done, __ATOMIC_ACQUIRE)) {
		rpc_echo(s);
		sched_yield();
	}
	CHECK_EQ(pthread_join(t->thread, NULL), 0);
	return t->c;
}

TEST(connect_waits_for_server_and_place)
{
	const struct rpc_attr brief = {.size = sizeof(brief), .connect_ms = 3};
	struct rpc_client *c;
	struct rpc_server *s;
	struct again_thread t;

	CHECK_EQ(RPC(client_connect)(test_name, &brief, &c), -ENOENT);
	again_begin(&t);
	s = again_server(1, 8);
	c = again_end(&t, s);
	CHECK_EQ(RPC(client_connect)(test_name, &brief, &t.c), -EUSERS);
	again_begin(&t);
	RPC(client_disconnect)(c);
	RPC(client_disconnect)(again_end(&t, s));
	RPC(server_destroy)(s);
}

static inline void again_not_in_child(void *arg)
{
	CHECK_EQ(RPC(client_reconnect)((struct rpc_client *)arg, 0), -EBADF);
	RPC(client_disconnect)((struct rpc_client *)arg);
}

/* The client's object, descriptor and sizes stay the same; each token comes back once. */
TEST(client_outlives_its_servers)
{
	struct rpc_server *s = again_server(2, 8);
	struct again_tokens t = {0};
	int open = fdtest_open(), fd;
	struct rpc_client *c = client_new(), *other;
	uint64_t word = 1, answer;

	fd = RPC(client_fd)(c);
	for (uint32_t round = 0; round < 4; round++) {
		CHECK_EQ(RPC(client_reconnect)(c, 0), -EBUSY); /* the connection works */
		CHECK_EQ(RPC(client_abort)(c, again_take, &t), -EBUSY);
		fdtest_in_child(again_not_in_child, c);
		again_call(c, &t, 20);
		RPC(client_flush)(c);
		CHECK_EQ(rpc_echo(s), 20);
		while (t.open)
			RPC(client_poll)(c, again_take, &t);
		CHECK_EQ(t.answered, 20);
		CHECK_EQ(RPC(client_call_wait)(c, &word, 8, &answer, 8, 0, NULL), -ETIMEDOUT);
		again_call(c, &t, 10 + round); /* some may be unpublished */
		RPC(server_destroy)(s);
		again_bereave(c, &t);
		CHECK_EQ(RPC(client_reconnect)(c, 0), -EBUSY); /* calls are pending */
		CHECK_EQ(RPC(client_abort)(c, again_take, &t), 10 + round);
		CHECK_EQ(RPC(client_abort)(c, again_take, &t), 0);
		CHECK(!t.open && t.ended == 10 + round);
		CHECK_EQ(RPC(client_reconnect)(c, NSEC_PER_MSEC), -ENOENT);
		CHECK_EQ(RPC(client_call)(c, &word, sizeof(word), 1), -EPIPE);
		CHECK_EQ(RPC(client_poll)(c, again_take, &t), -EPIPE);
		CHECK_EQ(RPC(client_wait)(c, UINT64_MAX) == 1, 0);
		CHECK_EQ(RPC(client_pending)(c), 0);
		s = again_server(2, 16);
		CHECK_EQ(RPC(client_reconnect)(c, 0), -EPROTO); /* other sizes */
		RPC(server_destroy)(s);
		s = again_server(2, 8);
		if (round % 2) /* takes the client's former place */
			other = client_new();
		CHECK_EQ(RPC(client_reconnect)(c, UINT64_MAX), 0);
		CHECK_EQ(RPC(client_index)(c), round % 2);
		if (round % 2)
			RPC(client_disconnect)(other);
		CHECK_EQ(RPC(client_fd)(c), fd);
		t = (struct again_tokens){0};
		again_call(c, &t, 1);
		CHECK_EQ(RPC(client_arm)(c), 0);
		CHECK(fdtest_sleeps(fd));
		CHECK_EQ(rpc_echo(s), 1);
		CHECK(fdtest_readable(fd)); /* the new server has the client's wake-up address */
		CHECK_EQ(RPC(client_poll)(c, again_take, &t), 1);
		t = (struct again_tokens){0};
	}
	RPC(client_disconnect)(c);
	RPC(server_destroy)(s);
	s = again_server(2, 8);
	CHECK_EQ(fdtest_open(), open);
	RPC(server_destroy)(s);
}

/* A client whose reconnect failed has no place, and does not free the place of another client. */
TEST(failed_reconnect_disturbs_nobody)
{
	struct again_tokens t = {0};
	struct rpc_server *s = again_server(1, 8);
	struct rpc_client *c = client_new(), *next;
	uint64_t word = 3, answer;

	RPC(server_destroy)(s);
	again_bereave(c, &t);
	s = again_server(1, 8);
	next = client_new();
	CHECK(RPC(client_reconnect)(c, 0) < 0); /* no place */
	CHECK(RPC(client_reconnect)(c, 0) < 0);
	RPC(client_disconnect)(c);
	rpc_echo(s);
	CHECK_EQ(RPC(client_call)(next, &word, sizeof(word), 3), 0);
	t.open = 8;
	RPC(client_flush)(next);
	CHECK_EQ(rpc_echo(s), 1);
	CHECK_EQ(RPC(client_poll)(next, again_take, &t), 1);
	CHECK_EQ(RPC(client_call_wait)(next, &word, 8, &answer, 8, 0, NULL), -ETIMEDOUT);
	RPC(client_disconnect)(next);
	RPC(server_destroy)(s);
}

#endif
