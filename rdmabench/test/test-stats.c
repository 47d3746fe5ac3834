/* SPDX-License-Identifier: MIT */
/* Reading of statistics files: good ones, incomplete ones, foreign ones, and noise. */
#include <errno.h>

#include "support/test.h"
#include "stats.h"

static const char good[] = "latency_samples: 15\n"
			   "latency_min_ns: 1234567\n"
			   "latency_avg_ns: 2345678\n"
			   "latency_median_ns: 2341234\n"
			   "latency_p95_ns: 3123456\n"
			   "latency_p99_ns: 3987654\n"
			   "latency_max_ns: 4123456\n";

TEST(prints_seven_keys_in_order)
{
	struct stats s = {{15, 1234567, 2345678, 2341234, 3123456, 3987654, 4123456}};
	char text[STATS_TEXT_MAX] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	CHECK(out);
	CHECK_EQ(stats_print(&s, out), 0);
	CHECK_EQ(fclose(out), 0);
	CHECK(!strcmp(text, good));
}

TEST(reads_what_is_written)
{
	struct stats_row r;

	CHECK_EQ(stats_parse(good, strlen(good), &r), 0);
	CHECK(r.samples == 15 && r.v[STATS_MIN] == 1234567 && r.v[STATS_AVG] == 2345678);
	CHECK(r.v[STATS_MEDIAN] == 2341234 && r.v[STATS_P95] == 3123456);
	CHECK(r.v[STATS_P99] == 3987654 && r.v[STATS_MAX] == 4123456);
}

/* Parses a valid text in which the line of one key is replaced. */
static int parse_with(int key, const char *line, struct stats_row *r)
{
	char text[2 * STATS_TEXT_MAX];
	size_t at = 0;

	for (int k = 0; k < STATS_KEYS; k++) {
		if (k == key)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\n", line);
		else
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s: %d\n",
				stats_names[k], k + 1);
	}
	return stats_parse(text, at, r);
}

TEST(values_are_numbers)
{
	static const struct {
		int key;
		const char *line;
		int err;
		double value;
	} cases[] = {
		{STATS_AVG, "latency_avg_ns: 142739395.66666666", 0, 142739395.66666666},
		{STATS_AVG, "  latency_avg_ns :\t15642778.0  ", 0, 15642778},
		{STATS_AVG, "latency_avg_ns: 1e9", 0, 1e9},
		{STATS_AVG, "latency_avg_ns: 1.8e19", 0, 1.8e19},
		{STATS_AVG, "latency_avg_ns: 1.9e19", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: 1\nlatency_colour: blue\nno colon", 0, 1},
		{STATS_AVG, "latency_avg_ns:", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: 1:2", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: nan", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: inf", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: 1e999", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: -1", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: 0x10", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: None", -EBADMSG, 0},
		{STATS_AVG, "latency_avg_ns: 12ms", -EBADMSG, 0},
		{STATS_AVG, "latency_avg: 12", -EBADMSG, 0}, /* the key is missing */
		{STATS_SAMPLES, "latency_samples: 10.0", -EBADMSG, 0},
		{STATS_SAMPLES, "latency_samples: 281474976710656", 0, 0},
		{STATS_SAMPLES, "latency_samples: 281474976710657", -EBADMSG, 0},
		{STATS_SAMPLES, "latency_samples: 99999999999999999999", -EBADMSG, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stats_row r = {.samples = 77};
		int err = parse_with(cases[i].key, cases[i].line, &r);

		printf("  %-40.40s %d\n", cases[i].line, err);
		CHECK_EQ(err, cases[i].err);
		CHECK(err ? r.samples == 77 : r.v[cases[i].key] == cases[i].value);
	}
}

/* A file that is cut at any place is refused. */
TEST(torn_files_are_refused)
{
	struct stats_row r;

	CHECK_EQ(stats_parse("", 0, &r), -ENODATA);
	CHECK_EQ(stats_parse(" \n\t\n", 4, &r), -ENODATA);
	for (size_t len = 1; len < strlen(good); len++)
		CHECK_EQ(stats_parse(good, len, &r), -EBADMSG);
	CHECK_EQ(stats_parse("\0\0\0", 3, &r), -EBADMSG);
}

TEST(long_files_are_refused)
{
	char text[2 * STATS_TEXT_MAX];
	struct stats_row r;

	memset(text, '\n', sizeof(text));
	memcpy(text, good, strlen(good));
	CHECK_EQ(stats_parse(text, STATS_TEXT_MAX, &r), 0);
	CHECK_EQ(stats_parse(text, STATS_TEXT_MAX + 1, &r), -EBADMSG);
}

/* A file with up to three random bytes is refused, or parsed as numbers that can be merged. */
TEST(noise_does_no_harm)
{
	uint64_t seed = test_seed();
	char text[sizeof(good)];
	unsigned read = 0;

	for (int i = 0; i < 100000; i++) {
		struct stats_row r;
		struct stats_merged m;

		memcpy(text, good, sizeof(good));
		for (uint64_t n = test_rand(&seed) % 4; n; n--)
			text[test_rand(&seed) % (sizeof(text) - 1)] = (char)test_rand(&seed);
		if (stats_parse(text, sizeof(text) - 1, &r))
			continue;
		read++;
		stats_merge(&r, 1, &m);
		for (int k = STATS_MIN; k < STATS_KEYS; k++)
			CHECK(m.v[k] >= 0 && m.v[k] == m.v[k]);
	}
	CHECK(read > 1000);
}

/*
 * Percentiles of a histogram are by nearest rank; those of the compatible method have a rank that
 * is one higher.
 */
TEST(histogram_is_nearest_rank)
{
	struct latrec_hist *h;
	uint64_t samples[100];
	struct stats s, c;

	CHECK_EQ(latrec_hist_create(NULL, &h), 0);
	stats_of_hist(h, &s);
	CHECK(s.v[STATS_SAMPLES] == 0 && s.v[STATS_MAX] == 0);
	for (uint64_t i = 0; i < 100; i++)
		latrec_hist_record(h, samples[i] = 100 - i);
	stats_of_hist(h, &s);
	latrec_hist_destroy(h);
	stats_of_window(samples, 100, &c);
	CHECK(s.v[STATS_SAMPLES] == 100 && s.v[STATS_MIN] == 1 && s.v[STATS_MAX] == 100);
	CHECK(s.v[STATS_AVG] == 50 && c.v[STATS_AVG] == 50);
	CHECK(s.v[STATS_MEDIAN] == 50 && c.v[STATS_MEDIAN] == 51);
	CHECK(s.v[STATS_P95] == 95 && c.v[STATS_P95] == 96);
	CHECK(s.v[STATS_P99] == 99 && c.v[STATS_P99] == 100);
}
