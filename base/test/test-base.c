/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>

#include "base/members.h"
#include "base/sized.h"
#include "base/slab.h"
#include "support/test.h"
#include "base/wait.h"

TEST(pow2_and_align)
{
	CHECK_EQ(pow2_ceil(0), 1);
	CHECK_EQ(pow2_ceil(1), 1);
	CHECK_EQ(pow2_ceil(3), 4);
	CHECK_EQ(pow2_ceil(4096), 4096);
	CHECK(pow2_ceil((1ull << 62) + 1) == 1ull << 63);
	CHECK(!is_pow2(0) && is_pow2(1) && is_pow2(64) && !is_pow2(65));
	CHECK_EQ(align_up(0, 32), 0);
	CHECK_EQ(align_up(33, 32), 64);
}

/* Not inlined, so that the id is as unknown to the compiler as an id that a peer has sent. */
static NOINLINE bool in_use(const struct slab *s, uint32_t id)
{
	return slab_in_use(s, id);
}

TEST(slab_gives_each_id_once)
{
	static const uint32_t impossible[] = {8, 9, 1u << 31, SLAB_BUSY, SLAB_NONE};
	struct slab s;
	uint32_t ids[8];

	CHECK_EQ(slab_init(&s, 0), -EINVAL);
	CHECK_EQ(slab_init(&s, 8), 0);
	for (uint32_t i = 0; i < 8; i++) {
		ids[i] = slab_get(&s);
		CHECK(ids[i] < 8);
		for (uint32_t j = 0; j < i; j++)
			CHECK(ids[j] != ids[i]);
	}
	CHECK_EQ(slab_get(&s), SLAB_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(impossible); i++)
		CHECK(!in_use(&s, impossible[i]));
	slab_put(&s, 5);
	CHECK(!slab_in_use(&s, 5));
	CHECK_EQ(s.used, 7);
	CHECK_EQ(slab_get(&s), 5);
	slab_fini(&s);
}

/* Returns the number of steps until the caller should sleep. */
static uint32_t steps_to_sleep(struct wait *w)
{
	uint32_t steps = 0;

	while (!wait_step(w))
		steps++;
	return steps;
}

TEST(wait_spins_then_yields_then_sleeps)
{
	struct wait w = WAIT_INIT;
	uint64_t start = clock_ns();
	uint32_t steps = steps_to_sleep(&w);

	/* The number is smaller only if another thread had the core. */
	CHECK(steps == WAIT_SPINS + WAIT_YIELDS ||
		(steps > WAIT_SPINS && clock_ns() - start > WAIT_CROWDED_NS));
	CHECK(wait_step(&w));
	CHECK(wait_step(&w));
	wait_reset(&w);
	CHECK(!wait_step(&w));
}

static void *never_waits(void *arg)
{
	bool *stop = arg;

	/* Relaxed: orders no other data. Pairs with the store in the test. */
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

/*
 * At each yield the other thread runs for a time slice, so wait_step() returns true after fewer
 * than WAIT_YIELDS yields.
 */
TEST(wait_beside_one_that_never_waits)
{
	bool stop = false;
	struct wait w;
	cpu_set_t all, one;
	pthread_t hog;

	CHECK_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0); /* the new thread inherits it */
	CHECK_EQ(pthread_create(&hog, NULL, never_waits, &stop), 0);
	/* Repeat until the other thread has run on this core during a wait. */
	do
		w = (struct wait)WAIT_INIT;

	while (steps_to_sleep(&w) == WAIT_SPINS + WAIT_YIELDS);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(hog, NULL), 0);
	CHECK_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* A struct of attributes, as declared in an older header, in the library and in a newer header. */
struct older {
	size_t size;
	uint32_t a;
};

struct attr {
	size_t size;
	uint32_t a, b;
};

struct newer {
	size_t size;
	uint32_t a, b, c, d;
};

TEST(attributes_of_other_versions)
{
	struct newer n = {.size = sizeof(n), .a = 1, .b = 2};
	struct attr own = {.size = 16, .a = 1, .b = 2}, got;

	CHECK_EQ(SIZED_ATTR(&got, &own, b), 0);
	CHECK(got.a == 1 && got.b == 2);
	own.size = offsetof(struct attr, b); /* an older program has no b */
	CHECK_EQ(SIZED_ATTR(&got, &own, b), 0);
	CHECK(got.a == 1 && got.b == 0);
	own.size = 0;
	CHECK_EQ(SIZED_ATTR(&got, &own, a), 0);
	CHECK(got.a == 1 && got.b == 0);
	CHECK_EQ(SIZED_ATTR(&got, (const struct attr *)NULL, b), 0);
	CHECK(!got.size && !got.a && !got.b);
	CHECK_EQ(sized_in(&got, sizeof(got), &n, n.size), 0);
	CHECK(got.a == 1 && got.b == 2);
	n.d = 3;
	CHECK_EQ(sized_in(&got, sizeof(got), &n, n.size), -E2BIG);
}

TEST(results_of_other_versions)
{
	const struct attr own = {.size = 5, .a = 1, .b = 2};
	struct newer n;
	struct older o;

	test_fill(&n, sizeof(n), 0xff);
	sized_out(&n, sizeof(n), &own, sizeof(own));
	CHECK(n.size == 5 && n.a == 1 && n.b == 2 && n.c == UINT32_MAX);
	test_fill(&n, sizeof(n), 0xff);
	sized_out(&n, offsetof(struct newer, b), &own, sizeof(own));
	CHECK(n.a == 1 && n.b == UINT32_MAX);
	sized_out(&o, sizeof(o), &own, sizeof(own));
	CHECK_EQ(o.a, 1);
}

/*
 * The ids (pid, uid, gid) of a client are kept until its events are taken. The next client with
 * this index has ids of its own.
 */
TEST(members)
{
	struct members m = {.n = 0};
	struct member_event e;

	members_came(&m, 0); /* the server takes no events */
	CHECK(!members_take(&m, &e) && !members_kept(&m, 0));
	CHECK(members_init(&m, 2));
	for (uint32_t round = 0; round < 5; round++) {
		members_know(&m, 1, round, 6, 7);
		members_came(&m, 1);
		if (round % 2)
			members_ended(&m, 1, MEMBER_DIED);
		CHECK(members_take(&m, &e));
		CHECK(e.kind == MEMBER_CAME && e.index == 1 && e.pid == round && e.uid == 6);
		members_know(&m, 1, 99, 99, 99);
		if (round % 2 == 0)
			members_ended(&m, 1, MEMBER_LEFT);
		members_came(&m, 0);
		CHECK(members_kept(&m, 1));
		CHECK(members_take(&m, &e));
		CHECK(e.kind == (round % 2 ? MEMBER_DIED : MEMBER_LEFT) && e.pid == round);
		CHECK(!members_kept(&m, 1));
		CHECK(members_take(&m, &e) && e.index == 0 && e.pid == 0 && e.uid == UINT32_MAX);
		members_ended(&m, 0, MEMBER_LEFT);
		CHECK(members_take(&m, &e) && e.kind == MEMBER_LEFT);
		CHECK(!members_take(&m, &e) && !m.here);
		members_know(&m, 1, 5, 5, 5);
		members_forget(&m, 1);
	}
	members_free(&m);
}
