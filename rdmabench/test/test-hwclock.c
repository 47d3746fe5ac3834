/* SPDX-License-Identifier: MIT */
/* The bounds of the difference of two clocks, computed from times of requests and stamps. */
#include "base/clock.h"
#include "base/rand.h"
#include "support/test.h"
#include "hwclock.h"

#define SAMPLES 100000

/* The device's clock is ahead and fast. Every converted time is within the stated error. */
TEST(the_error_is_true)
{
	const double rate = 1 + 150e-6;
	const int64_t ahead = 1700000000000000000;
	struct hwclock_bounds b = {.drift_ppm = 200};
	uint64_t seed = test_seed(), now = 1000000;

	for (int i = 0; i < SAMPLES; i++) {
		uint64_t posted = now + (uint64_t)(rand_unit(&seed) * 1e6);
		uint64_t stamped = posted + 800 + (uint64_t)(rand_unit(&seed) * 20000);
		uint64_t polled = stamped + 50 + (uint64_t)(rand_unit(&seed) * 5000), got, error;

		got = hwclock_convert(&b, posted,
			(uint64_t)ahead + (uint64_t)((double)stamped * rate), polled);
		error = got > stamped ? got - stamped : stamped - got;
		CHECK(error <= hwclock_error(&b, polled) + 1); /* stamps are whole nanoseconds */
		CHECK(got >= posted && got <= polled);
		now = polled;
	}
	CHECK_EQ(b.jumps, 0);
	CHECK_EQ(b.converted, SAMPLES);
	CHECK(b.worst_ns < 20000 && b.worst_ns >= b.sum_ns / b.converted);
}

TEST(bounds_are_cut)
{
	struct hwclock_bounds b = {0};

	hwclock_bound(&b, 1000, 500, 1400);
	CHECK(b.low == 500 && b.high == 900);
	CHECK_EQ(hwclock_error(&b, 1400), 200);
	hwclock_bound(&b, 2000, 1300, 2100);
	CHECK(b.low == 700 && b.high == 800);
	hwclock_bound(&b, 3000, 2500, 4000); /* gives no better bound */
	CHECK(b.low == 700 && b.high == 800);
	CHECK_EQ(hwclock_convert(&b, 5000, 4500, 6000), 4500 + 750);
	CHECK_EQ(b.worst_ns, 50);
	CHECK_EQ(hwclock_convert(&b, 7000, 6220, 8000), 6220 + 790);
	CHECK(b.worst_ns == 50 && b.sum_ns == 60 && b.converted == 2);
}

/* In two seconds without a completion, each bound moves by 200 ppm of that time. */
TEST(the_error_grows)
{
	struct hwclock_bounds b = {.drift_ppm = 200};

	hwclock_bound(&b, 1000, 500, 1400);
	CHECK_EQ(hwclock_error(&b, 1400 + 2 * NSEC_PER_SEC), 200 + 400000);
}

TEST(a_jump_is_seen)
{
	struct hwclock_bounds b = {0};

	hwclock_bound(&b, 1000, 500, 1400);
	hwclock_bound(&b, 2000, 1501, 2400); /* 499 to 899: overlaps */
	CHECK_EQ(b.jumps, 0);
	hwclock_bound(&b, 3000, 2099, 3500); /* from 901 */
	CHECK_EQ(b.jumps, 1);
	CHECK(b.low == 901 && b.high == 1401);
	hwclock_bound(&b, 4000, 3500, 4400); /* up to 900 */
	CHECK_EQ(b.jumps, 2);
}
