/* SPDX-License-Identifier: MIT */
/* The time from the report of a failure to the next post, and requests while no rail is up. */
#include "fake.h"

#define WAIT_NS 1000000000ull

static void start_patient(enum tent_mode mode)
{
	fake_init(mode);
	f.attr.no_rail_ns = WAIT_NS;
	fake_create();
}

static uint32_t posted_again(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f.n_posts; i++)
		n += f.posts[i].slice.again;
	return n;
}

/*
 * The report of a failure calls rail_ops.fence, which asks the peer to close the pair. After the
 * peer's reply (sched_fenced()) the slices are posted on other rails. No timer of the scheduler is
 * needed in between.
 */
TEST(an_answer_lies_between_and_no_timer)
{
	for (size_t i = 0; fake_each(i); i++) {
		uint32_t posts;

		CHECK_EQ(fake_submit(8 * SLICE), 0);
		CHECK(fake_posted_on(0) > 0);
		posts = f.n_posts;
		CHECK_EQ(fake_complete(fake_oldest(0), -EIO), 0);
		CHECK_EQ(f.fences[0], 1); /* during the call that reports the failure */
		fake_run();
		CHECK_EQ(posted_again(), 0);
		for (uint32_t p = 0; p < posts; p++)
			f.posts[p].ended = true;
		for (uint32_t p = 0; p < posts; p++) {
			if (f.posts[p].rail != 0)
				CHECK_EQ(fake_complete(p, 0), 0);
		}
		fake_run();
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0], 0);
		fake_run();
		CHECK(posted_again() > 0);
		CHECK_EQ(f.fences[0] + f.fences[1] + f.fences[2] + f.fences[3], 1);
		CHECK_EQ(f.probes[0], 0);
		fake_finish(1, 0);
	}
}

static void all_rails_go(void)
{
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		sched_rail_down(f.s, f.now, r);
	fake_run();
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		fake_fenced(r, 20000);
}

/* Requests that were submitted before or during the outage use the rail that comes back. */
TEST(requests_wait_for_a_rail)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		start_patient(modes[i]);
		CHECK_EQ(fake_submit(32 * SLICE), 0);
		all_rails_go();
		CHECK_EQ(fake_submit(3 * SLICE), 0);
		CHECK_EQ(fake_submit_at(40 * SLICE, 1), 0);
		fake_later(WAIT_NS - 1000000);
		CHECK_EQ(f.done, 0);
		fake_return(2);
		fake_finish(3, 0);
	}
}

/* Requests wait for a limited time. After it new requests are refused until a rail is back. */
TEST(requests_wait_so_long)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t since;

		start_patient(modes[i]);
		CHECK_EQ(fake_submit(32 * SLICE), 0);
		since = f.now;
		all_rails_go();
		f.now = since + WAIT_NS - 1;
		fake_run();
		CHECK_EQ(f.done, 0);
		CHECK(f.wake <= since + WAIT_NS);
		f.now = since + WAIT_NS;
		fake_run();
		CHECK_EQ(f.failed, 1);
		CHECK_EQ(f.last_status, -ENETUNREACH);
		CHECK_EQ(fake_submit(SLICE), -ENETUNREACH);
		CHECK_EQ(sched_check(f.s, f.now, 1), -ENETUNREACH);
		fake_return(0);
		CHECK_EQ(sched_check(f.s, f.now, 1), 0);
		CHECK_EQ(fake_submit(SLICE), 0);
		fake_finish(2, 1);
		sched_rail_down(f.s, f.now, 0); /* a new outage: the time begins again */
		fake_fenced(0, 20000);
		CHECK_EQ(fake_submit(SLICE), 0);
		CHECK_EQ(f.failed, 1);
	}
}

TEST(waiting_ends_by_cancel_or_when_the_peer_is_gone)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		start_patient(modes[i]);
		CHECK_EQ(fake_submit(32 * SLICE), 0);
		CHECK_EQ(fake_submit_at(5 * SLICE, 1), 0);
		all_rails_go();
		sched_cancel(f.s, 32 * SLICE, -ECANCELED);
		fake_run();
		CHECK_EQ(f.done, 1);
		CHECK_EQ(f.last_status, -ECANCELED);
		sched_give_up(f.s);
		fake_run();
		CHECK_EQ(f.done, 2);
		CHECK_EQ(f.last_status, -ENETUNREACH);
		CHECK(sched_idle(f.s));
	}
}

/* All slices of the cancelled request wait behind those of another one. */
TEST(a_request_in_the_middle_is_cancelled)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		start_patient(modes[i]);
		CHECK_EQ(fake_submit(4 * SLICE), 0);
		CHECK_EQ(fake_submit(2 * SLICE), 0);
		CHECK_EQ(fake_submit(3 * SLICE), 0);
		all_rails_go();
		sched_cancel(f.s, 2 * SLICE, -ECANCELED);
		fake_run();
		CHECK_EQ(f.done, 1);
		CHECK_EQ(f.last_user, 2 * SLICE);
		CHECK_EQ(f.last_status, -ECANCELED);
		fake_return(0);
		fake_finish(3, 1);
	}
}
