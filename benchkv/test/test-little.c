/* SPDX-License-Identifier: MIT */
/* Batching by Little's law: scripted counts, exact latencies and switches. */
#include "support/test.h"
#include "little.h"

static struct little l; /* the state of the current case */

static void begin(uint32_t peers)
{
	little_fini(&l);
	CHECK_EQ(little_init(&l, peers), 0);
	little_count(&l, 1000, 0, 0);
}

/*
 * Runs loops of 1 us until an epoch ends. In each loop `per_loop` requests end and `under_way`
 * others remain, so the latency is under_way / per_loop us. Returns the number of loops.
 */
static uint32_t epoch(uint32_t under_way, uint32_t per_loop)
{
	double off = l.latency_ns[0], on = l.latency_ns[1];
	uint32_t n = 0;

	while (off == l.latency_ns[0] && on == l.latency_ns[1] && n < 100000) {
		little_count(&l, l.now_ns + 1000, under_way, per_loop);
		n++;
	}
	return n;
}

/* Ends the requests that were under way when batching was switched on or off. */
static void settle(void)
{
	if (l.settling)
		little_count(&l, l.now_ns + 1000, l.under_way, l.settling);
	CHECK_EQ(l.settling, 0);
}

TEST(latency_is_the_integral_over_what_ended)
{
	begin(1);
	little_count(&l, 1000, 6, 0);
	CHECK_EQ(l.area, 0);
	little_count(&l, 51000, 4, 2); /* 6 requests under way for 50 us */
	CHECK_EQ(l.area, 300000);
	little_count(&l, 151000, 4, 30); /* 4 requests under way for 100 us */
	CHECK_EQ(l.area, 700000);
	little_count(&l, 200999, 4, 32); /* 64 have ended, but the epoch is too short */
	CHECK(l.latency_ns[0] == 0);
	little_count(&l, 201000, 0, 0);
	CHECK(l.latency_ns[0] == 900000.0 / 64);
	CHECK(l.latency_ns[1] == 0 && l.batching && l.trying);
}

TEST(an_epoch_needs_requests)
{
	begin(1);
	little_count(&l, 1000, 1, 0);
	little_count(&l, 9000000, 1, 63);
	CHECK(l.latency_ns[0] == 0 && !l.batching);
	little_count(&l, 9000001, 1, 1);
	CHECK(l.latency_ns[0] == 9000000.0 / 64 - 1000.0 / 64 + 1.0 / 64);
}

/*
 * Batching is off at first, then on for a trial; then the better setting stays. Requests that were
 * under way at a switch do not count.
 */
TEST(tries_both_then_keeps_the_better_one)
{
	begin(1);
	little_count(&l, 1000, 8, 0);
	CHECK_EQ(epoch(8, 1), 200);
	CHECK(l.latency_ns[0] == 8000);
	CHECK(l.batching && l.trying && l.settling == 8);
	for (int i = 0; i < 7; i++)
		little_count(&l, l.now_ns + 1000000, 4, 1); /* slow, but not counted */
	CHECK_EQ(l.settling, 1);
	little_count(&l, l.now_ns + 1000000, 4, 5);
	CHECK_EQ(l.settling, 0);
	CHECK_EQ(epoch(4, 2), 200);
	CHECK(l.latency_ns[1] == 2000 && l.batching && !l.trying && !l.settling);
	/* With the same setting the next epoch begins at once; its latency has the weight 1/2. */
	CHECK_EQ(epoch(12, 2), 200);
	CHECK(l.latency_ns[1] == (2000 + (4 + 199 * 12) * 1000.0 / 400) / 2 && l.batching);
	/* The latency with batching becomes worse than that without it. */
	CHECK_EQ(epoch(40, 2), 200);
	CHECK(l.latency_ns[1] > 8000 && !l.batching && !l.trying);
}

TEST(tries_the_other_one_again)
{
	uint32_t n = 0;

	begin(1);
	little_count(&l, 1000, 4, 0);
	epoch(4, 1);
	settle();
	epoch(8, 1);
	settle();
	CHECK(!l.batching && !l.trying);
	while (!l.trying) { /* two latencies in turn: epoch() waits until the latency changes */
		CHECK(!l.batching && n < 100);
		epoch(4 + ++n % 2, 1);
	}
	CHECK_EQ(n, 16);
	CHECK(l.batching);
	settle();
	epoch(9, 1);
	CHECK(!l.batching && !l.trying);
}

/* ---- exchange of counters ---- */

TEST(tells_both_counters_of_one_moment)
{
	begin(2);
	l.ended = 0x1c0000005;
	l.area = 7ull << 42 | 0x123456789ull << 12 | 0xfff;
	CHECK_EQ(little_word(&l, 1), 0x80000005);
	l.ended = 6;
	l.area = 0;
	CHECK_EQ(little_word(&l, 0), 0x80000006);
	CHECK_EQ(little_word(&l, 1), 0xc0000000 | (0x123456789ull & 0x3fffffff));
	CHECK_EQ(little_word(&l, 1), 0x80000006);
	CHECK_EQ(little_word(&l, 0), 0xc0000000);
}

static void hear(uint32_t peer, uint32_t ended, uint32_t area)
{
	little_heard(&l, peer, LITTLE_VALID | ended);
	little_heard(&l, peer, LITTLE_VALID | LITTLE_AREA | area);
}

TEST(hears_differences)
{
	begin(2);
	hear(0, 100, 50); /* the first report is only the base for the next one */
	CHECK(l.peers_ended == 0 && l.peers_area == 0);
	hear(0, 107, 80);
	CHECK(l.peers_ended == 7 && l.peers_area == 30 << 12);
	hear(1, 0x3fffffff, 0x3ffffffe); /* another rank, whose counters are near their limit */
	hear(1, 4, 8);
	CHECK(l.peers_ended == 12 && l.peers_area == 40 << 12);
	little_heard(&l, 0, 0); /* no counter, then the two halves in the wrong order */
	little_heard(&l, 0, LITTLE_VALID | LITTLE_AREA | 500);
	little_heard(&l, 0, LITTLE_VALID | 1000);
	CHECK(l.peers_ended == 12 && l.peers_area == 40 << 12);
	hear(0, 108, 82); /* a new first half replaces the old one */
	CHECK(l.peers_ended == 13 && l.peers_area == 42 << 12);
}

/*
 * A report is compared with the one before if that is less than 100 ms old. In 100 ms the counter
 * of the integral wraps once if 44,000 requests are under way.
 */
TEST(compares_no_old_reports)
{
	begin(1);
	hear(0, 1, 1);
	little_count(&l, 1000 + 99999999, 0, 0);
	hear(0, 2, 2);
	CHECK_EQ(l.peers_ended, 1);
	little_count(&l, l.now_ns + 100000000, 0, 0);
	hear(0, 9, 9);
	CHECK_EQ(l.peers_ended, 1);
	hear(0, 11, 9);
	CHECK_EQ(l.peers_ended, 3);
}

/* Own requests are faster with batching on, those of the peer slower: the sum decides. */
TEST(both_ends_count)
{
	begin(1);
	hear(0, 0, 0);
	little_count(&l, 1000, 8, 0);
	for (int i = 0; i < 199; i++)
		little_count(&l, l.now_ns + 1000, 8, 1);
	hear(0, 100, 1000);
	little_count(&l, l.now_ns + 1000, 8, 1);
	CHECK(l.latency_ns[0] == (8.0 * 200000 + (1000 << 12)) / (200 + 100));
	settle();
	for (int i = 0; i < 199; i++)
		little_count(&l, l.now_ns + 1000, 6, 1);
	hear(0, 200, 3000);
	little_count(&l, l.now_ns + 1000, 6, 1);
	CHECK(l.latency_ns[1] == (8000 + 6.0 * 199000 + (2000 << 12)) / (200 + 100));
	CHECK(!l.batching);
}
