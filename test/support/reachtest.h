/* SPDX-License-Identifier: MIT */
/*
 * Test cases for clients that cannot wake a server which sleeps on its descriptor: connecting or
 * the call must return an error, so that the client does not wait in vain. Only one file of a
 * program may include this header, and the program is linked with -Wl,--wrap=sendto.
 */
#ifndef SUPPORT_REACHTEST_H
#define SUPPORT_REACHTEST_H

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/sleep.h"
#include "support/fdtest.h"
#include "support/nosend.h"
#include "support/rpcecho.h"
#include "support/rpcmap.h"

#define REACHTEST_NS (20 * NSEC_PER_MSEC) /* timeout of a wait that should return immediately */

/* Adds @by to the number of the server's network namespace in the region. */
static void forge_netns(int64_t by)
{
	struct rpc_map m;

	map_region(test_name, &m);
	m.server_addr->netns += (uint64_t)by;
	shm_close(&m.region);
}

/* Sets the server's sleep word (base/wakefd.h). */
static void forge_state(uint32_t state)
{
	struct rpc_map m;

	map_region(test_name, &m);
	__atomic_store_n(m.server_state, state, __ATOMIC_SEQ_CST);
	shm_close(&m.region);
}

static inline int reachtest_connect(struct rpc_client **c_p)
{
	return RPC(client_connect)(test_name, NULL, c_p);
}

/* Makes a call and publishes it. */
static inline int reachtest_call(struct rpc_client *c, const uint64_t *word)
{
	int err = RPC(client_call)(c, word, 8, 0);

	RPC(client_flush)(c);
	return err;
}

static inline void reachtest_ignore(void *arg, uint64_t token, const void *resp, uint32_t len)
{
}

static inline int reachtest_poll(struct rpc_client *c)
{
	return RPC(client_poll)(c, reachtest_ignore, NULL);
}

static inline int reachtest_call_wait(struct rpc_client *c, const uint64_t *word, uint64_t *answer,
	uint64_t ns)
{
	return RPC(client_call_wait)(c, word, 8, answer, 8, ns, NULL);
}

/* Creates a server for eight clients. */
static inline struct rpc_server *reachtest_server(void)
{
	const struct rpc_attr attr = {.max_clients = 8, .req_size = 8, .resp_size = 8};

	return server_with(&attr);
}

/* Connects a client, and then opens the server's descriptor. */
static inline struct rpc_client *reachtest_client(struct rpc_server *s)
{
	struct rpc_client *c = client_new();

	rpc_echo(s);
	CHECK(RPC(server_fd)(s) >= 0);
	return c;
}

static inline void reachtest_server_sleeps(struct rpc_server *s)
{
	while (RPC(server_arm)(s))
		rpc_echo(s);
	CHECK(fdtest_sleeps(RPC(server_fd)(s)));
}

/* Polls until there is a result. */
static inline int reachtest_result(struct rpc_client *c)
{
	int n;

	do
		n = reachtest_poll(c);
	while (!n);
	return n;
}

/*
 * Checks that waits, polls and arm return the error, that the server stays asleep, and that a call
 * is made also while an earlier one is in flight after an error.
 */
static inline void reachtest_told(struct rpc_server *s, struct rpc_client *c, int err)
{
	uint64_t word = 5, answer = 0, calls = client_stats_of(c).calls;

	CHECK_EQ(reachtest_call_wait(c, &word, &answer, REACHTEST_NS), err);
	CHECK_EQ(reachtest_poll(c), err);
	CHECK_EQ(reachtest_call_wait(c, &word, &answer, REACHTEST_NS), err);
	CHECK_EQ(client_stats_of(c).calls, calls + 2);
	CHECK_EQ(reachtest_call(c, &word), 0);
	CHECK_EQ(reachtest_result(c), err);
	CHECK_EQ(RPC(client_wait)(c, REACHTEST_NS), err);
	CHECK_EQ(RPC(client_arm)(c), err);
	CHECK(fdtest_sleeps(RPC(server_fd)(s)));
}

/* Waits for one response. */
static inline void reachtest_answered(struct rpc_client *c)
{
	CHECK_EQ(reachtest_result(c), 1);
}

/*
 * Checks that the client can wake the server again. The server answers the three calls of
 * reachtest_told(); the client drops two responses, because their calls have returned an error.
 */
static inline void reachtest_goes_on(struct rpc_server *s, struct rpc_client *c)
{
	uint64_t word = 6;

	CHECK_EQ(RPC(client_arm)(c), 0);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
	CHECK_EQ(rpc_echo(s), 3);
	reachtest_answered(c);
	reachtest_server_sleeps(s);
	CHECK_EQ(reachtest_call(c, &word), 0);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
	CHECK_EQ(rpc_echo(s), 1);
	reachtest_answered(c);
}

static inline void reachtest_refused_by(int err)
{
	uint64_t word = 7;
	SERVER *s = reachtest_server();
	CLIENT *c = reachtest_client(s), *other;

	CHECK(RPC(client_fd)(c) >= 0);
	CHECK_EQ(reachtest_connect(&other), 0);
	reachtest_server_sleeps(s);
	nosend_errno = err;
	reachtest_told(s, c, -err);
	nosend_errno = 0;
	/* Another client can still wake the server. */
	CHECK_EQ(reachtest_call(other, &word), 0);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
	CHECK_EQ(rpc_echo(s), 4);
	reachtest_answered(other);
	reachtest_answered(c);
}

TEST(refusal_is_told)
{
	static const int errors[] = {EPERM, EACCES, ENOBUFS, ENOMEM, EAFNOSUPPORT};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		reachtest_refused_by(errors[i]);
}

/* The client continues once it may send again. */
TEST(refusal_ends)
{
	SERVER *s = reachtest_server();
	CLIENT *c = reachtest_client(s);

	CHECK(RPC(client_fd)(c) >= 0);
	reachtest_server_sleeps(s);
	nosend_errno = EPERM;
	reachtest_told(s, c, -EPERM);
	nosend_errno = 0;
	reachtest_goes_on(s, c);
}

/* A full queue is not a refusal, nor is a name that does not exist in the client's namespace. */
TEST(these_are_no_refusals)
{
	static const int errors[] = {EAGAIN, ECONNREFUSED, ECONNRESET, EPIPE, EPROTOTYPE};
	uint64_t word = 5, answer;

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		SERVER *s = reachtest_server();
		CLIENT *c = reachtest_client(s);

		reachtest_server_sleeps(s);
		nosend_errno = errors[i];
		CHECK_EQ(reachtest_call_wait(c, &word, &answer, 1), -ETIMEDOUT);
		nosend_errno = 0;
	}
}

/* A client that could not wake the server is refused, and leaves no descriptor open. */
TEST(connect_is_refused)
{
	static const int errors[] = {EPERM, EACCES, ENOBUFS};
	int open;
	SERVER *s = reachtest_server();
	CLIENT *c = reachtest_client(s), *other;

	open = fdtest_open();
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		nosend_errno = errors[i];
		CHECK_EQ(reachtest_connect(&other), -errors[i]);
		nosend_errno = 0;
		CHECK_EQ(fdtest_open(), open);
	}
	CHECK_EQ(reachtest_connect(&other), 0);
	CHECK(fdtest_readable(RPC(server_fd)(s)));
}

/* In another network namespace no socket has the server's name. */
TEST(other_namespace_is_told)
{
	SERVER *s = reachtest_server();
	CLIENT *c = reachtest_client(s);

	CHECK(RPC(client_fd)(c) >= 0);
	reachtest_server_sleeps(s);
	forge_netns(1);
	nosend_errno = ECONNREFUSED;
	reachtest_told(s, c, -ENETUNREACH);
	nosend_errno = 0;
	forge_netns(-1);
	reachtest_goes_on(s, c);
}

static inline void reachtest_without_descriptors(void *arg)
{
	struct rlimit old;
	SERVER *s = reachtest_server();
	CLIENT *c = reachtest_client(s);

	CHECK(RPC(client_fd)(c) >= 0);
	fdtest_fill_gaps();
	reachtest_server_sleeps(s);
	old = fdtest_limit(0);
	reachtest_told(s, c, -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	reachtest_goes_on(s, c);
}

TEST_WITH(lack_of_descriptors_is_told, fdtest_in_child, reachtest_without_descriptors, NULL);

/*
 * Another client resets the server's sleep word, but cannot wake the server: it sets the word again
 * and leaves, or it dies. A client that saw the word reset must still wake the server while it
 * waits, by wait, by arm or by poll. @left: the value that the other client leaves in the word.
 */
static inline void reachtest_mended(uint32_t left)
{
	for (int way = 0; way < 3; way++) {
		uint64_t word = 7;
		SERVER *s = reachtest_server();
		CLIENT *c = reachtest_client(s);

		CHECK(RPC(client_fd)(c) >= 0);
		reachtest_server_sleeps(s);
		forge_state(SLEEP_RUNNING);
		CHECK_EQ(reachtest_call(c, &word), 0);
		forge_state(left);
		while (!fdtest_readable(RPC(server_fd)(s))) {
			CHECK_EQ(way == 0 ? RPC(client_wait)(c, NSEC_PER_SEC / 4) : 0, 0);
			if (way == 1 && !RPC(client_arm)(c))
				fdtest_readable_within(RPC(client_fd)(c), -1);
			CHECK_EQ(way ? reachtest_poll(c) : 0, 0);
		}
		CHECK_EQ(rpc_echo(s), 1);
	}
}

TEST_WITH(failure_of_another_is_mended, reachtest_mended, SLEEP_ON_FD);
TEST_WITH(death_of_another_is_mended, reachtest_mended, SLEEP_RUNNING);

/* ---- real sandboxes, if this process may enter them ---- */

static inline int reachtest_leave_netns(void)
{
	return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

/* Restricts the process to its own abstract sockets: Landlock, version 6 or later. */
static inline int reachtest_scope(void)
{
	struct {
		uint64_t fs, net, scoped;
	} rules = {0, 0, 1}; /* LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET */
	long set = syscall(444, &rules, sizeof(rules), 0); /* landlock_create_ruleset */

	return set >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(446, (int)set, 0) == 0; /* landlock_restrict_self */
}

struct reachtest_sandbox {
	const char *name;
	int (*enter)(void);
	int err;
	int up, down; /* the child's ends of the pipes */
};

/* Connects before the server has a descriptor, and makes a call when the server sleeps on it. */
static inline void reachtest_enter(const struct reachtest_sandbox *box)
{
	uint64_t word = 5, answer;
	struct rpc_client *c, *late;
	char go;

	CHECK_EQ(reachtest_connect(&c), 0);
	CHECK_EQ(write(box->up, "x", 1), 1);
	CHECK_EQ(read(box->down, &go, 1), 1);
	if (!box->enter()) {
		printf("  not possible here: %s\n", box->name);
		fflush(stdout);
		_exit(0);
	}
	CHECK_EQ(reachtest_call_wait(c, &word, &answer, REACHTEST_NS), box->err);
	CHECK_EQ(reachtest_connect(&late), box->err);
	_exit(0);
}

static inline void reachtest_box(struct reachtest_sandbox *box)
{
	int up[2], down[2];
	char ready;
	pid_t pid;
	SERVER *s = reachtest_server();

	CHECK_EQ(pipe(up), 0);
	CHECK_EQ(pipe(down), 0);
	box->up = up[1];
	box->down = down[0];
	pid = test_fork();
	if (!pid)
		reachtest_enter(box);
	close(up[1]);
	CHECK_EQ(read(up[0], &ready, 1), 1);
	CHECK(RPC(server_fd)(s) >= 0);
	reachtest_server_sleeps(s);
	CHECK_EQ(write(down[1], "x", 1), 1);
	CHECK_EQ(test_reap(pid), 0);
	close(up[0]);
	close(down[0]);
	close(down[1]);
}

TEST(sandboxes)
{
	static struct reachtest_sandbox boxes[] = {
		{.name = "another network namespace",
			.enter = reachtest_leave_netns,
			.err = -ENETUNREACH},
		{.name = "a scope of abstract sockets", .enter = reachtest_scope, .err = -EPERM},
	};

	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		reachtest_box(&boxes[i]);
}

#endif
