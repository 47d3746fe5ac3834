/* SPDX-License-Identifier: MIT */
/* Tests how the priority classes share the rails. */
#include "fake.h"

static void start(enum tent_mode mode, unsigned int priorities)
{
	fake_init(mode);
	f.config.priorities = priorities;
	f.config.strict_numa = true; /* two rails */
	f.rails[0].depth = f.rails[1].depth = 1;
	fake_create();
}

/* Submits @n requests. */
static void submit(uint32_t n, uint32_t priority, uint64_t length)
{
	const struct sched_request req = {.length = length,
		.user = priority,
		.priority = priority,
		.write = true};

	while (n--)
		CHECK_EQ(sched_submit(f.s, f.now, &req), 0);
}

/* Writes the bytes of the posts from @from on, by class. */
static void count(uint32_t from, uint64_t bytes[SCHED_PRIORITIES])
{
	memset(bytes, 0, SCHED_PRIORITIES * sizeof(*bytes));
	for (uint32_t i = from; i < f.n_posts; i++)
		bytes[f.posts[i].slice.user] += f.posts[i].slice.length;
}

static void end_posts(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t rail = fake_oldest(0) < fake_oldest(1) ? 0 : 1;

		fake_end(fake_oldest(rail), SLICE_NS / 2, 0);
	}
}

/* All classes compete: their shares are 16 to 4 to 1. */
TEST(shares_follow_weights)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t bytes[SCHED_PRIORITIES];

		start(modes[i], 3);
		for (uint32_t p = 3; p-- > 0;)
			submit(16, p, 31 * SLICE);
		fake_run();
		end_posts(21 * 20);
		count(0, bytes);
		CHECK(bytes[0] / SLICE >= 16 * 20 - 8 && bytes[0] / SLICE <= 16 * 20 + 8);
		CHECK(bytes[1] / SLICE >= 4 * 20 - 4 && bytes[1] / SLICE <= 4 * 20 + 4);
		CHECK(bytes[2] / SLICE >= 20 - 2 && bytes[2] / SLICE <= 20 + 2);
		fake_finish(48, 0);
	}
}

/* The lowest class uses the rails that no other class uses, so no rail is idle. */
TEST(nothing_is_kept_free)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t bytes[SCHED_PRIORITIES];

		start(modes[i], 3);
		submit(1, 2, 31 * SLICE);
		fake_run();
		end_posts(10);
		CHECK(fake_oldest(0) != FAKE_POSTS && fake_oldest(1) != FAKE_POSTS);
		count(0, bytes);
		CHECK_EQ(bytes[2], 12 * SLICE);
		fake_finish(1, 0);
	}
}

/* The bytes that a class got while no other class waited do not change its later share. */
TEST(the_past_does_not_count)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t bytes[SCHED_PRIORITIES];
		uint32_t from;

		start(modes[i], 3);
		submit(20, 0, 31 * SLICE);
		fake_run();
		fake_drain();
		submit(20, 2, 31 * SLICE);
		fake_run();
		end_posts(100);
		from = f.n_posts;
		submit(1, 0, 14 * SLICE);
		fake_run();
		end_posts(14);
		count(from, bytes);
		CHECK(bytes[0] >= 13 * SLICE); /* before all requests that waited */
		fake_finish(41, 0);
	}
}

/* A class does not get back the share that it left to others while it was idle. */
TEST(idleness_earns_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t bytes[SCHED_PRIORITIES];
		uint32_t from;

		start(modes[i], 3);
		submit(20, 0, 31 * SLICE);
		fake_run();
		fake_drain();
		from = f.n_posts;
		for (int n = 0; n < 3; n++) {
			submit(1, 2, 31 * SLICE);
			submit(1, 0, 31 * SLICE);
		}
		fake_run();
		end_posts(50);
		count(from, bytes);
		CHECK(bytes[2] <= 6 * SLICE);
		fake_finish(26, 0);
	}
}

/* Slices of a rail that fails keep their class. */
TEST(failures_keep_the_class)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		start(modes[i], 2);
		submit(1, 1, 8 * SLICE);
		submit(1, 0, 8 * SLICE);
		fake_run();
		sched_rail_down(f.s, f.now, 0);
		fake_run();
		fake_fenced(0, 20000);
		fake_finish(2, 0);
		for (uint32_t p = 0; p < SCHED_PRIORITIES; p++)
			CHECK_EQ(f.s->classes[p].waiting, 0);
	}
}

/* Ends posts, oldest first, until the request of this user ends. Returns their number. */
static uint32_t until_done(uint64_t user)
{
	uint32_t n = 0;

	for (uint32_t i = 0; f.last_user != user; i++) {
		if (f.posts[i].ended)
			continue;
		fake_end(i, SLICE_NS, 0);
		n++;
	}
	return n;
}

/* Short slices get room in windows that longer slices fill again and again. */
TEST(long_slices_leave_room)
{
	struct sched_request req = {.length = 400 * MIB, .user = 7, .priority = 1, .write = true};

	fake_init(TENT_PULL);
	f.config.priorities = 2;
	fake_create();
	CHECK_EQ(sched_submit(f.s, f.now, &req), 0);
	fake_run();
	for (int i = 0; i < 40; i++)
		fake_end((uint32_t)i, 4 * SLICE_NS / 4, 0);
	req = (struct sched_request){.length = SLICE, .user = 8, .priority = 1, .location = 1};
	CHECK_EQ(sched_submit(f.s, f.now, &req), 0);
	CHECK(until_done(8) < 40);
	req = (struct sched_request){.length = SLICE, .user = 9, .priority = 0};
	CHECK_EQ(sched_submit(f.s, f.now, &req), 0);
	CHECK(until_done(9) < 40);
}

TEST(priorities_are_checked)
{
	struct sched_request req = {.length = 1, .priority = 1};

	start(TENT_PULL, 1);
	CHECK_EQ(sched_submit(f.s, f.now, &req), -EINVAL);
	start(TENT_PULL, 2);
	CHECK_EQ(sched_submit(f.s, f.now, &req), 0);
	req.priority = 2;
	CHECK_EQ(sched_submit(f.s, f.now, &req), -EINVAL);
}
