/* SPDX-License-Identifier: MIT */
/* The scheduler core (sched.h): arguments, requests, rails' ledgers, learning, errors. */
#include <math.h>

#include "fake.h"

static uint64_t allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);

void *__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	allocations++;
	return __real_calloc(n, m);
}

TEST(refuses_bad_attributes)
{
	struct sched_attr good, a;
	struct sched *s = NULL;
	double link = -1;

	fake_init(TENT_PULL);
	good = f.attr;
#define REFUSED(change)                                                                            \
	a = good;                                                                                  \
	change;                                                                                    \
	CHECK_EQ(sched_create(&a, &s), -EINVAL)
	REFUSED(a.n_rails = 0);
	REFUSED(a.n_rails = SCHED_MAX_RAILS + 1);
	REFUSED(a.n_locations = 0);
	REFUSED(a.wake_ns = 1);
	REFUSED(a.most_awake = 1);
	REFUSED(a.n_locations = SCHED_MAX_LOCATIONS + 1);
	REFUSED(a.n_groups = SCHED_MAX_GROUPS + 1);
	REFUSED((a.n_groups = 1, a.group_rates = &link));
	REFUSED(a.max_requests = UINT32_MAX);
	REFUSED(a.max_slices = UINT32_MAX);
	REFUSED(f.rails[1].rate = 0);
	REFUSED(f.rails[1].rate = INFINITY);
	REFUSED(f.rails[1].rate = NAN);
	f.rails[1].rate = RATE;
	REFUSED(f.rails[3].group = 0);
	f.rails[3].group = SCHED_NO_GROUP;
	REFUSED(f.tiers[5] = TENT_TIERS);
#undef REFUSED
	CHECK(!s);
	sched_destroy(NULL);
}

TEST(refuses_bad_requests)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		const uint64_t cuts[] = {200, 100};
		struct sched_request req = {.length = 300, .cuts = cuts, .n_cuts = 2};

		fake_init(modes[i]);
		f.attr.max_requests = 2;
		f.attr.max_slices = 20;
		fake_create();
		CHECK_EQ(sched_submit(f.s, f.now, &req), -EINVAL);
		CHECK_EQ(fake_submit(0), -EINVAL);
		CHECK_EQ(fake_submit(UINT64_MAX), -EINVAL);
		CHECK_EQ(fake_submit_at(1, 2), -EINVAL);
		if (modes[i] != TENT_PULL) {
			CHECK_EQ(fake_submit(21 * SLICE), -EMSGSIZE);
			CHECK_EQ(fake_submit(20 * SLICE), 0);
			CHECK_EQ(fake_submit(1), -EAGAIN); /* no slice is left */
		} else {
			CHECK_EQ(fake_submit(100 * SLICE), 0); /* cut when there is room */
			CHECK_EQ(fake_submit(1), 0);
			CHECK_EQ(fake_submit(1), -EAGAIN);
		}
		fake_drain();
		CHECK(sched_idle(f.s));
		CHECK_EQ(f.failed, 0);
	}
}

/* Checks that each ledger is the sum of the slices that are posted on the rail or bound to it. */
static void check_ledger(void)
{
	uint64_t posted[FAKE_RAILS] = {0};

	for (uint32_t r = 0; r < FAKE_RAILS; r++) {
		for (uint32_t i = f.s->bound[r].head; i != NO_SLICE; i = f.s->slices[i].next)
			posted[r] += f.s->slices[i].length;
	}
	for (uint32_t i = 0; i < f.n_posts; i++) {
		if (!f.posts[i].ended)
			posted[f.posts[i].rail] += f.posts[i].slice.length;
	}
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		CHECK_EQ(fake_rail(r).inflight, posted[r]);
}

TEST(ledger_is_exact)
{
	uint64_t seed = test_seed();

	for (int round = 0; round < 150; round++) {
		fake_init(modes[round % 3]);
		fake_create();
		for (int i = 0; i < 100; i++) {
			uint32_t rail = (uint32_t)(test_rand(&seed) % FAKE_RAILS);
			uint32_t post = fake_oldest(rail);
			uint64_t what = test_rand(&seed) % 16;

			if (what < 4)
				(void)fake_submit_at(1 + test_rand(&seed) % (4 * MIB), what % 2);
			else if (what < 14 && post < FAKE_POSTS)
				fake_end(post, test_rand(&seed) % 5000, 0);
			else if (what == 14 && post < FAKE_POSTS)
				(void)fake_complete(post, -EIO);
			else if (fake_rail(rail).state == RAIL_FENCING)
				fake_fenced(rail, 20000);
			if (fake_rail(rail).state == RAIL_CONNECTING)
				fake_probed(rail, 0);
			check_ledger();
		}
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			if (fake_rail(r).state == RAIL_FENCING)
				fake_fenced(r, 0);
		}
		fake_run();
		fake_drain();
		CHECK(sched_idle(f.s)); /* it asserts that no slice is left */
		check_ledger();
	}
}

TEST(every_byte_is_posted_once)
{
	for (size_t i = 0; fake_each(i); i++) {
		uint64_t sum = 0, bytes = 33 * SLICE + 5;

		CHECK_EQ(fake_submit(bytes), 0);
		fake_drain();
		for (uint32_t p = 0; p < f.n_posts; p++) {
			const struct sched_slice *a = &f.posts[p].slice;

			CHECK(a->length > 0);
			sum += a->length;
			for (uint32_t q = 0; q < p; q++) {
				const struct sched_slice *b = &f.posts[q].slice;

				CHECK(a->offset >= b->offset + b->length ||
					b->offset >= a->offset + a->length);
			}
		}
		CHECK_EQ(sum, bytes);
		CHECK_EQ(f.done, 1);
	}
}

TEST(unknown_tokens_change_nothing)
{
	struct sched_stats st;
	uint64_t token;

	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(SLICE), 0);
	token = f.posts[0].slice.token;
	CHECK_EQ(sched_completed(f.s, f.now, token + 1, 0), -ESTALE);
	CHECK_EQ(sched_completed(f.s, f.now, token + (1ull << 32), 0), -ESTALE);
	CHECK_EQ(sched_completed(f.s, f.now, UINT64_MAX, -EIO), -ESTALE);
	fake_end(0, 8000, 0);
	CHECK_EQ(sched_completed(f.s, f.now, token, 0), -ESTALE);
	CHECK_EQ(f.done, 1);
	sched_stats(f.s, &st);
	CHECK_EQ(st.stale, 4);
	CHECK(sched_idle(f.s));
}

TEST(bandwidth_is_bytes_over_busy_time)
{
	fake_init(TENT_SMART);
	f.config.strict_numa = true;
	f.config.numa_penalties[0] = 1;
	fake_create();
	sched_rail_down(f.s, f.now, 1);
	CHECK_EQ(fake_submit(32 * SLICE), 0);
	CHECK_EQ(fake_posted_on(0), 32);
	/*
	 * The time of the first slice contains the latency. The time of each other slice is counted
	 * from the completion of the one before it, however long ago it was posted.
	 */
	for (uint32_t i = 0; i < 32; i++) {
		fake_end(i, i ? SLICE_NS : 5000 + SLICE_NS, 0);
		CHECK(fabs(fake_rail(0).rate - RATE) < 0.01 * RATE);
	}
	/* The weight of the old value is 0.01: half the speed shows after one slice. */
	CHECK_EQ(fake_submit(2 * SLICE), 0);
	fake_end(32, 5000 + SLICE_NS, 0);
	fake_end(33, 2 * SLICE_NS, 0);
	CHECK(fabs(fake_rail(0).rate - (.01 * RATE + .99 * RATE / 2)) < 0.01 * RATE);
}

TEST(failures_teach_nothing)
{
	for (size_t i = 0; fake_each(i); i++) {
		double before;

		CHECK_EQ(fake_submit(32 * SLICE), 0);
		before = fake_rail(0).rate;
		for (uint32_t p = 0; p < f.n_posts; p++) {
			if (f.posts[p].rail == 0)
				CHECK_EQ(sched_completed(f.s, f.now + 1, f.posts[p].slice.token,
						 -EIO),
					0);
		}
		CHECK(fake_rail(0).rate == before);
	}
}

TEST(nothing_is_sent_again_before_the_fence)
{
	for (size_t i = 0; fake_each(i); i++) {
		struct sched_stats st;
		uint32_t late, lost, n;

		CHECK_EQ(fake_submit(16 * SLICE), 0);
		late = fake_oldest(0);
		f.posts[late].ended = true;
		lost = fake_oldest(0);
		f.posts[late].ended = false;
		CHECK_EQ(fake_complete(lost, -EIO), 0);
		/* The report of an error begins the fence in the same call, without a timer. */
		CHECK_EQ(f.fences[0], 1);
		n = f.n_posts;
		fake_end(late, 10, 0); /* arrived before the fence: it counts */
		for (uint32_t p = n; p < f.n_posts; p++)
			CHECK(f.posts[p].rail &&
				f.posts[p].slice.offset != f.posts[lost].slice.offset);
		sched_stats(f.s, &st);
		CHECK_EQ(st.resent, 0);
		n = f.n_posts;
		fake_fenced(0, 20000);
		sched_stats(f.s, &st);
		CHECK(st.resent >= 1);
		CHECK_EQ(fake_complete(lost, 0), -ESTALE);
		for (uint32_t r = 1; r < FAKE_RAILS; r++) { /* room in the windows */
			if (fake_oldest(r) < FAKE_POSTS)
				fake_end(fake_oldest(r), 100, 0);
		}
		CHECK(f.n_posts > n);
		for (uint32_t p = n; p < f.n_posts; p++)
			CHECK(f.posts[p].rail != 0);
		fake_finish(1, 0);
	}
}

TEST(no_rail_left_ends_with_an_error)
{
	for (size_t i = 0; fake_each(i); i++) {
		CHECK_EQ(fake_submit(64 * MIB), 0);
		CHECK_EQ(fake_submit_at(64 * MIB, 1), 0);
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			sched_rail_down(f.s, f.now, r);
		fake_run();
		CHECK(f.done < 2); /* what is posted may still arrive */
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			fake_fenced(r, 20000);
		CHECK_EQ(f.done, 2);
		CHECK_EQ(f.failed, 2);
		CHECK_EQ(f.last_status, -ENETUNREACH);
		CHECK(sched_idle(f.s));
		CHECK_EQ(fake_submit(1), -ENETUNREACH);
	}
}

TEST(a_fence_that_fails_ends_its_requests)
{
	for (size_t i = 0; fake_each(i); i++) {
		CHECK_EQ(fake_submit(4 * MIB), 0);
		sched_rail_down(f.s, f.now, 0);
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0] + 1, 0); /* of another outage */
		CHECK_EQ(fake_rail(0).state, RAIL_FENCING);
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0], -EHOSTDOWN);
		fake_run();
		CHECK_EQ(f.done, 0); /* other rails still have slices of the request */
		fake_finish(1, 1);
		CHECK_EQ(f.last_status, -EHOSTDOWN);
	}
}

/* Every rail reports a remote access error for the slice, however often it is sent. */
TEST(a_hopeless_slice_fails_its_request_alone)
{
	uint32_t other, errors = 0;

	fake_start(TENT_PULL);
	CHECK_EQ(fake_submit(1000), 0);
	for (int i = 0; i < 100 && !f.failed; i++) {
		uint32_t rail = f.posts[f.n_posts - 1].rail;
		uint64_t token = f.posts[f.n_posts - 1].slice.token;

		if (!sched_completed(f.s, f.now, token, -EACCES))
			errors++;
		fake_fenced(rail, 20000);
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			sched_rail_up(f.s, f.now, r);
			fake_run();
			fake_probed(r, 0);
		}
		fake_run();
	}
	CHECK_EQ(f.last_status, -EACCES);
	CHECK_EQ(errors, 8);
	CHECK_EQ(fake_submit(SLICE), 0);
	other = f.n_posts - 1;
	fake_end(other, 8000, 0);
	CHECK_EQ(f.last_status, 0);
	CHECK(sched_idle(f.s));
}

TEST(a_full_queue_is_asked_again)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		fake_init(modes[i]);
		f.rails[0].depth = f.rails[1].depth = 2;
		f.config.strict_numa = true;
		fake_create();
		CHECK_EQ(fake_submit(16 * SLICE), 0);
		CHECK_EQ(fake_posted_on(0), 2);
		f.post_error[0] = -EAGAIN;
		fake_end(fake_oldest(0), 8000, 0);
		CHECK_EQ(fake_posted_on(0), 2);
		f.post_error[0] = 0;
		fake_run();
		CHECK_EQ(fake_posted_on(0), 2); /* a full rail gets slices after a completion */
		fake_end(fake_oldest(0), 3000, 0);
		CHECK_EQ(fake_posted_on(0), 4);
		fake_finish(1, 0);
	}
}

TEST(a_rail_that_refuses_posts_has_failed)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		fake_init(modes[i]);
		f.post_error[0] = -EIO;
		fake_create();
		CHECK_EQ(fake_submit(16 * SLICE), 0);
		CHECK_EQ(f.fences[0], 1);
		fake_finish(1, 0);
		CHECK_EQ(fake_posted_on(0), 0);
	}
}

TEST(allocates_nothing_after_create)
{
	for (size_t i = 0; fake_each(i); i++) {
		uint64_t before;

		before = allocations;
		CHECK(before > 0);
		for (int n = 0; n < 20; n++)
			CHECK_EQ(fake_submit_at(3 * MIB, n % 2), 0);
		sched_rail_down(f.s, f.now, 1);
		fake_fenced(1, 20000);
		fake_finish(20, 0);
		CHECK_EQ(allocations, before);
	}
}

/*
 * The posted slices of a cancelled request end, its other slices are not posted, and another
 * request goes on.
 */
TEST(a_request_is_cancelled)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint32_t posted;

		fake_init(modes[i]);
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			f.rails[r].depth = 1;
		fake_create();
		CHECK_EQ(fake_submit(30 * SLICE), 0);
		CHECK_EQ(fake_submit(3 * SLICE), 0);
		posted = f.n_posts;
		sched_cancel(f.s, 30 * SLICE, -ECANCELED);
		/* The user of a request is its length; none has 12345. */
		sched_cancel(f.s, 12345, -ECANCELED);
		CHECK_EQ(f.done, 0);
		fake_finish(2, 1);
		CHECK(f.n_posts <= posted + 3);
		sched_cancel(f.s, 30 * SLICE, -ECANCELED); /* the request has ended */
		fake_run();
		CHECK_EQ(f.done, 2);
	}
}
