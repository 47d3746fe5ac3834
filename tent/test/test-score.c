/* SPDX-License-Identifier: MIT */
/* The pure functions of mode smart. */
#include <math.h>

#include "support/test.h"
#include "score.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

TEST(score_is_predicted_time_by_penalty)
{
	/* (inflight + slice) / bandwidth, in whatever unit of bandwidth */
	CHECK(near(score_value(0, 65536, 25e9, 1), 65536 / 25e9));
	CHECK(near(score_value(1000000, 65536, 25e9, 1), 1065536 / 25e9));
	CHECK(near(score_value(1000000, 65536, 25e9, 5), 5 * 1065536 / 25e9));
	CHECK(near(score_value(1000000, 0, 1e9, 10), 10e-3));
}

TEST(average_keeps_alpha_of_the_old)
{
	CHECK(near(score_ewma(100, 40, 0.01, 100, .1, 10), 0.01 * 100 + 0.99 * 40));
	CHECK(near(score_ewma(100, 40, 0.9, 100, .1, 10), 94));
	CHECK(score_ewma(100, 40, 0, 100, .1, 10) == 40); /* only the new value counts */
	CHECK(score_ewma(100, 40, 1, 100, .1, 10) == 100); /* only the old value counts */
}

TEST(average_stays_in_its_range)
{
	CHECK(near(score_ewma(100, 1, 0.01, 100, .1, 10), 10));
	CHECK(near(score_ewma(100, 1e6, 0.01, 100, .1, 10), 1000));
	CHECK(near(score_ewma(20, 50, 0, 100, .6, 2), 60));
}

TEST(shares_are_rounded_down)
{
	CHECK_EQ(score_share(1, 3, 7), 2);
	CHECK_EQ(score_share(2, 3, 7), 4);
	CHECK_EQ(score_share(1, 1, 7), 7);
	CHECK(near(score_weight(0, 1e-12), 1e12));
	CHECK(near(score_weight(2e-6, 0), 5e5));
}

/* Returns a random score. Two such scores are often equal or nearly equal. */
static struct score any(uint64_t *seed)
{
	double jitter = (double)(test_rand(seed) % 3) * 1e-9;

	return (struct score){(double)(test_rand(seed) % 3) * 1e-9 + jitter,
		(uint32_t)(test_rand(seed) % 4)};
}

static bool same(const struct score *a, const struct score *b)
{
	return !score_before(a, b) && !score_before(b, a);
}

TEST(order_is_strict_and_weak)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 200000; i++) {
		struct score a = any(&seed), b = any(&seed), c = any(&seed);

		CHECK(!score_before(&a, &a));
		CHECK(!(score_before(&a, &b) && score_before(&b, &a)));
		if (score_before(&a, &b) && score_before(&b, &c))
			CHECK(score_before(&a, &c));
		if (same(&a, &b) && same(&b, &c))
			CHECK(same(&a, &c));
		if (a.rail != b.rail)
			CHECK(!same(&a, &b)); /* no two rails are ever tied */
	}
}
