/* SPDX-License-Identifier: MIT */
/* Latencies over time: buckets, intervals, sums, and the check of data of another process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "series.h"

#define WORD(interval, bucket, count)                                                              \
	((uint64_t)(interval) << 52 | (uint64_t)(bucket) << 40 | (uint64_t)(count))

static void fill(struct series *s, const uint64_t *words, size_t n)
{
	const struct series from = {.words = (uint64_t *)(uintptr_t)words, .n = n};

	*s = (struct series){.n = 0};
	CHECK_EQ(series_add(s, &from), 0);
}

/* A single value is reported as the upper end of its bucket. */
TEST(values_are_at_most_a_32nd_too_high)
{
	uint64_t rng = test_seed();

	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t value = i < 200 ? i : test_rand(&rng) >> (25 + i % 39);
		uint64_t word = WORD(0, series_bucket(value), 1);
		struct series s = {.words = &word, .n = 1};
		struct series_row row;
		size_t at = 0;

		series_row(&s, 0, &at, &row);
		CHECK(row.max >= value && row.max <= value + value / 32);
		CHECK(value >= 64 || row.max == value);
		CHECK(series_bucket(row.max) == series_bucket(value) &&
			series_bucket(row.max + 1) == series_bucket(value) + 1);
	}
	CHECK_EQ(series_bucket(1ull << 40), SERIES_BUCKETS - 1);
	CHECK_EQ(series_bucket(UINT64_MAX), SERIES_BUCKETS - 1);
}

/*
 * Percentiles by nearest rank: the smallest of the values 1 to n such that at least this share of
 * the values is not larger.
 */
TEST(percentiles_are_exact_ranks)
{
	static const struct {
		uint32_t n;
		struct series_row row;
	} cases[] = {{1, {1, 1, 1, 1, 1}}, {2, {2, 1, 2, 2, 2}}, {3, {3, 2, 3, 3, 3}},
		{10, {10, 5, 10, 10, 10}}, {50, {50, 25, 50, 50, 50}}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t words[50];
		struct series s = {.words = words, .n = cases[i].n};
		struct series_row row;
		size_t at = 0;

		for (uint32_t v = 1; v <= cases[i].n; v++)
			words[v - 1] = WORD(7, v, 1);
		series_row(&s, 6, &at, &row);
		CHECK(!row.ops && !row.max && !at);
		series_row(&s, 7, &at, &row);
		CHECK_EQ(at, cases[i].n);
		CHECK(!memcmp(&row, &cases[i].row, sizeof(row)));
	}
	{
		uint64_t words[] = {WORD(0, 1, 9890), WORD(0, 2, 10), WORD(0, 3, 90),
			WORD(0, 4, 10)};
		struct series s = {.words = words, .n = 4};
		struct series_row row;
		size_t at = 0;

		series_row(&s, 0, &at, &row);
		CHECK(row.ops == 10000 && row.p50 == 1 && row.p99 == 2 && row.p999 == 3 &&
			row.max == 4);
	}
}

/* Intervals without replies; a second run; the last interval has all later replies. */
TEST(replies_belong_to_the_interval_of_their_time)
{
	static const uint64_t want[] = {WORD(0, 5, 2), WORD(0, 9, 1), WORD(1, 5, 1), WORD(4, 6, 2)};
	static const struct {
		uint64_t at, value;
	} replies[] = {{1000, 5}, {1000, 9}, {1099, 5}, {1100, 5}, {1500, 6}, {99999, 6}};
	struct series_recorder r;
	struct series s;

	CHECK_EQ(series_recorder_init(&r, 100, 5), 0);
	for (int run = 0; run < 2; run++) {
		s = (struct series){.n = 0};
		series_restart(&r, 1000);
		for (size_t i = 0; i < ARRAY_SIZE(replies); i++)
			series_record(&r, replies[i].at, replies[i].value);
		CHECK_EQ(series_add_recorder(&s, &r), 0);
		CHECK_EQ(s.n, ARRAY_SIZE(want));
		CHECK(!memcmp(s.words, want, sizeof(want)));
		series_fini(&s);
	}
	series_recorder_fini(&r);
}

/* A bucket with more replies than 32 bits can count, up to the largest count of a word. */
TEST(a_bucket_counts_more_than_32_bits)
{
	struct series_recorder r;
	struct series s = {.n = 0};

	CHECK_EQ(series_recorder_init(&r, 100, 1), 0);
	series_restart(&r, 0);
	r.now[5] = UINT32_MAX;
	series_record(&r, 0, 5);
	r.now[6] = (typeof(*r.now))(1ull << 40);
	CHECK_EQ(series_add_recorder(&s, &r), 0);
	CHECK_EQ(s.n, 2);
	CHECK_EQ(s.words[0], WORD(0, 5, 1ull << 32));
	CHECK_EQ(s.words[1], WORD(0, 6, (1ull << 40) - 1));
	series_fini(&s);
	series_recorder_fini(&r);
}

TEST(sums_have_each_word_once)
{
	static const uint64_t a[] = {WORD(0, 1, 5), WORD(0, 7, 1), WORD(2, 0, 1)},
			      b[] = {WORD(0, 0, 2), WORD(0, 7, (1ull << 40) - 1), WORD(2, 0, 3),
				      WORD(3, 0, 1)},
			      sum[] = {WORD(0, 0, 2), WORD(0, 1, 5), WORD(0, 7, (1ull << 40) - 1),
				      WORD(2, 0, 4), WORD(3, 0, 1)};
	struct series x, y;

	for (int turn = 0; turn < 2; turn++) {
		fill(&x, turn ? a : b, turn ? 3 : 4);
		fill(&y, turn ? b : a, turn ? 4 : 3);
		CHECK_EQ(series_add(&x, &y), 0);
		CHECK_EQ(x.n, ARRAY_SIZE(sum));
		CHECK(!memcmp(x.words, sum, sizeof(sum)));
		series_fini(&x);
		series_fini(&y);
	}
}

TEST(intervals_that_a_run_has)
{
	static const struct {
		uint64_t duration, every;
		uint32_t most;
	} mosts[] = {{0, 10, SERIES_MAX}, {100, 10, 10}, {101, 10, 11}, {1, 10, 1}, {5, 0, 0},
		{10 * SERIES_MAX + 1, 10, SERIES_MAX}};
	static const uint64_t word = WORD(3, 0, 1);
	struct series none = {.n = 0}, four;

	for (size_t i = 0; i < ARRAY_SIZE(mosts); i++)
		CHECK_EQ(series_most(mosts[i].duration, mosts[i].every), mosts[i].most);
	fill(&four, &word, 1);
	CHECK_EQ(series_count(&none, 0, 10, 9), 0);
	CHECK_EQ(series_count(&none, 35, 10, 9), 4); /* even without replies */
	CHECK_EQ(series_count(&none, 95, 10, 9), 9);
	CHECK_EQ(series_count(&four, 5, 10, 9), 4);
	series_fini(&four);
}

/* Bytes of another rank that are not a series of this job are refused. */
TEST(refuses_what_is_no_series)
{
	enum { MOST = 10 };
	static const struct {
		uint64_t data[4];
		size_t len;
		int64_t result;
	} cases[] = {
		{{0}, 8, 8},
		{{0}, 7, -EBADMSG},
		{{1, WORD(0, 0, 1)}, 16, 16},
		{{1, WORD(0, 0, 1)}, 15, -EBADMSG},
		{{2, WORD(0, 0, 1)}, 16, -EBADMSG},
		{{UINT64_MAX, WORD(0, 0, 1)}, 16, -EBADMSG},
		{{1ull << 61, WORD(0, 0, 1)}, 16, -EBADMSG},
		{{1, WORD(0, 0, 0)}, 16, -EBADMSG},
		{{1, WORD(MOST - 1, SERIES_BUCKETS - 1, 1)}, 16, 16},
		{{1, WORD(MOST, 0, 1)}, 16, -EBADMSG},
		{{1, WORD(0, SERIES_BUCKETS, 1)}, 16, -EBADMSG},
		{{3, WORD(0, 0, 1), WORD(0, 1, 9), WORD(1, 0, 1)}, 32, 32},
		{{3, WORD(0, 0, 1), WORD(1, 0, 9), WORD(1, 0, 10)}, 32, -EBADMSG},
		{{2, WORD(0, 2, 1), WORD(0, 1, 1)}, 24, -EBADMSG},
	};
	struct series s, again;
	FILE *out;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t *data = malloc(cases[i].len), packed[4];

		CHECK(data);
		memcpy(data, cases[i].data, cases[i].len);
		CHECK_EQ(series_unpack(data, cases[i].len, MOST, &s), cases[i].result);
		if (cases[i].result > 0) {
			fill(&again, s.words, s.n);
			out = fmemopen(packed, sizeof(packed), "w");
			CHECK(out);
			series_write(&again, out);
			CHECK_EQ((size_t)ftell(out), cases[i].len);
			CHECK(!fclose(out));
			CHECK(!memcmp(packed, data, cases[i].len));
			series_fini(&again);
			CHECK_EQ(series_unpack(data, cases[i].len, 0, &s), s.n ? -EBADMSG : 8);
		}
		free(data);
	}
}
