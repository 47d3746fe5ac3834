/* SPDX-License-Identifier: MIT */
/* The rails that slices are given to, in each of the modes. */
#include "fake.h"

static void check_rails(uint32_t from, const char *rails)
{
	for (uint32_t i = 0; rails[i]; i++) {
		CHECK(from + i < f.n_posts);
		CHECK_EQ(f.posts[from + i].rail, rails[i] - '0');
	}
}

TEST(baseline_takes_turns_in_the_best_tier)
{
	fake_start(TENT_BASELINE);
	for (int i = 0; i < 7; i++)
		CHECK_EQ(fake_submit(SLICE), 0);
	check_rails(0, "0101010");
	CHECK_EQ(fake_submit(3 * SLICE), 0);
	/* The slices of one request are posted rail by rail. */
	CHECK_EQ(fake_posted_on(0), 5);
	CHECK_EQ(fake_posted_on(1), 5);
	CHECK_EQ(fake_submit_at(2 * SLICE, 1), 0);
	check_rails(10, "23");
	fake_finish(9, 0);
}

TEST(baseline_goes_on_in_the_next_tier)
{
	fake_start(TENT_BASELINE);
	sched_rail_down(f.s, f.now, 0);
	CHECK_EQ(fake_submit(2 * SLICE), 0);
	check_rails(0, "11");
	sched_rail_down(f.s, f.now, 1);
	CHECK_EQ(fake_submit(2 * SLICE), 0);
	check_rails(2, "23");
}

TEST(strict_numa_uses_no_other_tier)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		fake_init(modes[i]);
		f.config.strict_numa = true;
		f.config.numa_penalties[2] = 1;
		fake_create();
		for (int n = 0; n < 30; n++)
			CHECK_EQ(fake_submit(8 * MIB), 0);
		fake_drain();
		CHECK_EQ(fake_posted_on(2) + fake_posted_on(3), 0);
		sched_rail_down(f.s, f.now, 0);
		sched_rail_down(f.s, f.now, 1);
		CHECK_EQ(fake_submit(SLICE), -ENETUNREACH);
		CHECK_EQ(fake_submit_at(SLICE, 1), 0);
	}
}

TEST(smart_single_slices_go_to_the_best)
{
	uint32_t n[FAKE_RAILS] = {0};

	fake_start(TENT_SMART);
	/*
	 * The penalty of a remote rail is ten times as high, so each local rail first gets nine
	 * slices.
	 */
	for (int i = 0; i < 18; i++)
		CHECK_EQ(fake_submit(SLICE), 0);
	for (uint32_t i = 0; i < f.n_posts; i++)
		n[f.posts[i].rail]++;
	CHECK(n[0] == 9 && n[1] == 9 && n[2] == 0 && n[3] == 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(fake_submit(SLICE), 0);
	CHECK(fake_posted_on(2) + fake_posted_on(3) >= 1);
}

TEST(penalties_of_one_make_rails_equal)
{
	fake_init(TENT_SMART);
	f.config.numa_penalties[1] = f.config.numa_penalties[2] = 1;
	fake_create();
	for (int i = 0; i < 40; i++)
		CHECK_EQ(fake_submit(SLICE), 0);
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		CHECK_EQ(fake_posted_on(r), 10);
}

TEST(equal_scores_are_shared)
{
	uint64_t zero;

	fake_start(TENT_SMART);
	/* One request at a time, so that both local rails are always equally good. */
	for (int i = 0; i < 90; i++) {
		CHECK_EQ(fake_submit(SLICE), 0);
		/* The slice takes the time that its link needs, so the rate does not change. */
		fake_end(f.n_posts - 1, 5000 + SLICE_NS, 0);
	}
	zero = fake_posted_on(0);
	CHECK_EQ(zero + fake_posted_on(1), 90);
	CHECK(zero > 20 && zero < 70);
}

TEST(smart_shares_after_bandwidth)
{
	fake_start_two(TENT_SMART, 2 * RATE);
	CHECK_EQ(fake_submit(32 * SLICE), 0);
	/* 32 slices divided 1 : 2 and rounded down; the remaining slice goes to the best rail. */
	CHECK_EQ(fake_posted_on(0), 10);
	CHECK_EQ(fake_posted_on(1), 22);
}

TEST(smart_allocates_at_once_from_half_the_cap)
{
	fake_start(TENT_SMART);
	CHECK_EQ(fake_submit(15 * SLICE), 0);
	CHECK_EQ(f.s->calls, 15);
	CHECK_EQ(fake_submit(16 * SLICE), 0);
	CHECK_EQ(f.s->calls, 16);
	/* A read of up to twice as many slices is one call, too. */
	struct sched_request read = {.length = 31 * SLICE};

	CHECK_EQ(sched_submit(f.s, f.now, &read), 0);
	CHECK_EQ(f.s->calls, 16 + 31);
	read.length = 32 * SLICE;
	CHECK_EQ(sched_submit(f.s, f.now, &read), 0);
	CHECK_EQ(f.s->calls, 16 + 32);
}

TEST(every_hundredth_call_is_a_probe)
{
	fake_start(TENT_SMART);
	for (uint32_t call = 1; call <= 400; call++) {
		CHECK_EQ(fake_submit(SLICE), 0);
		if (call % 100 == 0)
			CHECK_EQ(f.posts[f.n_posts - 1].rail, call / 100 - 1);
		else
			CHECK(f.posts[f.n_posts - 1].rail < 2);
		fake_end(f.n_posts - 1, 5000 + SLICE_NS, 0);
	}
	/* The slices of a large request go to all rails in turn. */
	f.s->calls = 499;
	f.n_posts = 0;
	CHECK_EQ(fake_submit(32 * SLICE), 0);
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		CHECK_EQ(fake_posted_on(r), 8);
}

TEST(pull_keeps_slices_until_a_window_has_room)
{
	uint64_t posted = 0;

	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(64 * MIB), 0);
	for (uint32_t r = 0; r < FAKE_RAILS; r++) {
		uint64_t window = (uint64_t)(2 * RATE * 5000) + 2 * 256 * KIB;

		CHECK(fake_rail(r).inflight <= window);
		CHECK(fake_rail(r).inflight + 256 * KIB > window);
		posted += fake_rail(r).inflight;
	}
	CHECK(posted < 4 * MIB);
	/*
	 * After each completion, at the time at which the link would complete, one slice is posted
	 * on the same rail.
	 */
	for (uint32_t r = 0; r < FAKE_RAILS; r++) {
		uint32_t n = f.n_posts;

		fake_end(fake_oldest(r), r ? 0 : 5000 + 4 * SLICE_NS, 0);
		CHECK_EQ(f.n_posts, n + 1);
		CHECK_EQ(f.posts[n].rail, r);
	}
	fake_finish(1, 0);
}

TEST(pull_leaves_the_tail_to_the_fast)
{
	fake_start_two(TENT_PULL, RATE / 10);
	/*
	 * The slow rail takes 26 us for a slice, the time in which the fast rail sends ten slices.
	 */
	CHECK_EQ(fake_submit(9 * SLICE), 0);
	CHECK_EQ(fake_posted_on(1), 0);
	fake_drain();
	CHECK_EQ(fake_posted_on(1), 0);
	fake_create();
	CHECK_EQ(fake_submit(11 * SLICE), 0);
	CHECK_EQ(fake_posted_on(1), 1);
	fake_finish(2, 0);
}

/* While all rails are idle no slice waits, whatever the rates and the length. */
TEST(pull_leaves_nothing_to_idle_rails)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 300; i++) {
		uint64_t length = SLICE + test_rand(&seed) % (4 * SLICE);

		fake_init(TENT_PULL);
		memset(f.tiers, 0, sizeof(f.tiers));
		for (uint32_t r = 0; r < FAKE_RAILS && i % 2; r++)
			f.rails[r].rate = RATE * (1 + (double)(test_rand(&seed) % 64) / 8);
		fake_create();
		CHECK_EQ(fake_submit(length), 0);
		fake_finish(1, 0);
	}
}

TEST(pull_looks_again_when_the_fast_prove_slow)
{
	fake_start_two(TENT_PULL, RATE / 10);
	CHECK_EQ(fake_submit(9 * SLICE), 0);
	CHECK_EQ(fake_posted_on(1), 0);
	/* No slice completes. The slow rail gets a slice long before the stall is detected. */
	for (int i = 0; i < 100 && !fake_posted_on(1); i++) {
		CHECK(f.wake > f.now && f.wake < f.now + 2000000);
		fake_wake();
	}
	CHECK(fake_posted_on(1) >= 1);
	CHECK_EQ(f.fences[0], 0);
}

TEST(pull_tries_a_slow_rail_again)
{
	fake_start_two(TENT_PULL, RATE);
	CHECK_EQ(fake_submit(8 * MIB), 0);
	while (!f.done) { /* rail 1 takes ten times as long */
		if (fake_oldest(1) < FAKE_POSTS)
			fake_end(fake_oldest(1), 0, 0);
		for (int i = 0; i < 10 && fake_oldest(0) < FAKE_POSTS; i++)
			fake_end(fake_oldest(0), 4 * SLICE_NS, 0);
	}
	f.n_posts = 0;
	CHECK_EQ(fake_submit(8 * SLICE), 0);
	CHECK_EQ(fake_posted_on(1), 0);
	fake_drain();
	f.now += 1000000000;
	f.n_posts = 0;
	CHECK_EQ(fake_submit(8 * SLICE), 0);
	CHECK(fake_posted_on(1) > 0);
	fake_drain();
}

TEST(pull_prefers_local_rails)
{
	fake_start(TENT_PULL);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(fake_submit(2 * SLICE), 0);
		fake_drain();
	}
	CHECK_EQ(fake_posted_on(2) + fake_posted_on(3), 0);
}

TEST(pull_counts_with_shared_links)
{
	double link = 5;

	fake_init(TENT_PULL);
	f.rails[2].group = f.rails[3].group = 0;
	f.attr.n_groups = 1;
	f.attr.group_rates = &link;
	fake_create();
	/*
	 * 20 slices take 31 us on the two rails of 25 bytes per ns; one slice takes 32 us at 2.5
	 * bytes per ns, half of the shared link.
	 */
	CHECK_EQ(fake_submit(20 * SLICE), 0);
	fake_drain();
	CHECK_EQ(fake_posted_on(2) + fake_posted_on(3), 0);
}

TEST(pull_serves_short_requests_first)
{
	uint32_t n;

	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(64 * MIB), 0);
	CHECK_EQ(fake_submit(SLICE), 0);
	n = f.n_posts;
	fake_end(fake_oldest(0), 16000, 0);
	CHECK_EQ(f.posts[n].slice.user, SLICE);
	/* A request that has waited long enough is served before short requests that come later. */
	for (uint32_t i = 0; i < 40; i++)
		fake_end(fake_oldest(i % 4), 250000, 0);
	CHECK_EQ(fake_submit(SLICE), 0);
	for (uint32_t r = 0; r < FAKE_RAILS; r++) {
		n = f.n_posts;
		fake_end(fake_oldest(r), 0, 0);
		for (; n < f.n_posts; n++)
			CHECK_EQ(f.posts[n].slice.user, 64 * MIB);
	}
}

/* Returns a digest of all decisions for random requests. */
static uint64_t trace(enum tent_mode mode, uint64_t seed)
{
	uint64_t random = 5, digest = 0;

	fake_init(mode);
	f.attr.seed = seed;
	fake_create();
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(fake_submit_at(1 + test_rand(&random) % (MIB / 4), i % 2), 0);
		if (i % 3 == 2)
			fake_drain();
	}
	fake_drain();
	for (uint32_t i = 0; i < f.n_posts; i++)
		digest = digest * 31 + f.posts[i].rail + 7 * f.posts[i].slice.offset;
	CHECK(sched_idle(f.s));
	return digest;
}

/* Submits @n requests of this length when waking a rail takes as long as @wake slices. */
static void submit_asleep(uint32_t n, uint64_t len, double wake, uint32_t most)
{
	fake_init(TENT_PULL);
	f.attr.wake_ns = (uint64_t)(wake * SLICE / RATE);
	f.attr.most_awake = most;
	fake_create();
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(fake_submit(len), 0);
	fake_drain();
}

static uint32_t rails_used(void)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		n += fake_posted_on(r) != 0;
	return n;
}

/*
 * A request wakes one rail, and more of them only if each gets work that takes at least as long as
 * waking it.
 */
TEST(pull_wakes_what_requests_are_worth)
{
	static const struct {
		uint32_t n, slices;
		double wake;
		uint32_t most, rails;
	} cases[] = {
		{1, 1, 4, 4, 1},
		{1, 8, 10, 4, 1},
		{1, 8, 4, 4, 2},
		{1, 9, 3, 4, 3},
		{1, 16, .5, 4, 4},
		{1, 16, .5, 2, 2}, /* no more than two can work at the same time */
		{1, 16, .5, 99, 4},
		{3, 2, 4, 4, 3}, /* each request wakes a rail */
		{9, 2, 4, 3, 3},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		submit_asleep(cases[i].n, cases[i].slices * SLICE, cases[i].wake, cases[i].most);
		CHECK_EQ(rails_used(), cases[i].rails);
	}
}

/* Requests that have ended do not wake rails. */
TEST(pull_wakes_nobody_for_those_that_ended)
{
	uint32_t before;

	submit_asleep(4, SLICE, 1000, 4);
	CHECK_EQ(rails_used(), 4);
	before = f.n_posts;
	CHECK_EQ(fake_submit(16 * MIB), 0);
	fake_drain();
	CHECK_EQ(f.n_posts, before + 4);
	for (uint32_t i = before; i < f.n_posts; i++)
		CHECK_EQ(f.posts[i].rail, f.posts[before].rail);
}

/* A request that wakes only one rail has long slices, because its rail need not wait for others. */
TEST(pull_tells_what_is_worth_one_rail)
{
	submit_asleep(1, 8 * MIB + 1, 1000, 4);
	CHECK_EQ(f.n_posts, 2);
	for (uint32_t i = 0; i < f.n_posts; i++)
		CHECK(f.posts[i].slice.alone);
	submit_asleep(1, 8 * MIB + 1, 16, 4);
	CHECK(f.n_posts >= 4);
	for (uint32_t i = 0; i < f.n_posts; i++)
		CHECK(!f.posts[i].slice.alone);
	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(SLICE), 0);
	CHECK(!f.posts[0].slice.alone); /* sched_attr.wake_ns is 0 */
}

/* Rails 2 and 3 are the best ones for location 1. */
TEST(pull_offers_an_idle_rail_of_the_best_tier)
{
	fake_start(TENT_PULL);
	CHECK_EQ(sched_idle_rail(f.s, 0), 0);
	CHECK_EQ(sched_idle_rail(f.s, 1), 2);
	fake_start_two(TENT_PULL, RATE);
	CHECK_EQ(fake_submit_at(SLICE, 1), 0);
	CHECK_EQ(f.posts[0].rail, 2);
	CHECK_EQ(sched_idle_rail(f.s, 1), 3);
	sched_rail_down(f.s, f.now, 3);
	CHECK_EQ(sched_idle_rail(f.s, 1), SCHED_NO_RAIL);
	fake_end(0, 0, 0);
	CHECK_EQ(sched_idle_rail(f.s, 1), 2);
	CHECK_EQ(fake_submit(64 * MIB), 0); /* a part of the request waits */
	CHECK_EQ(sched_idle_rail(f.s, 1), SCHED_NO_RAIL);
	fake_start(TENT_BASELINE);
	CHECK_EQ(sched_idle_rail(f.s, 0), SCHED_NO_RAIL);
}

TEST(what_the_caller_moves_counts)
{
	const struct sched_moved near = {f.now, f.now + SLICE_NS, SLICE, 0, 0, 0, 0};
	struct sched_moved far = near;
	struct sched_stats st;

	fake_start(TENT_PULL);
	far.location = 1;
	sched_moved(f.s, &near);
	sched_moved(f.s, &far);
	sched_stats(f.s, &st);
	CHECK_EQ(st.requests, 2);
	CHECK_EQ(st.slices, 2);
	CHECK_EQ(st.remote_bytes, SLICE);
	CHECK_EQ(fake_rail(0).bytes, 2 * SLICE);
	CHECK_EQ(fake_rail(0).slices, 2);
	CHECK(sched_idle(f.s));
}

/*
 * Moves of several threads on one rail, or at the same time as its posted slices, are no samples:
 * each takes longer than the rail needs for it.
 */
TEST(moves_beside_others_are_no_samples)
{
	struct sched_moved m = {f.now, f.now + SLICE_NS, SLICE, 0, 0, 0, 0};
	double rate;

	fake_start(TENT_PULL);
	sched_moved(f.s, &m);
	rate = fake_rail(0).rate;
	for (int i = 0; i < 8; i++) {
		m.from++;
		m.to++;
		sched_moved(f.s, &m);
	}
	CHECK_EQ(fake_rail(0).slices, 9);
	CHECK(fake_rail(0).rate == rate);
	f.now = m.to;
	CHECK_EQ(fake_submit(SLICE), 0);
	m.rail = f.posts[0].rail;
	m.from = m.to;
	m.to += 100 * SLICE_NS;
	rate = fake_rail(m.rail).rate;
	sched_moved(f.s, &m);
	CHECK(fake_rail(m.rail).rate == rate);
	fake_drain();
	m.from = f.now;
	m.to = m.from + 100 * SLICE_NS;
	sched_moved(f.s, &m);
	CHECK(fake_rail(m.rail).rate < rate);
}

/* The rail that is awake gets the slices. If it fails, another rail is woken. */
TEST(pull_wakes_another_for_a_failed_rail)
{
	fake_init(TENT_PULL);
	f.attr.wake_ns = SLICE;
	f.attr.most_awake = 1;
	fake_create();
	CHECK_EQ(fake_submit(64 * MIB), 0);
	CHECK_EQ(rails_used(), 1);
	sched_rail_down(f.s, f.now, f.posts[0].rail);
	fake_drain();
	CHECK_EQ(rails_used(), 2);
}

TEST(the_same_seed_decides_the_same)
{
	CHECK(trace(TENT_SMART, 1) == trace(TENT_SMART, 1));
	CHECK(trace(TENT_SMART, 1) != trace(TENT_SMART, 2));
	CHECK(trace(TENT_PULL, 1) == trace(TENT_PULL, 1));
	CHECK(trace(TENT_BASELINE, 1) == trace(TENT_BASELINE, 1));
}
