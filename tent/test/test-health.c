/* SPDX-License-Identifier: MIT */
/* The scheduler core (sched.h): outages, probes and returns of rails, and marks. */

#include "fake.h"

TEST(one_outage_is_one_exclusion)
{
	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(16 * MIB), 0);
	for (uint32_t p = 0; p < f.n_posts; p++) {
		if (f.posts[p].rail == 0)
			CHECK_EQ(fake_complete(p, -EIO), 0);
	}
	sched_rail_down(f.s, f.now, 0);
	CHECK_EQ(f.fences[0], 1);
	CHECK_EQ(fake_rail(0).exclusions, 1);
	/* A probe that fails, and a failure in HALF, belong to the same outage. */
	fake_fenced(0, 0);
	fake_later(1000000);
	CHECK_EQ(f.probes[0], 1);
	fake_probed(0, -EIO);
	fake_later(2000000);
	CHECK_EQ(f.probes[0], 2);
	fake_probed(0, 0);
	fake_run();
	CHECK_EQ(fake_rail(0).state, RAIL_HALF);
	sched_rail_down(f.s, f.now, 0);
	CHECK_EQ(f.fences[0], 2);
	CHECK_EQ(fake_rail(0).exclusions, 1);
}

/* Excludes rail 0. Its link is closed, and no other link has been opened. */
static void exclude(void)
{
	sched_rail_down(f.s, f.now, 0);
	fake_fenced(0, 20000);
	CHECK_EQ(fake_rail(0).state, RAIL_DOWN);
	CHECK_EQ(f.probes[0], 0);
}

TEST(a_rail_returns_by_one_slice)
{
	for (size_t i = 0; fake_each(i); i++) {
		uint32_t first;

		exclude();
		CHECK(f.wake <= f.now + 1000000);
		fake_wake();
		CHECK_EQ(f.probes[0], 1);
		sched_probed(f.s, f.now, 0, f.probe_epoch[0] - 1, 0); /* of an earlier open */
		CHECK_EQ(fake_rail(0).state, RAIL_CONNECTING);
		fake_probed(0, 0);
		CHECK_EQ(fake_submit(64 * SLICE), 0);
		CHECK_EQ(fake_posted_on(0), 1);
		first = fake_oldest(0);
		fake_end(first, 8000, 0);
		CHECK_EQ(fake_rail(0).state, RAIL_UP);
		CHECK(fake_posted_on(0) > 2);
		fake_finish(1, 0);
	}
}

/* A slice that ends after a long stall does not count for the rate of the rail after its return. */
TEST(an_outage_is_forgotten)
{
	for (size_t i = 0; fake_each(i); i++) {
		CHECK_EQ(fake_submit(32 * SLICE), 0);
		sched_rail_down(f.s, f.now, 0);
		fake_end(fake_oldest(0), 1900000, 0); /* before the fence: it counts */
		CHECK(fake_rail(0).rate < RATE / 5);
		fake_fenced(0, 100);
		CHECK(fake_rail(0).rate == RATE);
	}
}

TEST(probes_back_off_and_time_out)
{
	uint64_t last = 0, gap = 0;

	fake_start(TENT_PULL);
	exclude();
	for (uint32_t i = 1; i < 30; i++) {
		uint64_t before = f.now;

		while (f.probes[0] < i) {
			CHECK(f.wake > f.now && f.wake != SCHED_NEVER);
			fake_wake();
		}
		gap = f.now - before;
		CHECK(gap + 3000000 >= last); /* without replies the intervals never shrink */
		last = gap;
	}
	CHECK(gap >= 900000000 && gap < 1100000000);
}

TEST(a_port_that_comes_back_is_probed_at_once)
{
	fake_start(TENT_PULL);
	exclude();
	sched_rail_up(f.s, f.now, 0);
	fake_run();
	CHECK_EQ(f.probes[0], 1);
	/* The port is reported up again: the earlier probe may be lost, so a new one is sent. */
	sched_rail_up(f.s, f.now, 0);
	fake_run();
	CHECK_EQ(f.probes[0], 2);
	fake_probed(0, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_HALF);
	/* The port came back while the rail was being fenced. */
	sched_rail_down(f.s, f.now, 0);
	sched_rail_up(f.s, f.now, 0);
	CHECK_EQ(f.probes[0], 2);
	fake_fenced(0, 20000);
	CHECK_EQ(f.probes[0], 3);
	sched_rail_up(f.s, f.now, 99);
	sched_rail_down(f.s, f.now, 99);
}

/*
 * The reply to an open is late: meanwhile the port came back. Then the rail has another link, which
 * has not been probed.
 */
TEST(a_late_answer_opens_nothing)
{
	uint32_t old;

	fake_start(TENT_PULL);
	exclude();
	sched_rail_up(f.s, f.now, 0);
	fake_run();
	old = f.probe_epoch[0];
	sched_connected(f.s, f.now, 0, old, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_PROBING);
	sched_rail_up(f.s, f.now, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_DOWN);
	CHECK(f.closed[0]);
	sched_probed(f.s, f.now, 0, old, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_DOWN);
	CHECK_EQ(sched_mark(f.s, f.now, 0, 1, 0), -ENOTCONN);
	fake_run();
	CHECK_EQ(f.probes[0], 2);
	sched_connected(f.s, f.now, 0, old, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_CONNECTING);
	sched_connected(f.s, f.now, 0, f.probe_epoch[0], 0);
	sched_probed(f.s, f.now, 0, old, 0);
	CHECK_EQ(fake_rail(0).state, RAIL_PROBING);
	sched_probed(f.s, f.now, 0, f.probe_epoch[0], 0);
	CHECK_EQ(fake_rail(0).state, RAIL_HALF);
}

/*
 * Reports and replies come in all states of the rails, in random order. A link must exist in all
 * states but DOWN.
 */
TEST(links_are_opened_and_closed_in_turn)
{
	uint64_t seed = test_seed();

	fake_start(TENT_PULL);
	for (int i = 0; i < 20000; i++) {
		uint32_t rail = (uint32_t)(test_rand(&seed) % FAKE_RAILS), late;
		int status = test_rand(&seed) % 3 ? 0 : -EIO;

		late = test_rand(&seed) % 4 ? 0 : 1;
		f.open_error[rail] = test_rand(&seed) % 4 ? 0 : -ENODEV;
		switch (test_rand(&seed) % 6) {
		case 0:
			sched_rail_down(f.s, f.now, rail);
			break;
		case 1:
			sched_rail_up(f.s, f.now, rail);
			break;
		case 2:
			sched_fenced(f.s, f.now, rail, f.fence_epoch[rail] - late, status);
			break;
		case 3:
			sched_connected(f.s, f.now, rail, f.probe_epoch[rail] - late, status);
			break;
		case 4:
			sched_probed(f.s, f.now, rail, f.probe_epoch[rail] - late, status);
			break;
		default:
			fake_later(test_rand(&seed) % 3000000);
		}
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			CHECK_EQ(f.closed[r], sched_rail_state(f.s, r) == RAIL_DOWN);
	}
}

/*
 * Rails that begin closed are opened by the first run; after the first successful probe they are
 * UP, without the state HALF.
 */
TEST(rails_may_begin_closed)
{
	fake_init(TENT_PULL);
	f.attr.first_open_ns = 3000000000;
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		f.closed[r] = true;
	fake_create();
	CHECK(!sched_rail_in_use(f.s, 0));
	fake_run();
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		CHECK_EQ(fake_rail(r).state, RAIL_CONNECTING);
	fake_later(f.attr.first_open_ns - 1);
	for (uint32_t r = 0; r < 3; r++) {
		fake_probed(r, 0);
		CHECK_EQ(fake_rail(r).state, RAIL_UP);
	}
	f.now++;
	fake_run();
	CHECK_EQ(fake_rail(3).state, RAIL_DOWN);
	CHECK(f.wake <= f.now + 1000000); /* the rail is tried again */
	CHECK_EQ(fake_submit(64 * SLICE), 0);
	fake_finish(1, 0);
}

/* ---- marks ---- */

static const struct fake_mark *last_mark(void)
{
	CHECK(f.n_marks > 0);
	return &f.marks[f.n_marks - 1];
}

/* The end of a mark is reported once. A mark counts as under way, but not as bytes. */
TEST(a_mark_is_in_the_ledger)
{
	fake_start(TENT_PULL);
	CHECK_EQ(sched_mark(f.s, f.now, 2, 77, 5), 0);
	CHECK(!sched_idle(f.s));
	CHECK_EQ(fake_rail(2).inflight, 0);
	CHECK(f.posts[0].slice.mark && f.posts[0].slice.user == 77);
	CHECK_EQ(f.posts[0].slice.position, 5);
	CHECK_EQ(f.posts[0].slice.length, 0);
	f.posts[0].ended = true;
	CHECK_EQ(fake_complete(0, 0), SCHED_MARK);
	CHECK_EQ(f.n_marks, 1);
	CHECK(last_mark()->user == 77 && last_mark()->position == 5 && !last_mark()->status);
	CHECK_EQ(fake_complete(0, 0), -ESTALE);
	CHECK_EQ(f.n_marks, 1);
	CHECK(sched_idle(f.s));
	CHECK_EQ(fake_rail(2).slices, 0);
}

/* The end of each mark is reported once, when the rail has been fenced, and not before. */
TEST(marks_of_a_failed_rail_come_back)
{
	for (int how = 0; how < 3; how++) {
		fake_start(TENT_PULL);
		CHECK_EQ(fake_submit(8 * SLICE), 0);
		for (uint32_t i = 0; i < 3; i++)
			CHECK_EQ(sched_mark(f.s, f.now, 0, 9, i), 0);
		if (how == 0)
			sched_rail_down(f.s, f.now, 0);
		else
			CHECK_EQ(fake_complete(f.n_posts - 2, how == 1 ? -EIO : -ECANCELED),
				SCHED_MARK);
		CHECK_EQ(f.n_marks, 0);
		CHECK_EQ(sched_mark(f.s, f.now, 0, 9, 4), -ENOTCONN);
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0], how == 2 ? -ETIMEDOUT : 0);
		CHECK_EQ(f.n_marks, 3);
		for (uint32_t i = 0; i < 3; i++) {
			CHECK_EQ(f.marks[i].position, i);
			CHECK_EQ(f.marks[i].status, how == 1 && i == 1 ? -EIO : -ENOTCONN);
		}
		fake_run();
		fake_drain();
		CHECK_EQ(f.n_marks, 3);
		CHECK(f.done == 1 && sched_idle(f.s));
	}
}

/* A mark has no request. If the peer refuses it, the rail fails. */
TEST(a_mark_that_is_refused)
{
	fake_start(TENT_PULL);
	CHECK_EQ(sched_mark(f.s, f.now, 1, 9, 0), 0);
	CHECK_EQ(sched_refused(f.s, f.now, f.posts[0].slice.token, -EFAULT), SCHED_MARK);
	CHECK_EQ(f.fences[1], 1);
	sched_fenced(f.s, f.now, 1, f.fence_epoch[1], 0);
	CHECK(f.n_marks == 1 && last_mark()->status == -EFAULT);
	CHECK(sched_idle(f.s));
}

/* The measurements of the rail do not change. */
TEST(a_mark_is_no_sample)
{
	double rate;

	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(32 * SLICE), 0);
	fake_end(fake_oldest(0), 100000, 0);
	rate = fake_rail(0).rate;
	CHECK(rate < RATE);
	CHECK_EQ(sched_mark(f.s, f.now, 0, 9, 0), 0);
	f.posts[f.n_posts - 1].ended = true;
	CHECK_EQ(sched_completed(f.s, f.now + 1000, f.posts[f.n_posts - 1].slice.token, 0),
		SCHED_MARK);
	CHECK(fake_rail(0).rate == rate);
	f.now += 1000;
	fake_finish(1, 0);
}

TEST(a_mark_that_is_silent_has_a_deadline)
{
	fake_start(TENT_PULL);
	CHECK_EQ(sched_mark(f.s, f.now, 1, 3, 0), 0);
	fake_run();
	CHECK(f.wake <= f.now + SCHED_STALL_MAX_NS);
	fake_wake();
	CHECK_EQ(f.fences[1], 1);
	fake_fenced(1, 20000);
	CHECK_EQ(f.n_marks, 1);
	CHECK_EQ(last_mark()->status, -ETIMEDOUT);
	CHECK(sched_idle(f.s));
}

/* If a slice's memory is missing, its request ends; the rail carries the next requests. */
TEST(a_slice_that_no_rail_can_carry)
{
	for (size_t i = 0; fake_each(i); i++) {
		CHECK_EQ(fake_submit(SLICE), 0);
		CHECK_EQ(f.n_posts, 1);
		f.posts[0].ended = true;
		CHECK_EQ(sched_refused(f.s, f.now, f.posts[0].slice.token, -EFAULT), 0);
		CHECK_EQ(sched_refused(f.s, f.now, f.posts[0].slice.token, -EFAULT), -ESTALE);
		fake_run();
		CHECK_EQ(f.done, 1);
		CHECK_EQ(f.last_status, -EFAULT);
		CHECK(sched_idle(f.s));
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			CHECK_EQ(fake_rail(r).state, RAIL_UP);
			CHECK_EQ(fake_rail(r).exclusions, 0);
		}
		CHECK_EQ(fake_submit(SLICE), 0);
		fake_finish(2, 1);
		CHECK_EQ(f.last_status, 0);
	}
}

/* In HALF a rail carries one slice or mark, and is UP when that has arrived. */
TEST(a_mark_on_trial)
{
	for (size_t i = 0; fake_each(i); i++) {
		exclude();
		fake_wake();
		fake_probed(0, 0);
		CHECK_EQ(sched_mark(f.s, f.now, 0, 3, 0), 0);
		CHECK_EQ(sched_mark(f.s, f.now, 0, 3, 1), -EAGAIN);
		CHECK_EQ(fake_submit(64 * SLICE), 0);
		CHECK_EQ(fake_posted_on(0), 1);
		f.posts[0].ended = true;
		CHECK_EQ(fake_complete(0, 0), SCHED_MARK);
		CHECK_EQ(fake_rail(0).state, RAIL_UP);
		fake_run();
		CHECK(fake_posted_on(0) > 1);
		fake_finish(1, 0);
	}
}

/* The rail fails if a post fails, but not if its queue is full. The number of marks is limited. */
TEST(marks_that_cannot_be_posted)
{
	uint32_t n = 0;

	fake_start(TENT_PULL);
	f.post_error[0] = -EAGAIN;
	CHECK_EQ(sched_mark(f.s, f.now, 0, 3, 0), -EAGAIN);
	CHECK_EQ(fake_rail(0).state, RAIL_UP);
	f.post_error[0] = -EIO;
	CHECK_EQ(sched_mark(f.s, f.now, 0, 3, 0), -ENOTCONN);
	CHECK_EQ(fake_rail(0).state, RAIL_FENCING);
	CHECK(sched_idle(f.s));
	while (!sched_mark(f.s, f.now, 1, 3, n))
		n++;
	CHECK_EQ(n, 4096);
	CHECK_EQ(f.n_marks, 0);
}

/* A flushed slice does not count as failed, however often it is flushed. */
TEST(flushed_slices_do_not_end_their_request)
{
	for (size_t i = 0; fake_each(i); i++) {
		CHECK_EQ(fake_submit(1), 0);
		for (int n = 0; n < 30; n++) {
			uint32_t rail = f.posts[f.n_posts - 1].rail;

			CHECK_EQ(fake_complete(f.n_posts - 1, -ECANCELED), 0);
			fake_fenced(rail, 1000);
			fake_return(rail);
		}
		CHECK_EQ(f.done, 0);
		fake_finish(1, 0);
	}
}

/* Returns the time from the last completion of rail 0 to its fence. */
static uint64_t stall_found_after(double rate, enum tent_mode mode)
{
	uint64_t from, ns;

	fake_init(mode);
	f.config.strict_numa = true;
	f.rails[0].rate = f.rails[1].rate = rate;
	fake_create();
	sched_rail_down(f.s, f.now, 1);
	CHECK_EQ(fake_submit(4 * MIB), 0);
	fake_end(0, 5000 + (uint64_t)(SLICE / rate), 0);
	from = f.now;
	while (!f.fences[0]) {
		CHECK(f.wake > f.now && f.wake < f.now + 60000000);
		fake_wake();
	}
	ns = f.now - from;
	return ns;
}

TEST(silent_stalls_are_found_by_their_rate)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		CHECK(stall_found_after(RATE, modes[i]) <= 3000000);
		CHECK(stall_found_after(RATE / 100, modes[i]) >= 3000000);
		CHECK(stall_found_after(RATE / 100, modes[i]) <= 50000000);
		CHECK(stall_found_after(1e-6, modes[i]) <= 50000000);
	}
}

TEST(a_slow_rail_is_not_a_dead_one)
{
	fake_start_two(TENT_PULL, RATE);
	CHECK_EQ(fake_submit(64 * MIB), 0);
	/* Suddenly the rate is a twentieth of the expected one. */
	for (int i = 0; i < 40; i++) {
		fake_end(fake_oldest(0), 20 * 4 * SLICE_NS, 0);
		fake_end(fake_oldest(1), 0, 0);
	}
	CHECK_EQ(f.fences[0] + f.fences[1], 0);
}

/* All rails may be silent for @ns. */
static void be_patient(uint64_t ns)
{
	fake_init(TENT_PULL);
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		f.rails[r].stall_min_ns = ns;
}

/* The time for which a rail may be silent can be set, also to no limit. */
TEST(patience_can_be_set)
{
	be_patient(SCHED_STALL_MAX_NS + 1);
	CHECK_EQ(sched_create(&f.attr, &f.s), -EINVAL);
	be_patient(30000000);
	fake_create();
	CHECK_EQ(fake_submit(SLICE), 0);
	fake_later(29000000);
	CHECK_EQ(f.fences[f.posts[0].rail], 0);
	fake_later(1000001);
	CHECK_EQ(f.fences[f.posts[0].rail], 1);
	be_patient(SCHED_NEVER);
	fake_create();
	CHECK_EQ(fake_submit(SLICE), 0);
	fake_later(1ull << 60);
	CHECK_EQ(f.fences[f.posts[0].rail], 0);
	CHECK_EQ(f.wake, SCHED_NEVER);
}

/* A rail of each kind may be silent for its own time. */
TEST(each_rail_has_its_patience)
{
	be_patient(SCHED_NEVER);
	f.rails[1].stall_min_ns = 0;
	fake_create();
	CHECK_EQ(fake_submit(64 * MIB), 0);
	CHECK(fake_posted_on(0) && fake_posted_on(1));
	fake_later(SCHED_STALL_MAX_NS);
	CHECK_EQ(f.fences[0], 0);
	CHECK_EQ(f.fences[1], 1);
}
