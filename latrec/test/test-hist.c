/* SPDX-License-Identifier: MIT */
/* Compares histograms with sorted samples. */
#include <errno.h>
#include <math.h>

#include "hist.h"

#define SAMPLES 5000

static const double quantiles[] = {0, .0001, .001, .01, .07, .1, .25, .5, .75, .9, .95, .99, .999,
	.9999, 1};

/* Ranges and precisions; 0, 0, 0 are the defaults. */
static const struct {
	uint64_t low, high;
	uint32_t precision;
} shapes[] = {{0, 0, 0}, {1000, 16000000, 64}, {1, 1, 2}, {300, 300, 128}, {0, 1000, 4096},
	{1ull << 40, 0, 2}, {7, 1ull << 60, 1024}};

/* Each value has a place, the index of its bucket (see struct hist). There is no gap between the
 * places, and each place is as narrow as the precision requires. */
TEST(places_cover_all_values)
{
	uint64_t rng = test_seed();

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		HIST *h = new_hist(shapes[s].low, shapes[s].high, shapes[s].precision);
		uint64_t per = shapes[s].precision ? shapes[s].precision : LATREC_PRECISION;
		const struct hist *f = hist_of(h);

		CHECK(f->low <= (shapes[s].low ? shapes[s].low : 1));
		CHECK(f->high >= (shapes[s].high ? shapes[s].high : UINT64_MAX));
		for (int i = 0; i < 20000; i++) {
			uint64_t v = test_rand(&rng) >> (i % 64), at = hist_place(f, v);

			CHECK(at < f->places && place_low(f, at) <= v && v <= place_high(f, at));
			CHECK((at == 0) == (v < f->low) && (at == f->places - 1) == (v > f->high));
			if (v < f->low || v > f->high)
				continue;
			CHECK(place_high(f, at) - place_low(f, at) <= v / per);
			CHECK_EQ(hist_place(f, place_low(f, at)), at);
			CHECK_EQ(hist_place(f, place_high(f, at)), at);
			if (place_high(f, at) < f->high)
				CHECK(hist_place(f, place_high(f, at) + 1) > at);
			/* latrec_bucket() computes with doubles, hist_place() with integers. */
			if (v && v <= LATREC_EXACT)
				CHECK_EQ(latrec_bucket(h, v) - f->first, at);
		}
	}
}

TEST(attributes_are_checked)
{
	static const struct {
		struct latrec_hist_attr attr;
		int err;
	} cases[] = {
		{{.low = 2, .high = 1}, -EINVAL},
		{{.low = 2, .high = 2}, 0},
		{{.precision = 1}, -EINVAL},
		{{.precision = 2}, 0},
		{{.precision = 3}, -EINVAL},
		{{.precision = LATREC_MAX_PRECISION}, 0},
		{{.precision = 2 * LATREC_MAX_PRECISION}, -EINVAL},
	};
	struct {
		struct latrec_hist_attr attr;
		uint64_t later;
	} longer = {.attr = {.size = sizeof(longer)}, .later = 1};
	struct latrec_hist *h = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(latrec_hist_create(&cases[i].attr, &h), cases[i].err);
		latrec_hist_destroy(h);
		h = NULL;
	}
	CHECK_EQ(latrec_hist_create(&longer.attr, &h), -E2BIG);
	CHECK(!h);
	latrec_hist_destroy(NULL);
}

TEST(a_range_is_small)
{
	HIST *h = new_hist(1000, 16000000, 64);

	CHECK(latrec_hist_bytes(h) <= 4096);
}

/* Values out of the range are counted; count, sum, minimum and maximum include them. */
TEST(values_out_of_the_range_are_counted)
{
	HIST *h = new_hist(1000, 2000, 64);
	struct latrec_range range;
	uint32_t at;

	for (int i = 0; i < 3; i++) {
		latrec_hist_record(h, 0);
		latrec_hist_record(h, 5);
		latrec_hist_record(h, 1500);
		latrec_hist_record(h, 1ull << 60);
		latrec_hist_record(h, 70000);
	}
	CHECK_EQ(latrec_hist_count(h), 15);
	CHECK(!latrec_hist_min(h) && latrec_hist_max(h) == 1ull << 60);
	CHECK(hist_sum(h) == 3 * ((u128)5 + 1500 + 70000 + (1ull << 60)));
	at = latrec_hist_next(h, 0, &range, sizeof(range));
	CHECK(at && range.low == 0 && range.high == hist_of(h)->low - 1 && range.count == 6);
	at = latrec_hist_next(h, at, &range, sizeof(range));
	CHECK(at && range.low <= 1500 && range.high >= 1500 && range.count == 3);
	at = latrec_hist_next(h, at, &range, sizeof(range));
	CHECK(at && range.low == hist_of(h)->high + 1 && range.high == 1ull << 60);
	CHECK(range.count == 6 && !latrec_hist_next(h, at, &range, sizeof(range)));
	CHECK_EQ(latrec_hist_quantile(h, .4), hist_of(h)->low - 1);
	CHECK_EQ(latrec_hist_quantile(h, .7), 1ull << 60);
}

/* Each function that adds values passes the limit of 32 bits. */
TEST(counters_widen)
{
	HIST *h = new_hist(1000, 16000000, 64), *sum = new_hist(1000, 16000000, 64);
	uint64_t n = UINT32_MAX;
	size_t narrow = latrec_hist_bytes(h);

	CHECK_EQ(latrec_hist_record_n(h, 5000, INT32_MAX), 0);
	CHECK_EQ(latrec_hist_bytes(h), narrow);
	latrec_hist_record(h, 5000);
	CHECK(latrec_hist_bytes(h) > narrow);
	CHECK_EQ(latrec_hist_record_n(h, 5000, n - INT32_MAX - 1), 0);
	for (uint64_t more = 0; more < 3; more++) {
		CHECK_EQ(latrec_hist_count(h), n + more);
		CHECK_EQ(hist_at(hist_of(h), hist_place(hist_of(h), 5000)), n + more);
		latrec_hist_record(h, 5000);
	}
	latrec_hist_record(h, 7000);
	CHECK_EQ(latrec_hist_merge(sum, h), 0);
	CHECK(same(sum, h));
	CHECK_EQ(latrec_hist_merge(sum, h), 0);
	CHECK_EQ(hist_at(hist_of(sum), hist_place(hist_of(sum), 5000)), 2 * (n + 3));
	latrec_hist_clear(sum);
	CHECK_EQ(latrec_hist_snapshot(h, sum), 0);
	CHECK(same(sum, h));
	latrec_hist_clear(sum);
	CHECK(!latrec_hist_count(sum) && !hist_at(hist_of(sum), hist_place(hist_of(sum), 5000)));
}

/* The counter's carry[] is full, so hist_add() does the same as without memory for carry[]: it
 * counts in bucket[] up to UINT32_MAX - 1, then the counter stops. */
TEST(a_counter_that_cannot_widen_stops)
{
	HIST *h = new_hist(0, 0, 0);
	struct hist *f = hist_own(h);
	uint64_t at = hist_place(f, 500), count, stop;

	CHECK_EQ(hist_reserve(h), 0);
	latrec_hist_record(h, 500);
	f->carry[at] = UINT32_MAX;
	f->bucket[at] = UINT32_MAX - 2;
	stop = hist_at(f, at) + 1;
	for (int i = 0; i < 4; i++) {
		latrec_hist_record(h, 500);
		latrec_priv_hist_record(h, 500);
		CHECK_EQ(hist_at(f, at), stop);
	}
	count = latrec_hist_count(h);
	CHECK_EQ(count, 2); /* of the eight records, one was counted */
}

TEST(only_like_histograms_are_added)
{
	HIST *h = new_hist(0, 0, 0);

	for (size_t s = 1; s < ARRAY_SIZE(shapes); s++) {
		HIST *other = new_hist(shapes[s].low, shapes[s].high, shapes[s].precision);

		latrec_hist_record(other, 1);
		CHECK_EQ(latrec_hist_merge(h, other), -EINVAL);
		CHECK_EQ(latrec_hist_snapshot(other, h), -EINVAL);
		CHECK_EQ(latrec_hist_count(h), 0);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns ceil(q * n), computed with integers: q has at most four decimals. */
static uint64_t nearest_rank(double q, uint64_t n)
{
	uint64_t ppt = (uint64_t)llround(q * 10000), rank = (ppt * n + 9999) / 10000;

	return rank ? rank : 1;
}

static void compare_with_sorted(uint64_t *v, uint64_t n)
{
	HIST *h = new_hist(0, 0, 0);
	long double sum = 0;

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
		/* The quantile is in the exact value's bucket, and at most the largest value. */
		CHECK_EQ(hist_place(hist_of(h), got), hist_place(hist_of(h), exact));
		if (rank == 1 || rank == n)
			CHECK_EQ(got, exact);
	}
}

/* Returns value i of a distribution; in some distributions all values are at edges of buckets. */
static uint64_t shaped(int shape, uint64_t i, uint64_t *rng)
{
	uint64_t r = test_rand(rng);

	switch (shape) {
	case 0:
		return r % 1000; /* some in buckets of one value, the others not */
	case 1:
		return r >> (r % 64); /* each power of two equally often */
	case 2:
		return (1ull << (i % 64)) - (r & 1); /* around powers of two */
	case 3:
		return ((129 + r % 128) << (r >> 32) % 56) - 1; /* ends of buckets */
	case 4:
		return (128 + r % 128) << (r >> 32) % 56; /* beginnings */
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
	CHECK_EQ(hist_rank(.07, 100), 7); /* as doubles, the product is a little above 7 */
	CHECK_EQ(hist_rank(.29, 100), 29); /* as doubles, the product is a little below 29 */
	CHECK_EQ(hist_rank(0, 100), 1);
	CHECK_EQ(hist_rank(-1, 100), 1);
	CHECK_EQ(hist_rank(NAN, 100), 1);
	CHECK_EQ(hist_rank(1, 100), 100);
	CHECK_EQ(hist_rank(2, 100), 100);
	CHECK_EQ(hist_rank(1e300, 100), 100);
	CHECK_EQ(hist_rank(.99999999999999999, LATREC_MAX_COUNT), LATREC_MAX_COUNT);
}

/* The ranges ascend, contain their values, and together count all samples. */
TEST(ranges_have_all_values)
{
	HIST *h = new_hist(0, 0, 0);
	struct latrec_range range = {.count = 77};
	uint64_t values[] = {0, 255, 256, 257, 1000, 1000, UINT64_MAX}, rng = test_seed();
	uint64_t total = 0, last = 0;
	uint32_t at = 0, seen = 0;

	CHECK_EQ(latrec_hist_next(h, 0, &range, sizeof(range)), 0);
	CHECK_EQ(range.count, 77);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		latrec_hist_record(h, values[i]);
	for (; (at = latrec_hist_next(h, at, &range, sizeof(range))); total += range.count) {
		CHECK(!total || range.low > last);
		CHECK(range.low <= values[total] && values[total] <= range.high);
		last = range.high;
		seen++;
	}
	CHECK(total == ARRAY_SIZE(values) && seen == 5 && last == UINT64_MAX);
	CHECK_EQ(latrec_hist_next(h, hist_of(h)->places, &range, sizeof(range)), 0);
	CHECK_EQ(latrec_hist_next(h, UINT32_MAX, &range, sizeof(range)), 0);
	for (int i = 0; i < 1000; i++)
		latrec_hist_record(h, test_rand(&rng) >> (i % 64));
	for (total = at = 0; (at = latrec_hist_next(h, at, &range, sizeof(range)));)
		total += range.count;
	CHECK_EQ(total, h->count);
}

TEST(an_empty_histogram_is_all_zero)
{
	HIST *h = new_hist(0, 0, 0);

	CHECK_EQ(latrec_hist_min(h), 0);
	CHECK_EQ(latrec_hist_max(h), 0);
	CHECK_EQ(latrec_hist_quantile(h, .5), 0);
	CHECK(latrec_hist_mean(h) == 0 && latrec_hist_stddev(h) == 0);
	latrec_hist_record(h, 0);
	CHECK_EQ(h->count, 1);
	CHECK_EQ(latrec_hist_max(h), 0);
	latrec_hist_record(h, 300);
	latrec_hist_clear(h);
	CHECK_EQ(h->count, 0);
	latrec_hist_record(h, UINT64_MAX);
	CHECK(latrec_hist_min(h) == UINT64_MAX && latrec_hist_max(h) == UINT64_MAX);
	latrec_hist_record(h, 7);
	CHECK(latrec_hist_min(h) == 7 && latrec_hist_max(h) == UINT64_MAX);
}

/* The merged histogram equals the whole one in every field. */
TEST(merging_is_addition)
{
	HIST *whole = new_hist(0, 0, 0), *merged = new_hist(0, 0, 0);
	struct latrec_hist *part[4];
	uint64_t rng = test_seed();

	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		part[i] = new_hist(0, 0, 0);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		uint64_t v = shaped((int)(i % 9), i, &rng);

		latrec_hist_record(whole, v);
		latrec_hist_record(part[test_rand(&rng) % 3], v); /* the last part stays empty */
	}
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		CHECK_EQ(latrec_hist_merge(merged, part[i]), 0);
	CHECK(same(merged, whole));
	CHECK_EQ(latrec_hist_merge(merged, part[3]), 0);
	CHECK(same(merged, whole));
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		latrec_hist_destroy(part[i]);
}

TEST(recording_n_times_is_recording_n_times)
{
	HIST *one = new_hist(0, 0, 0), *many = new_hist(0, 0, 0);

	for (int i = 0; i < 1000; i++) {
		latrec_hist_record(one, UINT64_MAX - 5);
		latrec_hist_record(one, 17);
	}
	CHECK_EQ(latrec_hist_record_n(many, UINT64_MAX - 5, 1000), 0);
	CHECK_EQ(latrec_hist_record_n(many, 17, 1000), 0);
	CHECK_EQ(latrec_hist_record_n(many, 5000, 0), 0);
	CHECK(same(one, many));
}

TEST(too_many_values_are_refused)
{
	HIST *h = new_hist(0, 0, 0), *before = new_hist(0, 0, 0);

	CHECK_EQ(latrec_hist_record_n(h, 500, LATREC_MAX_COUNT - 1), 0);
	CHECK_EQ(latrec_hist_record_n(h, UINT64_MAX, 1), 0);
	CHECK_EQ(latrec_hist_snapshot(h, before), 0);
	CHECK_EQ(latrec_hist_record_n(h, 1, 1), -EOVERFLOW);
	CHECK_EQ(latrec_hist_record_n(h, 1, UINT64_MAX), -EOVERFLOW);
	CHECK_EQ(latrec_hist_merge(h, before), -EOVERFLOW);
	CHECK(same(h, before));
	/* Single records may exceed the limit; after that latrec_hist_record_n() adds nothing. */
	latrec_hist_record(h, 1);
	CHECK(h->count == LATREC_MAX_COUNT + 1);
	CHECK_EQ(latrec_hist_record_n(h, 1, 1), -EOVERFLOW);
	CHECK_EQ(latrec_hist_quantile(h, .5), place_high(hist_of(h), hist_place(hist_of(h), 500)));
}

TEST(the_sum_has_128_bits)
{
	HIST *h = new_hist(0, 0, 0);

	CHECK_EQ(latrec_hist_record_n(h, UINT64_MAX, 1ull << 62), 0);
	latrec_hist_record(h, UINT64_MAX);
	CHECK(hist_sum(h) == (u128)UINT64_MAX * ((1ull << 62) + 1));
	CHECK(latrec_hist_mean(h) == (double)UINT64_MAX);
	latrec_hist_clear(h);
	CHECK_EQ(latrec_hist_record_n(h, 1ull << 52, 4095), 0);
	latrec_hist_record(h, 1ull << 52); /* the inline code adds this value */
	CHECK(hist_sum(h) == (u128)1 << 64);
}

TEST(the_deviation_is_the_populations)
{
	HIST *h = new_hist(0, 0, 0);

	for (uint64_t v = 1; v <= 100; v++)
		latrec_hist_record(h, v);
	CHECK(latrec_hist_mean(h) == 50.5);
	CHECK(fabs(latrec_hist_stddev(h) - sqrt(833.25)) < 1e-12);
	latrec_hist_clear(h);
	latrec_hist_record_n(h, 200, 5);
	CHECK(latrec_hist_stddev(h) == 0);
}
