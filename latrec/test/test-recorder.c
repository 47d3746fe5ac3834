/* SPDX-License-Identifier: MIT */
/* Recorders and endpoints, through the public interface and in virtual time. */
#include <errno.h>

#include "ends.h"

#define MS 1000000ull

static struct latrec *recorder(bool intended, uint64_t window_ns)
{
	const struct latrec_attr attr = {.intended = intended, .window_ns = window_ns};
	struct latrec *r = NULL;

	CHECK_EQ(latrec_create(&attr, &r), 0);
	return r;
}

static struct latrec_ep *endpoint(struct latrec *r, uint32_t depth)
{
	struct latrec_ep *ep = NULL;

	CHECK_EQ(latrec_ep_create(r, depth, &ep), 0);
	return ep;
}

static struct latrec_stats stats(const struct latrec *r)
{
	struct latrec_stats s;

	latrec_get_stats(r, &s, sizeof(s));
	return s;
}

TEST(depths_are_checked)
{
	RECORDER *r = recorder(false, 0);
	struct latrec_ep *ep = NULL;

	CHECK_EQ(latrec_ep_create(r, 0, &ep), -EINVAL);
	CHECK_EQ(latrec_ep_create(r, LATREC_MAX_DEPTH + 1, &ep), -EINVAL);
	CHECK(!ep);
	latrec_ep_destroy(NULL);
	latrec_destroy(NULL);
}

/* A program that was built with another version has shorter or longer structs. */
TEST(sizes_of_other_versions)
{
	struct {
		struct latrec_attr attr;
		uint64_t later;
	} attr = {.attr = {.size = sizeof(attr), .intended = true}, .later = 1};
	struct {
		struct latrec_stats stats;
		uint64_t later;
	} longer;
	struct latrec_window w;
	RECORDER *r = NULL;

	CHECK_EQ(latrec_create(&attr.attr, &r), -E2BIG);
	CHECK(!r);
	attr.later = 0;
	CHECK_EQ(latrec_create(&attr.attr, &r), 0);
	CHECK(latrec_response(r));
	memset(&longer, 0xee, sizeof(longer));
	latrec_get_stats(r, &longer.stats, sizeof(longer));
	CHECK(!longer.stats.dropped && longer.later == 0xeeeeeeeeeeeeeeee);
	memset(&longer, 0xee, sizeof(longer));
	latrec_get_stats(r, &longer.stats, offsetof(struct latrec_stats, dropped));
	CHECK(!longer.stats.backwards && longer.stats.dropped == 0xeeeeeeeeeeeeeeee);
	CHECK_EQ(latrec_record(r, 0, 0, 7), 0);
	w.max_ns = 1;
	CHECK_EQ(latrec_worst_window(r, &w, offsetof(struct latrec_window, max_ns)), 0);
	CHECK(w.count == 1 && w.p99_ns == 7 && w.max_ns == 1);
}

/* Each completion gets the stamp of its own post, through many laps of a small ring. */
TEST(stamps_come_back_in_order)
{
	RECORDER *r = recorder(false, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 8);
	uint64_t rng = test_seed(), posted = 0, done = 0, now = 1000, at[8];

	while (done < 2000) {
		now += 1 + test_rand(&rng) % 100;
		if (test_rand(&rng) & 1) {
			CHECK_EQ(latrec_ep_post(ep, now, now), posted - done == 8 ? -EAGAIN : 0);
			if (posted - done < 8)
				at[posted++ % 8] = now;
		} else if (posted == done) {
			CHECK_EQ(latrec_ep_complete(ep, now), -ENOENT);
		} else {
			latrec_reset(r);
			CHECK_EQ(latrec_ep_complete(ep, now), 0);
			CHECK_EQ(latrec_service(r)->count, 1);
			CHECK_EQ(latrec_hist_max(latrec_service(r)), now - at[done++ % 8]);
		}
		CHECK_EQ(latrec_ep_pending(ep), posted - done);
	}
}

TEST(latencies_are_done_minus_posted)
{
	RECORDER *r = recorder(false, 0);
	struct latrec_ep *a = endpoint(r, 4), *b = endpoint(r, 4);

	CHECK(!latrec_response(r));
	CHECK_EQ(latrec_ep_post(a, 100, 100), 0);
	CHECK_EQ(latrec_ep_post(b, 110, 110), 0);
	CHECK_EQ(latrec_ep_post(a, 120, 120), 0);
	CHECK_EQ(latrec_ep_complete(b, 111), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 1);
	CHECK_EQ(latrec_ep_complete(a, 140), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 40);
	CHECK_EQ(latrec_ep_complete(a, 200), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 80);
	CHECK_EQ(latrec_service(r)->count, 3);
	latrec_ep_destroy(a);
	latrec_ep_destroy(b);
}

/* A depth that is no power of two is rounded up; a full FIFO refuses posts and loses nothing. */
TEST(a_full_fifo_refuses)
{
	RECORDER *r = recorder(false, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 3);

	for (uint64_t lap = 0; lap < 3; lap++) {
		for (uint64_t i = 0; i < 4; i++)
			CHECK_EQ(latrec_ep_post(ep, i, 10 * lap + i), 0);
		CHECK_EQ(latrec_ep_post(ep, 9, 9), -EAGAIN);
		CHECK_EQ(latrec_ep_pending(ep), 4);
		for (uint64_t i = 0; i < 4; i++)
			CHECK_EQ(latrec_ep_complete(ep, 10 * lap + i + 50), 0);
		CHECK_EQ(latrec_ep_pending(ep), 0);
	}
	CHECK_EQ(latrec_hist_min(latrec_service(r)), 50);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 50);
	CHECK_EQ(stats(r).refused, 3);
}

TEST(a_completion_of_nothing_is_counted)
{
	RECORDER *r = recorder(true, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 2);

	CHECK_EQ(latrec_ep_complete(ep, 5), -ENOENT);
	CHECK_EQ(latrec_ep_post(ep, 10, 10), 0);
	CHECK_EQ(latrec_ep_complete(ep, 15), 0);
	CHECK_EQ(latrec_ep_complete(ep, 20), -ENOENT);
	CHECK_EQ(latrec_ep_post(ep, 30, 30), 0);
	CHECK_EQ(latrec_ep_complete(ep, 37), 0);
	CHECK_EQ(stats(r).unmatched, 2);
	CHECK_EQ(latrec_service(r)->count, 2);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 7);
	CHECK_EQ(latrec_hist_max(latrec_response(r)), 7);
}

TEST(posts_can_be_taken_back_or_dropped)
{
	RECORDER *r = recorder(false, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 2);

	CHECK_EQ(latrec_ep_unpost(ep), -ENOENT);
	CHECK_EQ(latrec_ep_drop(ep), -ENOENT);
	CHECK_EQ(latrec_ep_post(ep, 10, 10), 0);
	CHECK_EQ(latrec_ep_post(ep, 20, 20), 0);
	CHECK_EQ(latrec_ep_unpost(ep), 0);
	CHECK_EQ(latrec_ep_post(ep, 21, 21), 0);
	CHECK_EQ(latrec_ep_drop(ep), 0); /* drops the oldest post */
	CHECK_EQ(latrec_ep_post(ep, 22, 22), 0);
	CHECK_EQ(latrec_ep_complete(ep, 24), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 3);
	CHECK_EQ(latrec_ep_complete(ep, 26), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 4);
	CHECK_EQ(stats(r).dropped, 1);
	CHECK_EQ(latrec_service(r)->count, 2);
}

/* A clock that steps backwards or forwards never causes a negative or wrapped latency. */
TEST(a_stepped_clock_gives_no_sample)
{
	RECORDER *r = recorder(true, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 8);

	CHECK_EQ(latrec_ep_post(ep, 1000, 1000), 0);
	CHECK_EQ(latrec_ep_post(ep, 1001, 1001), 0);
	CHECK_EQ(latrec_ep_complete(ep, 999), -ERANGE); /* 1 ns before the post */
	CHECK_EQ(latrec_service(r)->count, 0);
	CHECK_EQ(latrec_ep_complete(ep, 1001), 0); /* matched with the next stamp */
	CHECK_EQ(latrec_record(r, 7 * MS, 7 * MS, 0), -ERANGE); /* the clock was set to 0 */
	CHECK_EQ(latrec_record(r, 0, 0, INT64_MAX), 0);
	CHECK_EQ(latrec_record(r, INT64_MAX, INT64_MAX, 1), -ERANGE);
	CHECK_EQ(stats(r).backwards, 3);
	CHECK_EQ(latrec_service(r)->count, 2);
	CHECK_EQ(latrec_hist_min(latrec_service(r)), 0);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), INT64_MAX);
	CHECK_EQ(latrec_response(r)->count, 2);
}

/*
 * A server handles one request at a time, in 10 us, but stops once for 100 ms; requests are due
 * every 20 us. Requests that became due during the stop were posted after it. So one service time
 * in ten thousand is long, but four of five response times are.
 */
TEST(omitted_waits_are_in_the_response)
{
	RECORDER *r = recorder(true, 0);
	uint64_t done = 0;

	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t due = i * 20000, post = due > done ? due : done;

		done = post + (i == 2000 ? 100 * MS : 10000);
		CHECK_EQ(latrec_record(r, due, post, done), 0);
	}
	CHECK_EQ(latrec_service(r)->count, 10000);
	CHECK_EQ(latrec_response(r)->count, 10000);
	CHECK(latrec_hist_quantile(latrec_service(r), .9999) < 10100);
	CHECK_EQ(latrec_hist_max(latrec_service(r)), 100 * MS);
	/* Request 2000 + k ends 100 ms - 10 us * k after it was due. */
	CHECK(latrec_hist_quantile(latrec_response(r), .5) > 20 * MS);
	CHECK(latrec_hist_quantile(latrec_response(r), .99) > 98 * MS);
}

/* A due time after the post counts as the time of the post. */
TEST(nothing_begins_after_its_post)
{
	RECORDER *r = recorder(true, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 2);

	CHECK_EQ(latrec_ep_post(ep, 900, 100), 0);
	CHECK_EQ(latrec_ep_complete(ep, 150), 0);
	CHECK_EQ(latrec_record(r, 900, 200, 250), 0);
	CHECK_EQ(latrec_hist_min(latrec_response(r)), 50);
	CHECK_EQ(latrec_hist_max(latrec_response(r)), 50);
}

/* ---- windows ---- */

static struct latrec_window worst(const struct latrec *r)
{
	struct latrec_window w;

	CHECK_EQ(latrec_worst_window(r, &w, sizeof(w)), 0);
	return w;
}

/* Records n samples with a latency of ns nanoseconds, which complete from time ms on. */
static void burst(struct latrec *r, uint64_t ms, uint64_t n, uint64_t ns)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK_EQ(latrec_record(r, ms * MS + i - ns, ms * MS + i - ns, ms * MS + i), 0);
}

TEST(the_worst_window_is_found)
{
	RECORDER *r = recorder(false, 10 * MS);
	struct latrec_window w;

	CHECK_EQ(latrec_worst_window(r, &w, sizeof(w)), -ENODATA);
	burst(r, 1000, 100, 200); /* window from 1000 to 1010 ms */
	CHECK(worst(r).count == 100 && worst(r).p99_ns == 200); /* the open window counts */
	burst(r, 1010, 98, 100); /* 1010 to 1020: two samples of a hundred are slow */
	burst(r, 1019, 2, 250);
	burst(r, 1020, 99, 100); /* 1020 to 1030: one sample of a hundred is slow */
	burst(r, 1025, 1, 90000);
	burst(r, 1057, 50, 150); /* two empty windows, then 1050 to 1060 */
	burst(r, 1060, 1, 10);
	w = worst(r);
	CHECK_EQ(w.start_ns, 1010 * MS);
	CHECK_EQ(w.length_ns, 10 * MS);
	CHECK_EQ(w.count, 100);
	CHECK_EQ(w.p99_ns, 250);
	CHECK_EQ(w.max_ns, 250);
	CHECK(w.mean_ns == (98 * 100 + 2 * 250) / 100.);
	burst(r, 1099, 1, 255); /* the open window is worse */
	CHECK_EQ(worst(r).start_ns, 1090 * MS);
}

TEST(of_equal_windows_the_mean_decides)
{
	RECORDER *r = recorder(true, 10 * MS);

	burst(r, 100, 50, 100);
	burst(r, 100, 50, 200);
	burst(r, 110, 40, 100);
	burst(r, 110, 60, 200);
	burst(r, 120, 50, 100);
	burst(r, 120, 50, 200);
	burst(r, 130, 1, 1);
	CHECK_EQ(worst(r).start_ns, 110 * MS);
}

TEST(reset_forgets_all_but_what_is_in_flight)
{
	RECORDER *r = recorder(true, 0);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(r, 4);
	struct latrec_window w;

	burst(r, 500, 10, 7);
	CHECK_EQ(latrec_record(r, 9, 9, 1), -ERANGE);
	CHECK_EQ(latrec_ep_post(ep, 600 * MS, 600 * MS), 0);
	latrec_reset(r);
	CHECK_EQ(latrec_worst_window(r, &w, sizeof(w)), -ENODATA);
	CHECK_EQ(stats(r).backwards, 0);
	CHECK_EQ(latrec_ep_complete(ep, 600 * MS + 3), 0);
	CHECK_EQ(latrec_service(r)->count, 1);
	CHECK_EQ(latrec_response(r)->count, 1);
	CHECK_EQ(worst(r).start_ns, 600 * MS + 3);
}

TEST(recorders_merge)
{
	RECORDER *a = recorder(true, 10 * MS), *b = recorder(true, 10 * MS);
	RECORDER *closed = recorder(false, 10 * MS);
	AT_END(end_ep) struct latrec_ep *ep = endpoint(b, 1);

	burst(a, 100, 100, 50);
	burst(b, 200, 10, 70);
	CHECK_EQ(latrec_ep_complete(ep, 1), -ENOENT);
	CHECK_EQ(latrec_record(b, 2, 2, 1), -ERANGE);
	CHECK_EQ(latrec_ep_post(ep, 1, 1), 0);
	CHECK_EQ(latrec_ep_post(ep, 1, 1), -EAGAIN);
	CHECK_EQ(latrec_ep_drop(ep), 0);
	CHECK_EQ(latrec_merge(a, closed), -EINVAL);
	CHECK_EQ(latrec_merge(a, b), 0);
	CHECK_EQ(latrec_service(a)->count, 110);
	CHECK_EQ(latrec_response(a)->count, 110);
	CHECK_EQ(latrec_hist_max(latrec_response(a)), 70);
	CHECK(worst(a).start_ns == 200 * MS && worst(a).count == 10);
	CHECK(stats(a).unmatched == 1 && stats(a).backwards == 1 && stats(a).refused == 1 &&
		stats(a).dropped == 1);
	/* The merged samples do not count in the open window. */
	burst(a, 100, 5, 90);
	CHECK(worst(a).count == 105 && worst(a).p99_ns == 90);
}

TEST(a_merge_that_overflows_changes_nothing)
{
	RECORDER *a = recorder(false, 10 * MS), *b = recorder(false, 10 * MS);

	burst(a, 100, 1, 50);
	burst(b, 200, 1, 70);
	CHECK_EQ(latrec_hist_record_n((struct latrec_hist *)latrec_service(a), 50,
			 LATREC_MAX_COUNT - 1),
		0);
	CHECK_EQ(latrec_merge(a, b), -EOVERFLOW);
	CHECK_EQ(latrec_hist_max(latrec_service(a)), 50);
	CHECK_EQ(worst(a).start_ns, 100 * MS);
}

/* ---- the table ---- */

TEST(the_table_says_all)
{
	RECORDER *r = recorder(true, 0);
	AT_END(end_free) char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (uint64_t i = 1; i <= 200; i++)
		CHECK_EQ(latrec_record(r, 50 * MS, 50 * MS + i, 50 * MS + 2 * i), 0);
	CHECK_EQ(latrec_record(r, 9, 9, 1), -ERANGE);
	CHECK_EQ(latrec_print(r, "virtual time", out), 0);
	fclose(out);
	CHECK(!strcmp(text,
		"latency [us]             samples       min      mean       p50       p90       "
		"p99     p99.9    p99.99       max\n"
		"post to completion           200     0.001     0.101     0.100     0.180     "
		"0.198     0.200     0.200     0.200\n"
		"due to completion            200     0.002     0.201     0.200     0.361     "
		"0.397     0.400     0.400     0.400\n"
		"worst window of 100 ms, at 0.050000 s: 200 samples, mean 0.201 us, p99 0.397 us, "
		"max 0.400 us\n"
		"not recorded: 0 posts refused, 0 completions unmatched, 1 completions before "
		"their post, 0 operations dropped\n"
		"percentiles by nearest rank, at most 0.79 % above the sample; clock: virtual time\n"));
}

/* Returns true if the bound of the percentiles that latrec_print() writes is limited to the range. */
static bool bound_is_limited(const struct latrec *r)
{
	AT_END(end_free) char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	CHECK_EQ(latrec_print(r, "none", out), 0);
	fclose(out);
	CHECK(strstr(text, "at most 0.79 % above the sample"));
	return strstr(text, "above the sample, for samples in the range; clock: none\n");
}

TEST(the_bound_is_that_of_samples_in_the_range)
{
	const struct latrec_attr attr = {.size = sizeof(attr),
		.intended = true,
		.low = 1024,
		.high = 2047};
	RECORDER *r = NULL, *all = recorder(false, 0);

	CHECK_EQ(latrec_create(&attr, &r), 0);
	CHECK_EQ(latrec_record(r, 0, 0, 1024), 0);
	CHECK_EQ(latrec_record(r, 0, 0, 2047), 0);
	CHECK(!bound_is_limited(r));
	CHECK_EQ(latrec_record(r, 0, 0, 1023), 0);
	CHECK(bound_is_limited(r));
	latrec_reset(r);
	CHECK(!bound_is_limited(r));
	/* The response time is above the range, the service time is in it. */
	CHECK_EQ(latrec_record(r, 0, 1024, 2048), 0);
	CHECK(bound_is_limited(r));
	/* The default range has all values; 0 is counted below it, and is exact. */
	CHECK_EQ(latrec_record(all, 0, 0, 0), 0);
	CHECK_EQ(latrec_record(all, 0, 0, INT64_MAX), 0);
	CHECK(!bound_is_limited(all));
}

TEST(a_full_disk_is_reported)
{
	RECORDER *r = recorder(false, 0);
	AT_END(end_file) FILE *out = fopen("/dev/full", "we");

	CHECK(out);
	CHECK_EQ(latrec_print(r, "none", out), -ENOSPC);
}
