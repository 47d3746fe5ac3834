/* SPDX-License-Identifier: MIT */
/*
 * The topology's pauses (softhca(7), Link model). Their share of the link's time grows with five
 * properties of the traffic.
 */
#include <math.h>
#include <stdlib.h>

#include "rig.h"
#include "softhca.h"
#include "tmpdir.h"

#define RATE 8000u /* Mb/s: a byte takes one nanosecond */
#define PAUSES 60
#define PLACES 4
#define QPS 4
#define LIST 64
#define LISTS 4
#define RX_PAUSED "hw_counters/rx_prio3_pause_duration" /* us */
#define TX_PAUSED "hw_counters/tx_prio3_pause_duration"

static struct rig from[QPS], to[QPS];

static void topology(const char *link)
{
	tmpdir_topology("rate_mbps=%u latency_ns=%d pauses=%d\n", RATE,
		strcmp(link, "real") ? 0 : 20000000, PAUSES);
	CHECK(!setenv("SOFTHCA_LINK", link, 1));
}

static void open_pairs(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rig_open_pair(&from[i], &(struct rig_attr){.depth = LIST * LISTS}, &to[i], NULL);
}

/* ---- in virtual time only the requests of the last doorbell are outstanding ---- */

static double paused_share(uint32_t n, uint32_t len, int places)
{
	uint64_t before = rig_info().virtual_ns;
	double busy = (double)n * len;

	rig_write_list(&from[0], &to[0], n, len, places);
	rig_wait_ok(from[0].scq);
	return 1 - busy / (double)(rig_info().virtual_ns - before);
}

static double expected(uint32_t n, uint32_t len, int places)
{
	double length = fmin(log2(len) - 5, 12) / 12, batch = fmin(floor(log2(n)), 6) / 6;

	/*
	 * This is the share at the beginning. While the messages are sent, fewer and fewer of them
	 * are outstanding.
	 */
	return PAUSES / 200. * (length + (places - 1) / 3. + batch + floor(log2(n)) / 10) / 5;
}

static void shares_are_as_documented(void)
{
	open_pairs(1);
	for (uint32_t len = 32; len <= RIG_BUF; len *= 2)
		for (int places = 1; places <= PLACES; places *= 2)
			CHECK(fabs(paused_share(1, len, places) - expected(1, len, places)) <
				.002 + 1. / len);
	CHECK(fabs(paused_share(2, 8192, 1) - expected(2, 8192, 1)) < .02);
	CHECK(fabs(paused_share(16, 8192, 1) - expected(16, 8192, 1)) < .03);
}

static void shares_grow_step_by_step(void)
{
	double last = -1;

	open_pairs(1);
	for (uint32_t n = 1, len = 64; n <= 16; n *= 2, len *= 4) {
		double share = paused_share(n, len, 2);

		CHECK(share > last && share < PAUSES / 200.);
		last = share;
	}
}

/* ---- in real time the latency keeps requests outstanding ---- */

/* Nanoseconds of pauses per nanosecond in which the link is busy. */
static double pauses_of(unsigned qps, uint32_t lists, uint32_t n, uint32_t len, int places)
{
	uint64_t received = rig_counter(0, RX_PAUSED), sent = rig_counter(0, TX_PAUSED), us;

	for (unsigned i = 0; i < qps * lists; i++)
		rig_write_list(&from[i % qps], &to[i % qps], n, len, places);
	for (unsigned i = 0; i < qps * lists; i++)
		rig_wait_ok(from[i % qps].scq);
	us = rig_counter(0, RX_PAUSED) - received;
	CHECK_EQ(us, rig_counter(0, TX_PAUSED) - sent); /* both ends are one port */
	return (double)us * 1000 / ((double)qps * lists * n * len);
}

/*
 * The second half of the share is added only if all five properties of the traffic (softhca(7)) are
 * large. This test reduces three of them, one at a time. With smaller messages or batches the link
 * would be idle in between, and idle time has pauses, too.
 */
static void the_corner_is_worst(void)
{
	double corner;

	open_pairs(QPS);
	corner = pauses_of(QPS, LISTS, LIST, RIG_BUF, 4);
	CHECK(corner > pauses_of(1, LISTS, LIST, RIG_BUF, 4) * 1.3);
	CHECK(corner > pauses_of(QPS, LISTS, LIST, RIG_BUF, 1) * 1.3);
	CHECK(corner > pauses_of(QPS, 1, LIST, RIG_BUF, 4) * 1.3);
}

/* Before each message the link is idle for over a millisecond, but only one millisecond counts. */
static void idle_time_counts(void)
{
	double one_by_one, busy = expected(1, RIG_BUF, 1);

	open_pairs(1);
	pauses_of(1, 1, 1, RIG_BUF, 1);
	one_by_one = 0;
	for (int i = 0; i < 5; i++)
		one_by_one += pauses_of(1, 1, 1, RIG_BUF, 1) / 5;
	CHECK(fabs(one_by_one - busy / (1 - busy) * (RIG_BUF + 1e6) / RIG_BUF) < .1);
}

/* Runs @fn in a process and a fabric of its own. */
static void in_time(const char *link, void (*fn)(void))
{
	if (!test_in_child())
		return;
	test_fabric("pause");
	topology(link);
	fn();
	test_end();
	exit(0);
}

TEST_WITH(virtual_shares, in_time, "virtual", shares_are_as_documented);
TEST_WITH(virtual_steps, in_time, "virtual", shares_grow_step_by_step);
TEST_WITH(real_corner, in_time, "real", the_corner_is_worst);
TEST_WITH(real_idle_time, in_time, "real", idle_time_counts);
