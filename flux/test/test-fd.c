/* SPDX-License-Identifier: MIT */
/* Nodes that sleep on descriptors: which events make a descriptor readable, and which do not. */
#include <errno.h>

#include "support/fdtest.h"
#include "common.h"

/* Arms the node, which has nothing to do, and checks that its descriptor is not readable. */
static void sleeps(struct flux_node *n)
{
	CHECK_EQ(flux_arm(n), 0);
	CHECK(fdtest_sleeps(flux_fd(n)));
}

TEST(node_is_woken_by_calls_and_responses)
{
	FLUX *f = make(3, 64, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1),
			 *c = flux_get_node(f, 2);
	static struct seen seen;

	CHECK_EQ(flux_arm(a), -EBADF);
	CHECK(flux_fd(a) >= 0 && flux_fd(b) >= 0 && flux_fd(c) >= 0);
	CHECK_EQ(flux_fd(a), flux_fd(a));
	CHECK(flux_fd(a) != flux_fd(b));
	sleeps(c);
	for (uint64_t i = 0; i < 10; i++) {
		sleeps(b);
		CHECK_EQ(call(a, 1, i, i), 0);
		sleeps(a); /* arming also wakes b */
		CHECK(fdtest_readable(flux_fd(b)));
		CHECK_EQ(flux_arm(b), 1);
		CHECK_EQ(serve(b), 1);
		sleeps(b);
		CHECK(fdtest_readable(flux_fd(a)));
		CHECK_EQ(flux_arm(a), 1);
		CHECK_EQ(flux_poll(a, on_response, &seen), 1);
		CHECK_EQ(seen.value[i], i + 1);
		sleeps(a);
	}
	CHECK(fdtest_sleeps(flux_fd(c)));
	CHECK_EQ(stats_of(a).sleeps, 20);
	CHECK_EQ(stats_of(a).wakes, 10);
}

/* Arming publishes collected messages: calls and answers. */
TEST(arming_lets_the_others_go_on)
{
	FLUX *f = make(2, 64, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct got first;

	CHECK(flux_fd(a) >= 0 && flux_fd(b) >= 0);
	sleeps(b);
	calls(a, 1, 12);
	sleeps(a);
	CHECK(fdtest_readable(flux_fd(b)));
	first = take(b);
	for (int i = 1; i < 12; i++)
		take(b);
	answer(b, first);
	sleeps(b);
	CHECK(fdtest_readable(flux_fd(a)));
}

TEST(peer_that_leaves_wakes)
{
	FLUX *f = make(2, 64, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	static struct seen seen;

	CHECK(flux_fd(a) >= 0);
	CHECK_EQ(call(a, 1, 1, 1), 0);
	sleeps(a);
	flux_leave(b);
	CHECK(fdtest_readable(flux_fd(a)));
	CHECK_EQ(flux_arm(a), 1);
	CHECK_EQ(flux_poll(a, on_response, &seen), 1);
	CHECK_EQ(seen.aborted, 1);
	sleeps(a);
}

/* A node without calls is also woken when a peer leaves, if it has called flux_left(). */
TEST(peer_that_leaves_wakes_who_asks)
{
	FLUX *f = make(3, 64, 16);
	struct flux_node *a = flux_get_node(f, 0);
	uint32_t left;

	CHECK(flux_fd(a) >= 0);
	sleeps(a);
	flux_leave(flux_get_node(f, 2));
	CHECK_EQ(flux_arm(a), 0); /* a has not called flux_left() */
	CHECK_EQ(flux_left(a, &left), 1);
	sleeps(a);
	flux_leave(flux_get_node(f, 1));
	CHECK(fdtest_readable(flux_fd(a)));
	CHECK_EQ(flux_arm(a), 1);
	CHECK_EQ(flux_left(a, &left), 1);
	CHECK_EQ(left, 1);
	sleeps(a);
}

/* A node with a descriptor may also call flux_wait(). Its peer has no descriptor. */
TEST(wait_works_beside_it)
{
	FLUX *f = make(2, 64, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	static struct seen seen;

	CHECK(flux_fd(a) >= 0);
	sleeps(a);
	CHECK_EQ(flux_wait(a, 1000000), 0);
	CHECK_EQ(call(a, 1, 1, 1), 0);
	CHECK_EQ(flux_wait(b, UINT64_MAX), 1);
	CHECK_EQ(serve(b), 1);
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	CHECK_EQ(flux_poll(a, on_response, &seen), 1);
}

static void fail_to_make_one(void *arg)
{
	FLUX *f = make(1, 64, 16);
	struct rlimit old;

	fdtest_fill_gaps();
	old = fdtest_limit(0);
	CHECK_EQ(flux_fd(flux_get_node(f, 0)), -EMFILE);
	CHECK_EQ(flux_arm(flux_get_node(f, 0)), -EBADF);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(flux_fd(flux_get_node(f, 0)) >= 0);
}

TEST_WITH(no_descriptor_is_left_for_it, fdtest_in_child, fail_to_make_one, NULL);

static void use_in_child(void *arg)
{
	CHECK_EQ(flux_arm(flux_get_node(arg, 0)), -EBADF);
	flux_destroy(arg);
}

TEST(child_has_no_descriptors)
{
	FLUX *f = make(2, 64, 16);

	CHECK(flux_fd(flux_get_node(f, 0)) >= 0);
	sleeps(flux_get_node(f, 0));
	fdtest_in_child(use_in_child, f);
	CHECK_EQ(call(flux_get_node(f, 1), 0, 1, 1), 0);
	flux_flush(flux_get_node(f, 1));
	CHECK(fdtest_readable(flux_fd(flux_get_node(f, 0))));
}

TEST(nothing_is_left_open)
{
	int before = fdtest_open();

	for (uint64_t i = 0; i < 10000; i++) {
		FLUX *f = make(2, 16, 8);
		struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);

		CHECK(flux_fd(a) >= 0);
		sleeps(a);
		CHECK_EQ(call(b, 0, i, i), 0);
		flux_flush(b);
		CHECK(fdtest_readable(flux_fd(a)));
	}
	CHECK_EQ(fdtest_open(), before);
}
