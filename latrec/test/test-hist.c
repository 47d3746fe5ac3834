/* SPDX-License-Identifier: MIT */
/* Histograms against sorted samples. */
#include <errno.h>
#include <math.h>

#include "support/test.h"
#include "internal.h"

#define SAMPLES 5000

static const double quantiles[] = {0, .0001, .001, .01, .07, .1, .25, .5, .75, .9, .95, .99, .999,
	.9999, 1};

TEST(buckets_cover_all_values)
{
	uint64_t rng = test_seed();

	CHECK_EQ(bucket_low(0), 0);
	for (uint32_t i = 0; i < LATREC_BUCKETS; i++) {
		uint64_t low = bucket_low(i), high = bucket_high(i);

		CHECK_EQ(latrec_bucket(low), i);
		CHECK_EQ(latrec_bucket(high), i);
		CHECK(!i || low == bucket_high(i - 1) + 1);
		CHECK(high - low <= low / 128);
	}
	CHECK(bucket_high(LATREC_BUCKETS - 1) == UINT64_MAX);
	for (uint32_t i = 0; i < 256; i++)
		CHECK(bucket_low(i) == i && bucket_high(i) == i);
	for (int i = 0; i < 100000; i++) {
		uint64_t v = test_rand(&rng) >> (i % 64);

		CHECK(bucket_low(latrec_bucket(v)) <= v && v <= bucket_high(latrec_bucket(v)));
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* ceil(q * n) by integers: q has at most four decimals. */
static uint64_t nearest_rank(double q, uint64_t n)
{
	uint64_t ppt = (uint64_t)llround(q * 10000), rank = (ppt * n + 9999) / 10000;

	return rank ? rank : 1;
}

static void compare_with_sorted(uint64_t *v, uint64_t n)
{
	struct latrec_hist *h = calloc(1, sizeof(*h));
	long double sum = 0;

	CHECK(h);
	for (uint64_t i = 0; i < n; i++) {
		latrec_hist_record(h, v[i]);
		sum += (long double)v[i];
	}
	qsort(v, n, sizeof(*v), compare);
	CHECK_EQ(h->count, n);
	CHECK_EQ(latrec_hist_min(h), v[0]);
	CHECK_EQ(latrec_hist_max(h), v[n - 1]);
	CHECK(fabsl((long double)latrec_hist_mean(h) - sum / (long double)n) <=
		1e-12L * sum / (long double)n);
	for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++) {
		uint64_t rank = nearest_rank(quantiles[i], n), exact = v[rank - 1];
		uint64_t got = latrec_hist_quantile(h, quantiles[i]);

		CHECK(got >= exact && got - exact <= exact / 128);
		/* The value is that of the same bucket, and at most the largest value. */
		CHECK_EQ(latrec_bucket(got), latrec_bucket(exact));
		if (rank == 1 || rank == n)
			CHECK_EQ(got, exact);
	}
	free(h);
}

/* One of several shapes; some lie on the edges of buckets. */
static uint64_t shaped(int shape, uint64_t i, uint64_t *rng)
{
	uint64_t r = test_rand(rng);

	switch (shape) {
	case 0:
		return r % 1000; /* half exact, half not */
	case 1:
		return r >> (r % 64); /* each power of two equally often */
	case 2:
		return (1ull << (i % 64)) - (r & 1); /* around powers of two */
	case 3:
		return bucket_high((uint32_t)(r % LATREC_BUCKETS)); /* ends of buckets */
	case 4:
		return bucket_low((uint32_t)(r % LATREC_BUCKETS)); /* beginnings */
	case 5:
		return i % 100 ? 20000 + r % 500 : 5000000 + r % 1000000; /* two humps */
	case 6:
		return 12345678; /* one value */
	case 7:
		return UINT64_MAX - r % 3;
	default:
		return i * i * i; /* sorted, and a long tail */
	}
}

TEST(quantiles_are_those_of_sorted_samples)
{
	static const uint64_t sizes[] = {1, 2, 3, 10, 15, 20, 99, 100, 101, SAMPLES};
	uint64_t rng = test_seed(), v[SAMPLES];

	for (int shape = 0; shape < 9; shape++) {
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			for (uint64_t i = 0; i < sizes[s]; i++)
				v[i] = shaped(shape, i, &rng);
			compare_with_sorted(v, sizes[s]);
		}
	}
}

TEST(ranks_are_nearest)
{
	CHECK_EQ(hist_rank(.5, 1), 1);
	CHECK_EQ(hist_rank(.5, 10), 5);
	CHECK_EQ(hist_rank(.95, 10), 10);
	CHECK_EQ(hist_rank(.95, 15), 15);
	CHECK_EQ(hist_rank(.95, 20), 19);
	CHECK_EQ(hist_rank(.99, 100), 99);
	CHECK_EQ(hist_rank(.99, 101), 100);
	CHECK_EQ(hist_rank(.07, 100), 7); /* whose product is a little above 7 */
	CHECK_EQ(hist_rank(.29, 100), 29); /* a little below 29 */
	CHECK_EQ(hist_rank(0, 100), 1);
	CHECK_EQ(hist_rank(-1, 100), 1);
	CHECK_EQ(hist_rank(NAN, 100), 1);
	CHECK_EQ(hist_rank(1, 100), 100);
	CHECK_EQ(hist_rank(2, 100), 100);
	CHECK_EQ(hist_rank(1e300, 100), 100);
	CHECK_EQ(hist_rank(.99999999999999999, LATREC_MAX_COUNT), LATREC_MAX_COUNT);
}

/* The ranges ascend, contain their values, and have all samples. */
TEST(ranges_have_all_values)
{
	static struct latrec_hist h;
	struct latrec_range range = {.count = 77};
	uint64_t values[] = {0, 255, 256, 257, 1000, 1000, UINT64_MAX}, rng = test_seed();
	uint64_t total = 0, last = 0;
	uint32_t at = 0, seen = 0;

	CHECK_EQ(latrec_hist_next(&h, 0, &range), 0);
	CHECK_EQ(range.count, 77);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		latrec_hist_record(&h, values[i]);
	for (; (at = latrec_hist_next(&h, at, &range)); total += range.count) {
		CHECK(!total || range.low > last);
		CHECK(range.low <= values[total] && values[total] <= range.high);
		last = range.high;
		seen++;
	}
	CHECK(total == ARRAY_SIZE(values) && seen == 5 && last == UINT64_MAX);
	CHECK_EQ(latrec_hist_next(&h, LATREC_BUCKETS, &range), 0);
	CHECK_EQ(latrec_hist_next(&h, UINT32_MAX, &range), 0);
	for (int i = 0; i < 1000; i++)
		latrec_hist_record(&h, test_rand(&rng) >> (i % 64));
	for (total = at = 0; (at = latrec_hist_next(&h, at, &range));)
		total += range.count;
	CHECK_EQ(total, h.count);
}

TEST(an_empty_histogram_is_all_zero)
{
	static struct latrec_hist h;

	CHECK_EQ(latrec_hist_min(&h), 0);
	CHECK_EQ(latrec_hist_max(&h), 0);
	CHECK_EQ(latrec_hist_quantile(&h, .5), 0);
	CHECK(latrec_hist_mean(&h) == 0 && latrec_hist_stddev(&h) == 0);
	latrec_hist_record(&h, 0);
	CHECK_EQ(h.count, 1);
	CHECK_EQ(latrec_hist_max(&h), 0);
	latrec_hist_record(&h, 300);
	latrec_hist_clear(&h);
	CHECK_EQ(h.count, 0);
	latrec_hist_record(&h, UINT64_MAX);
	CHECK(latrec_hist_min(&h) == UINT64_MAX && latrec_hist_max(&h) == UINT64_MAX);
	latrec_hist_record(&h, 7);
	CHECK(latrec_hist_min(&h) == 7 && latrec_hist_max(&h) == UINT64_MAX);
}

/* The merged histogram equals the whole one in every field. */
TEST(merging_is_addition)
{
	static struct latrec_hist whole, part[4], merged;
	uint64_t rng = test_seed();

	for (uint64_t i = 0; i < SAMPLES; i++) {
		uint64_t v = shaped((int)(i % 9), i, &rng);

		latrec_hist_record(&whole, v);
		latrec_hist_record(&part[test_rand(&rng) % 3], v); /* the last stays empty */
	}
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		CHECK_EQ(latrec_hist_merge(&merged, &part[i]), 0);
	CHECK(!memcmp(&merged, &whole, sizeof(whole)));
	CHECK_EQ(latrec_hist_merge(&merged, &part[3]), 0);
	CHECK(!memcmp(&merged, &whole, sizeof(whole)));
}

TEST(recording_n_times_is_recording_n_times)
{
	static struct latrec_hist one, many;

	for (int i = 0; i < 1000; i++) {
		latrec_hist_record(&one, UINT64_MAX - 5);
		latrec_hist_record(&one, 17);
	}
	CHECK_EQ(latrec_hist_record_n(&many, UINT64_MAX - 5, 1000), 0);
	CHECK_EQ(latrec_hist_record_n(&many, 17, 1000), 0);
	CHECK_EQ(latrec_hist_record_n(&many, 5000, 0), 0);
	CHECK(!memcmp(&one, &many, sizeof(one)));
}

TEST(too_many_values_are_refused)
{
	static struct latrec_hist h, before;

	CHECK_EQ(latrec_hist_record_n(&h, 500, LATREC_MAX_COUNT - 1), 0);
	CHECK_EQ(latrec_hist_record_n(&h, UINT64_MAX, 1), 0);
	before = h;
	CHECK_EQ(latrec_hist_record_n(&h, 1, 1), -EOVERFLOW);
	CHECK_EQ(latrec_hist_record_n(&h, 1, UINT64_MAX), -EOVERFLOW);
	CHECK_EQ(latrec_hist_merge(&h, &before), -EOVERFLOW);
	CHECK(!memcmp(&h, &before, sizeof(h)));
	/* Single records may exceed the limit, but then latrec_hist_record_n() adds none. */
	latrec_hist_record(&h, 1);
	CHECK(h.count == LATREC_MAX_COUNT + 1);
	CHECK_EQ(latrec_hist_record_n(&h, 1, 1), -EOVERFLOW);
	CHECK_EQ(latrec_hist_quantile(&h, .5), bucket_high(latrec_bucket(500)));
}

TEST(the_sum_has_128_bits)
{
	static struct latrec_hist h;

	CHECK_EQ(latrec_hist_record_n(&h, UINT64_MAX, 1ull << 62), 0);
	latrec_hist_record(&h, UINT64_MAX);
	CHECK(hist_sum(&h) == (u128)UINT64_MAX * ((1ull << 62) + 1));
	CHECK(latrec_hist_mean(&h) == (double)UINT64_MAX);
}

TEST(the_deviation_is_the_populations)
{
	static struct latrec_hist h;

	for (uint64_t v = 1; v <= 100; v++)
		latrec_hist_record(&h, v);
	CHECK(latrec_hist_mean(&h) == 50.5);
	CHECK(fabs(latrec_hist_stddev(&h) - sqrt(833.25)) < 1e-12);
	latrec_hist_clear(&h);
	latrec_hist_record_n(&h, 200, 5);
	CHECK(latrec_hist_stddev(&h) == 0);
}
