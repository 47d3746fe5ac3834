/* SPDX-License-Identifier: MIT */
/*
 * Histograms as text: written and read again, truncated, changed and forged. Also tests the output
 * in HdrHistogram's format.
 */
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "support/histtext.h"
#include "hist.h"

#define TEXT 8192

static const char golden[] = "latrec-hist 1\n"
			     "bits 8\n"
			     "count 4\n"
			     "sum 2029\n"
			     "min 12\n"
			     "max 1000\n"
			     "buckets 3\n"
			     "12 1\n"
			     "17 1\n"
			     "1003 2\n"
			     "end 7dc50b4af8617e82\n";

static void fill_golden(struct latrec_hist *h)
{
	latrec_hist_clear(h);
	latrec_hist_record(h, 17);
	latrec_hist_record(h, 1000);
	latrec_hist_record(h, 12);
	latrec_hist_record(h, 1000);
}

static size_t export(const struct latrec_hist *h, char **text_p)
{
	size_t len = 0;
	FILE *out = open_memstream(text_p, &len);

	CHECK(out);
	CHECK_EQ(latrec_hist_export(h, out), 0);
	fclose(out);
	return len;
}

static int import(const char *text, size_t len, struct latrec_hist *h)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
	int err;

	CHECK(in);
	err = latrec_hist_import(in, h);
	fclose(in);
	return err;
}

TEST(the_format_is_fixed)
{
	HIST *h = new_hist(0, 0, 0), *again = new_hist(0, 0, 0);
	AT_END(end_free) char *text;
	size_t len;

	fill_golden(h);
	len = export(h, &text);
	printf("%s", text);
	CHECK(len == strlen(golden) && !strcmp(text, golden));
	CHECK_EQ(import(golden, len, again), 0);
	CHECK(same(h, again));
}

TEST(any_histogram_comes_back)
{
	HIST *h = new_hist(0, 0, 0), *again = new_hist(0, 0, 0);
	uint64_t rng = test_seed();

	for (int round = 0; round < 40; round++) {
		AT_END(end_free) char *text;
		size_t len;

		latrec_hist_clear(h);
		for (int i = 0; i < round * round; i++)
			latrec_hist_record(h, test_rand(&rng) >> (test_rand(&rng) % 64));
		if (round == 39) {
			latrec_hist_clear(h);
			CHECK_EQ(latrec_hist_record_n(h, UINT64_MAX, LATREC_MAX_COUNT), 0);
		}
		len = export(h, &text);
		CHECK_EQ(import(text, len, again), 0);
		CHECK(same(h, again));
	}
}

TEST(several_follow_each_other)
{
	HIST *h = new_hist(0, 0, 0), *sum = new_hist(0, 0, 0);
	char text[3 * sizeof(golden)];
	AT_END(end_file) FILE *in;

	snprintf(text, sizeof(text), "%s%s%s", golden, golden, golden);
	in = fmemopen(text, strlen(text), "r");
	CHECK(in);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(latrec_hist_import(in, h), 0);
		CHECK_EQ(latrec_hist_merge(sum, h), 0);
	}
	CHECK_EQ(latrec_hist_import(in, h), -ENODATA);
	CHECK_EQ(sum->count, 12);
}

/* A refused text leaves the caller's histogram unchanged. */
static int refused(const char *text, size_t len)
{
	struct latrec_hist *before = new_hist(0, 0, 0), *h = new_hist(0, 0, 0);
	int err;

	latrec_hist_record(before, 4711);
	CHECK_EQ(hist_copy(h, before), 0);
	err = import(text, len, h);
	CHECK(!err || same(h, before));
	latrec_hist_destroy(before);
	latrec_hist_destroy(h);
	return err;
}

TEST(torn_files_are_refused)
{
	HIST *h = new_hist(0, 0, 0);
	uint64_t rng = test_seed();
	AT_END(end_free) char *text;
	size_t len;

	for (int i = 0; i < 60; i++)
		latrec_hist_record(h, test_rand(&rng) >> (i % 64));
	len = export(h, &text);
	for (size_t n = 1; n < len; n++) {
		CHECK_EQ(refused(text, n), -EBADMSG);
		CHECK(refused(text + n, len - n) < 0);
	}
	/* A line is missing, or occurs twice. */
	for (char *line = text; line < text + len; line = strchr(line, '\n') + 1) {
		size_t before = (size_t)(line - text);
		size_t n = (size_t)(strchr(line, '\n') + 1 - line);
		char other[TEXT];

		CHECK(len + n < sizeof(other));
		memcpy(other, text, before);
		memcpy(other + before, line + n, len - before - n);
		CHECK(len == n || refused(other, len - n) < 0);
		memcpy(other + before, line, n);
		memcpy(other + before + n, line, len - before);
		if (before + n < len)
			CHECK_EQ(refused(other, len + n), -EBADMSG);
	}
}

TEST(changed_files_are_refused)
{
	HIST *h = new_hist(0, 0, 0);
	uint64_t rng = test_seed();
	AT_END(end_free) char *text;
	size_t len;

	for (int i = 0; i < 30; i++)
		latrec_hist_record(h, test_rand(&rng) >> (i % 64));
	len = export(h, &text);
	for (size_t i = 0; i < len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			text[i] ^= (char)(1 << bit);
			CHECK(refused(text, len) < 0);
			text[i] ^= (char)(1 << bit);
		}
	}
	for (int i = 0; i < 2000; i++) {
		size_t at = test_rand(&rng) % len;
		char was = text[at], other = (char)test_rand(&rng);

		text[at] = other;
		CHECK(other == was || refused(text, len) < 0);
		text[at] = was;
	}
	CHECK_EQ(refused(text, len), 0);
}

TEST(foreign_files_are_refused)
{
	static const char *const texts[] = {
		"\n",
		"latrec-hist\n",
		"hello\n",
		"{\"count\": 1}\n",
		"latrec-hist 1",
		"latrec-hist x\n",
		"latrec-hist  1\n",
		"latrec-hist -1\n",
		"latrec-hist +1\n",
		"latrec-hist 01\n",
		"latrec-hist 1 \n",
		"latrec-hist 18446744073709551617\n",
		"latrec-hist 340282366920938463463374607431768211457\n",
		"       Value     Percentile TotalCount 1/(1-Percentile)\n",
		"latency_samples: 10\n",
	};
	static char noise[TEXT];
	uint64_t rng = test_seed();

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(refused(texts[i], strlen(texts[i])), -EBADMSG);
	CHECK_EQ(refused("latrec-hist 2\n", 14), -EPROTONOSUPPORT);
	CHECK_EQ(refused("latrec-hist 0\n", 14), -EPROTONOSUPPORT);
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (char)test_rand(&rng);
		CHECK_EQ(refused(noise, sizeof(noise)), -EBADMSG);
	}
}

#define HEAD "latrec-hist 1\nbits 8\n"

/* The texts get the right check sum, so only the content can be wrong. */
static const struct {
	const char *text;
	int err;
} forged[] = {
	{HEAD "count 3\nsum 1020\nmin 10\nmax 505\nbuckets 2\n10 1\n505 2\n", 0},
	{HEAD "count 0\nsum 0\nmin 0\nmax 0\nbuckets 0\n", 0},
	/* Another precision, or too many buckets. */
	{"latrec-hist 1\nbits 7\ncount 0\nsum 0\nmin 0\nmax 0\nbuckets 0\n", -EBADMSG},
	{HEAD "count 0\nsum 0\nmin 0\nmax 0\nbuckets 7425\n", -EBADMSG},
	/* Numbers that are too large or malformed, and the largest count (valid). */
	{HEAD "count 9223372036854775808\nsum 0\nmin 0\nmax 0\nbuckets 1\n"
	      "0 9223372036854775808\n",
		-EBADMSG},
	{HEAD "count 9223372036854775807\nsum 0\nmin 0\nmax 0\nbuckets 1\n"
	      "0 9223372036854775807\n",
		0},
	{HEAD "count 1\nsum 340282366920938463463374607431768211456\n"
	      "min 0\nmax 0\nbuckets 1\n0 1\n",
		-EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 1\n010 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 1\n10 01\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 1\n10 1 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 1\n"
	      "18446744073709551626 1\n", /* 2^64 + 10 */
		-EBADMSG},
	/* Buckets out of order, repeated, empty, or not named by their largest value. */
	{HEAD "count 2\nsum 15\nmin 5\nmax 10\nbuckets 2\n10 1\n5 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 2\n10 1\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 2\n10 1\n11 0\n", -EBADMSG},
	{HEAD "count 1\nsum 504\nmin 504\nmax 504\nbuckets 1\n504 1\n", -EBADMSG},
	/* More or fewer buckets than the head says. */
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 0\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 10\nbuckets 2\n10 1\n", -EBADMSG},
	/* A count, sum, minimum or maximum that does not agree with the buckets. */
	{HEAD "count 2\nsum 10\nmin 10\nmax 10\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 2\nsum 20\nmin 10\nmax 10\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 9\nmin 10\nmax 10\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 11\nmin 10\nmax 10\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 9\nmax 10\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 1\nsum 10\nmin 10\nmax 11\nbuckets 1\n10 1\n", -EBADMSG},
	{HEAD "count 2\nsum 1010\nmin 505\nmax 504\nbuckets 1\n505 2\n", -EBADMSG},
	{HEAD "count 0\nsum 1\nmin 0\nmax 0\nbuckets 0\n", -EBADMSG},
	{HEAD "count 0\nsum 0\nmin 1\nmax 0\nbuckets 0\n", -EBADMSG},
	{HEAD "count 0\nsum 0\nmin 0\nmax 1\nbuckets 0\n", -EBADMSG},
	/* Sums that are possible for the bucket, but not with this smallest or largest value. */
	{HEAD "count 2\nsum 1009\nmin 505\nmax 505\nbuckets 1\n505 2\n", -EBADMSG},
	{HEAD "count 2\nsum 1009\nmin 504\nmax 504\nbuckets 1\n505 2\n", -EBADMSG},
	/* The sum of the buckets' counts wraps at 64 bits. */
	{HEAD "count 2\nsum 0\nmin 0\nmax 2\nbuckets 3\n0 9223372036854775807\n"
	      "1 9223372036854775807\n2 4\n",
		-EBADMSG},
};

TEST(forged_files_are_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		char text[TEXT], whole[TEXT];
		int n = snprintf(text, sizeof(text), "%send\n", forged[i].text);
		size_t len = histtext_sign(text, (size_t)n, whole);

		CHECK_EQ(refused(whole, len), forged[i].err);
	}
}

TEST(streams_report_their_errors)
{
	HIST *h = new_hist(0, 0, 0);
	FILE *f = fopen("/dev/full", "we");

	CHECK(f);
	fill_golden(h);
	CHECK_EQ(latrec_hist_export(h, f), -ENOSPC);
	CHECK_EQ(latrec_hist_print_hgrm(h, 1, f), -ENOSPC);
	fclose(f);
	f = fopen("/", "re"); /* a directory cannot be read */
	CHECK(f);
	CHECK_EQ(latrec_hist_import(f, h), -EISDIR);
	fclose(f);
	CHECK_EQ(refused("", 0), -ENODATA);
}

/* ---- HdrHistogram's format ---- */

static char *hgrm(const struct latrec_hist *h, double unit_ns)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	CHECK(out);
	CHECK_EQ(latrec_hist_print_hgrm(h, unit_ns, out), 0);
	fclose(out);
	return text;
}

/* The output of org.HdrHistogram for 1 to 10 with five ticks per half distance and a scale of 1. */
static const char hdr_of_ten[] = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"
				 "       1.000 0.000000000000          1           1.00\n"
				 "       1.000 0.100000000000          1           1.11\n"
				 "       2.000 0.200000000000          2           1.25\n"
				 "       3.000 0.300000000000          3           1.43\n"
				 "       4.000 0.400000000000          4           1.67\n"
				 "       5.000 0.500000000000          5           2.00\n"
				 "       6.000 0.550000000000          6           2.22\n"
				 "       6.000 0.600000000000          6           2.50\n"
				 "       7.000 0.650000000000          7           2.86\n"
				 "       7.000 0.700000000000          7           3.33\n"
				 "       8.000 0.750000000000          8           4.00\n"
				 "       8.000 0.775000000000          8           4.44\n"
				 "       8.000 0.800000000000          8           5.00\n"
				 "       9.000 0.825000000000          9           5.71\n"
				 "       9.000 0.850000000000          9           6.67\n"
				 "       9.000 0.875000000000          9           8.00\n"
				 "       9.000 0.887500000000          9           8.89\n"
				 "       9.000 0.900000000000          9          10.00\n"
				 "      10.000 0.912500000000         10          11.43\n"
				 "      10.000 1.000000000000         10\n"
				 "#[Mean    =        5.500, StdDeviation   =        2.872]\n"
				 "#[Max     =       10.000, Total count    =           10]\n"
				 "#[Buckets =           57, SubBuckets     =          256]\n";

/* The smaller value is so frequent that its share, as a double, is above every level but 100 %. */
TEST(levels_end_although_few_of_many_values_are_left)
{
	HIST *h = new_hist(0, 0, 0);
	AT_END(end_free) char *text;

	CHECK_EQ(latrec_hist_record_n(h, 5, 1ull << 60), 0);
	CHECK_EQ(latrec_hist_record_n(h, 7, 1), 0);
	alarm(300); /* ends the test if the lines do not end */
	text = hgrm(h, 1);
	alarm(0);
	CHECK(strlen(text) < 20000);
	CHECK(strstr(text, "\n       7.000 1.000000000000 1152921504606846977\n"));
}

TEST(ten_values_look_as_hdr_histogram_prints_them)
{
	HIST *h = new_hist(0, 0, 0);
	char *text;

	for (uint64_t v = 1; v <= 10; v++)
		latrec_hist_record(h, v);
	text = hgrm(h, 1);
	printf("%s", text);
	CHECK(!strcmp(text, hdr_of_ten));
	free(text);
	CHECK_EQ(latrec_hist_print_hgrm(h, 0, stdout), -EINVAL);
	CHECK_EQ(latrec_hist_print_hgrm(h, -1, stdout), -EINVAL);
	CHECK_EQ(latrec_hist_print_hgrm(h, NAN, stdout), -EINVAL);
}

TEST(an_empty_distribution_has_no_levels)
{
	HIST *h = new_hist(0, 0, 0);
	AT_END(end_free) char *text = hgrm(h, 1000);

	CHECK(strstr(text, "1/(1-Percentile)\n\n#[Mean    =        0.000,"));
	CHECK(strstr(text, "Total count    =            0]\n"));
}

/* Each line has a quantile of the histogram and the number of samples up to it. */
TEST(lines_are_quantiles)
{
	HIST *h = new_hist(0, 0, 0);
	uint64_t rng = test_seed(), lines = 0, total = 0;
	double value, level, last = -1;
	char *text, *line;

	for (int i = 0; i < 30000; i++)
		latrec_hist_record(h, test_rand(&rng) >> (20 + test_rand(&rng) % 40));
	text = hgrm(h, 1);
	line = strstr(text, "\n\n") + 2;
	while (*line != '#') {
		CHECK_EQ(sscanf(line, "%lf %lf %" SCNu64, &value, &level, &total), 3);
		CHECK(level > last);
		/* Level 0 has the largest value of the first bucket, not the smallest. */
		if (level > 0)
			CHECK(value == (double)latrec_hist_quantile(h, level));
		CHECK((double)total >= level * (double)h->count - 1e-6 && total <= h->count);
		last = level;
		lines++;
		line = strchr(line, '\n') + 1;
	}
	CHECK(lines > 60 && last == 1 && total == h->count);
	free(text);
}
