/* SPDX-License-Identifier: MIT */
/* The contract of the core: arguments, requests, the ledger, learning, errors. */
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

static void refuses_bad_attributes(void)
{
	struct fake f;
	struct sched_attr good, a;
	struct sched *s = NULL;
	double link = -1;

	fake_init(&f, TENT_PULL);
	good = fake_attr(&f);
#define REFUSED(change)                                                                            \
	a = good;                                                                                  \
	change;                                                                                    \
	CHECK_EQ(sched_create(&a, &s), -EINVAL)
	REFUSED(a.n_rails = 0);
	REFUSED(a.n_rails = SCHED_MAX_RAILS + 1);
	REFUSED(a.n_locations = 0);
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

static void refuses_bad_requests(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		const uint64_t cuts[] = {200, 100};
		struct sched_request req = {.length = 300, .cuts = cuts, .n_cuts = 2};
		struct sched_attr attr;
		struct fake f;

		fake_init(&f, modes[i]);
		attr = fake_attr(&f);
		attr.max_requests = 2;
		attr.max_slices = 20;
		CHECK_EQ(sched_create(&attr, &f.s), 0);
		CHECK_EQ(sched_submit(f.s, f.now, &req), -EINVAL);
		CHECK_EQ(fake_submit(&f, 0), -EINVAL);
		CHECK_EQ(fake_submit(&f, UINT64_MAX), -EINVAL);
		CHECK_EQ(fake_submit_at(&f, 1, 2), -EINVAL);
		if (modes[i] != TENT_PULL) {
			CHECK_EQ(fake_submit(&f, 21 * SLICE), -EMSGSIZE);
			CHECK_EQ(fake_submit(&f, 20 * SLICE), 0);
			CHECK_EQ(fake_submit(&f, 1), -EAGAIN); /* no slice is left */
		} else {
			CHECK_EQ(fake_submit(&f, 100 * SLICE), 0); /* cut when there is room */
			CHECK_EQ(fake_submit(&f, 1), 0);
			CHECK_EQ(fake_submit(&f, 1), -EAGAIN);
		}
		fake_drain(&f);
		CHECK(sched_idle(f.s));
		CHECK_EQ(f.failed, 0);
		fake_fini(&f);
	}
}

/* Checks the bytes that rails have been given and not ended: posted, and bound for later. */
static void check_ledger(const struct fake *f)
{
	uint64_t posted[FAKE_RAILS] = {0};

	for (uint32_t r = 0; r < FAKE_RAILS; r++) {
		for (uint32_t i = f->s->bound[r].head; i != NO_SLICE; i = f->s->slices[i].next)
			posted[r] += f->s->slices[i].length;
	}
	for (uint32_t i = 0; i < f->n_posts; i++) {
		if (!f->posts[i].ended)
			posted[f->posts[i].rail] += f->posts[i].slice.length;
	}
	for (uint32_t r = 0; r < FAKE_RAILS; r++)
		CHECK_EQ(fake_rail(f, r).inflight, posted[r]);
}

static void ledger_is_exact(void)
{
	uint64_t seed = test_seed();

	for (int round = 0; round < 150; round++) {
		struct fake f;

		fake_init(&f, modes[round % 3]);
		fake_start(&f);
		for (int i = 0; i < 100; i++) {
			uint32_t rail = (uint32_t)(test_rand(&seed) % FAKE_RAILS);
			uint32_t post = fake_oldest(&f, rail);
			uint64_t what = test_rand(&seed) % 16;

			if (what < 4)
				(void)fake_submit_at(&f, 1 + test_rand(&seed) % (4 * MIB),
					what % 2);
			else if (what < 14 && post < FAKE_POSTS)
				fake_end(&f, post, test_rand(&seed) % 5000, 0);
			else if (what == 14 && post < FAKE_POSTS)
				(void)sched_completed(f.s, f.now, f.posts[post].slice.token, -EIO);
			else if (fake_rail(&f, rail).state == RAIL_FENCING)
				fake_fenced(&f, rail, 20000);
			if (fake_rail(&f, rail).state == RAIL_CONNECTING)
				fake_probed(&f, rail, 0);
			check_ledger(&f);
		}
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			if (fake_rail(&f, r).state == RAIL_FENCING)
				fake_fenced(&f, r, 0);
		}
		fake_run(&f);
		fake_drain(&f);
		CHECK(sched_idle(f.s)); /* asserts that the sum is 0 */
		check_ledger(&f);
		fake_fini(&f);
	}
}

static void every_byte_is_posted_once(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;
		uint64_t sum = 0, bytes = 33 * SLICE + 5;

		fake_init(&f, modes[i]);
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, bytes), 0);
		fake_drain(&f);
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
		fake_fini(&f);
	}
}

static void unknown_tokens_change_nothing(void)
{
	struct fake f;
	struct sched_stats st;
	uint64_t token;

	fake_init(&f, TENT_PULL);
	fake_start(&f);
	CHECK_EQ(fake_submit(&f, SLICE), 0);
	token = f.posts[0].slice.token;
	CHECK_EQ(sched_completed(f.s, f.now, token + 1, 0), -ESTALE);
	CHECK_EQ(sched_completed(f.s, f.now, token + (1ull << 32), 0), -ESTALE);
	CHECK_EQ(sched_completed(f.s, f.now, UINT64_MAX, -EIO), -ESTALE);
	fake_end(&f, 0, 8000, 0);
	CHECK_EQ(sched_completed(f.s, f.now, token, 0), -ESTALE);
	CHECK_EQ(f.done, 1);
	sched_stats(f.s, &st);
	CHECK_EQ(st.stale, 4);
	CHECK(sched_idle(f.s));
	fake_fini(&f);
}

static void bandwidth_is_bytes_over_busy_time(void)
{
	struct fake f;

	fake_init(&f, TENT_SMART);
	f.config.strict_numa = true;
	f.config.numa_penalties[0] = 1;
	fake_start(&f);
	sched_rail_down(f.s, f.now, 1);
	CHECK_EQ(fake_submit(&f, 32 * SLICE), 0);
	CHECK_EQ(fake_posted_on(&f, 0), 32);
	/* The first shows the latency; the others take what the link takes, however long
	 * they have waited behind one another. */
	for (uint32_t i = 0; i < 32; i++) {
		fake_end(&f, i, i ? SLICE_NS : 5000 + SLICE_NS, 0);
		CHECK(fabs(fake_rail(&f, 0).rate - RATE) < 0.01 * RATE);
	}
	/* The weight of the old value is 0.01: half the speed shows after one slice. */
	CHECK_EQ(fake_submit(&f, 2 * SLICE), 0);
	fake_end(&f, 32, 5000 + SLICE_NS, 0);
	fake_end(&f, 33, 2 * SLICE_NS, 0);
	CHECK(fabs(fake_rail(&f, 0).rate - (.01 * RATE + .99 * RATE / 2)) < 0.01 * RATE);
	fake_fini(&f);
}

static void failures_teach_nothing(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;
		double before;

		fake_init(&f, modes[i]);
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 32 * SLICE), 0);
		before = fake_rail(&f, 0).rate;
		for (uint32_t p = 0; p < f.n_posts; p++) {
			if (f.posts[p].rail == 0)
				CHECK_EQ(sched_completed(f.s, f.now + 1, f.posts[p].slice.token,
						 -EIO),
					0);
		}
		CHECK(fake_rail(&f, 0).rate == before);
		fake_fini(&f);
	}
}

static void nothing_is_sent_again_before_the_fence(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;
		struct sched_stats st;
		uint32_t late, lost, n;

		fake_init(&f, modes[i]);
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 16 * SLICE), 0);
		late = fake_oldest(&f, 0);
		f.posts[late].ended = true;
		lost = fake_oldest(&f, 0);
		f.posts[late].ended = false;
		CHECK_EQ(sched_completed(f.s, f.now, f.posts[lost].slice.token, -EIO), 0);
		/* Reported: the fence is asked for in the same call, no timer between. */
		CHECK_EQ(f.fences[0], 1);
		n = f.n_posts;
		fake_end(&f, late, 10, 0); /* arrived before the fence: it counts */
		for (uint32_t p = n; p < f.n_posts; p++)
			CHECK(f.posts[p].rail &&
				f.posts[p].slice.offset != f.posts[lost].slice.offset);
		sched_stats(f.s, &st);
		CHECK_EQ(st.resent, 0);
		n = f.n_posts;
		fake_fenced(&f, 0, 20000);
		sched_stats(f.s, &st);
		CHECK(st.resent >= 1);
		CHECK_EQ(sched_completed(f.s, f.now, f.posts[lost].slice.token, 0), -ESTALE);
		for (uint32_t r = 1; r < FAKE_RAILS; r++) { /* room in the windows */
			if (fake_oldest(&f, r) < FAKE_POSTS)
				fake_end(&f, fake_oldest(&f, r), 100, 0);
		}
		CHECK(f.n_posts > n);
		for (uint32_t p = n; p < f.n_posts; p++)
			CHECK(f.posts[p].rail != 0);
		fake_drain(&f);
		CHECK(f.done == 1 && !f.failed);
		CHECK(sched_idle(f.s));
		fake_fini(&f);
	}
}

static void no_rail_left_ends_with_an_error(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;

		fake_init(&f, modes[i]);
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 64 * MIB), 0);
		CHECK_EQ(fake_submit_at(&f, 64 * MIB, 1), 0);
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			sched_rail_down(f.s, f.now, r);
		fake_run(&f);
		CHECK(f.done < 2); /* what is posted may still arrive */
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			fake_fenced(&f, r, 20000);
		CHECK_EQ(f.done, 2);
		CHECK_EQ(f.failed, 2);
		CHECK_EQ(f.last_status, -ENETUNREACH);
		CHECK(sched_idle(f.s));
		CHECK_EQ(fake_submit(&f, 1), -ENETUNREACH);
		fake_fini(&f);
	}
}

static void a_fence_that_fails_ends_its_requests(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;

		fake_init(&f, modes[i]);
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 4 * MIB), 0);
		sched_rail_down(f.s, f.now, 0);
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0] + 1, 0); /* of another outage */
		CHECK_EQ(fake_rail(&f, 0).state, RAIL_FENCING);
		sched_fenced(f.s, f.now, 0, f.fence_epoch[0], -EHOSTDOWN);
		fake_run(&f);
		CHECK_EQ(f.done, 0); /* other rails still have slices of it */
		fake_drain(&f);
		CHECK_EQ(f.failed, 1);
		CHECK_EQ(f.last_status, -EHOSTDOWN);
		CHECK(sched_idle(f.s));
		fake_fini(&f);
	}
}

/* A remote access error comes back from every rail, however often it is tried. */
static void a_hopeless_slice_fails_its_request_alone(void)
{
	struct fake f;
	uint32_t other, errors = 0;

	fake_init(&f, TENT_PULL);
	fake_start(&f);
	CHECK_EQ(fake_submit(&f, 1000), 0);
	for (int i = 0; i < 100 && !f.failed; i++) {
		uint32_t rail = f.posts[f.n_posts - 1].rail;
		uint64_t token = f.posts[f.n_posts - 1].slice.token;

		if (!sched_completed(f.s, f.now, token, -EACCES))
			errors++;
		fake_fenced(&f, rail, 20000);
		for (uint32_t r = 0; r < FAKE_RAILS; r++) {
			sched_rail_up(f.s, f.now, r);
			fake_run(&f);
			fake_probed(&f, r, 0);
		}
		fake_run(&f);
	}
	CHECK_EQ(f.last_status, -EACCES);
	CHECK_EQ(errors, 8);
	CHECK_EQ(fake_submit(&f, SLICE), 0);
	other = f.n_posts - 1;
	fake_end(&f, other, 8000, 0);
	CHECK_EQ(f.last_status, 0);
	CHECK(sched_idle(f.s));
	fake_fini(&f);
}

static void a_full_queue_is_asked_again(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;

		fake_init(&f, modes[i]);
		f.rails[0].depth = f.rails[1].depth = 2;
		f.config.strict_numa = true;
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 16 * SLICE), 0);
		CHECK_EQ(fake_posted_on(&f, 0), 2);
		f.post_error[0] = -EAGAIN;
		fake_end(&f, fake_oldest(&f, 0), 8000, 0);
		CHECK_EQ(fake_posted_on(&f, 0), 2);
		f.post_error[0] = 0;
		fake_run(&f);
		CHECK_EQ(fake_posted_on(&f, 0), 2); /* not before its next completion */
		fake_end(&f, fake_oldest(&f, 0), 3000, 0);
		CHECK_EQ(fake_posted_on(&f, 0), 4);
		fake_drain(&f);
		CHECK(f.done == 1 && !f.failed && sched_idle(f.s));
		fake_fini(&f);
	}
}

static void a_rail_that_refuses_posts_has_failed(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;

		fake_init(&f, modes[i]);
		f.post_error[0] = -EIO;
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 16 * SLICE), 0);
		CHECK_EQ(f.fences[0], 1);
		fake_drain(&f);
		CHECK(f.done == 1 && !f.failed && sched_idle(f.s));
		CHECK_EQ(fake_posted_on(&f, 0), 0);
		fake_fini(&f);
	}
}

static void allocates_nothing_after_create(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;
		uint64_t before;

		fake_init(&f, modes[i]);
		fake_start(&f);
		before = allocations;
		CHECK(before > 0);
		for (int n = 0; n < 20; n++)
			CHECK_EQ(fake_submit_at(&f, 3 * MIB, n % 2), 0);
		sched_rail_down(f.s, f.now, 1);
		fake_fenced(&f, 1, 20000);
		fake_drain(&f);
		CHECK_EQ(f.done, 20);
		CHECK_EQ(allocations, before);
		fake_fini(&f);
	}
}

/* Posted slices end, no others are posted, and the other request goes on. */
static void a_request_is_cancelled(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fake f;
		uint32_t posted;

		fake_init(&f, modes[i]);
		for (uint32_t r = 0; r < FAKE_RAILS; r++)
			f.rails[r].depth = 1;
		fake_start(&f);
		CHECK_EQ(fake_submit(&f, 30 * SLICE), 0);
		CHECK_EQ(fake_submit(&f, 3 * SLICE), 0);
		posted = f.n_posts;
		sched_cancel(f.s, 30 * SLICE, -ECANCELED);
		sched_cancel(f.s, 12345, -ECANCELED); /* there is none */
		CHECK_EQ(f.done, 0);
		fake_drain(&f);
		CHECK_EQ(f.done, 2);
		CHECK_EQ(f.failed, 1);
		CHECK(f.n_posts <= posted + 3);
		CHECK(sched_idle(f.s));
		sched_cancel(f.s, 30 * SLICE, -ECANCELED); /* it has ended */
		fake_run(&f);
		CHECK_EQ(f.done, 2);
		fake_fini(&f);
	}
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(refuses_bad_attributes),
		TEST(refuses_bad_requests),
		TEST(ledger_is_exact),
		TEST(every_byte_is_posted_once),
		TEST(unknown_tokens_change_nothing),
		TEST(bandwidth_is_bytes_over_busy_time),
		TEST(failures_teach_nothing),
		TEST(nothing_is_sent_again_before_the_fence),
		TEST(no_rail_left_ends_with_an_error),
		TEST(a_fence_that_fails_ends_its_requests),
		TEST(a_hopeless_slice_fails_its_request_alone),
		TEST(a_full_queue_is_asked_again),
		TEST(a_rail_that_refuses_posts_has_failed),
		TEST(allocates_nothing_after_create),
		TEST(a_request_is_cancelled),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
