/* SPDX-License-Identifier: MIT */
/*
 * The adaptive poll budget (adaptive.h): tests the constants and all transitions, with exact
 * values. rho is loop time / round trip.
 */
#include "adaptive.h"
#include "support/test.h"

static const struct adaptive_loop empty = {0, 1.0, 0};

/* A controller that has measured the effect of u. Its filters and counters are at 0. */
static struct adaptive identified(uint32_t step_up, uint32_t u_max)
{
	struct adaptive a;

	adaptive_init(&a);
	a.half = 2;
	a.phase_loops = ADAPTIVE_AGAIN;
	a.step_up = step_up;
	a.step_down = 2 * step_up;
	a.u_max = u_max;
	return a;
}

static void steps(struct adaptive *a, const struct adaptive_loop *seen, uint32_t n)
{
	while (n--)
		adaptive_step(a, seen);
}

TEST(filters_bit_for_bit)
{
	static const uint32_t cqes[] = {3, 0, 0, 17, 1, 0, 5};
	struct adaptive a = identified(1, 8);
	double b = 0, e = 0, loop = 0, rtt = 0, last = 0;

	for (uint32_t i = 0; i < 7 * 100; i++) {
		struct adaptive_loop seen = {cqes[i % 7], 0.7 + i % 5, i % 3 ? 6.0 + i % 4 : 0};

		adaptive_step(&a, &seen);
		b = (1.0 - 0.05) * b + 0.05 * seen.cqes;
		e = (1.0 - 0.05) * e + 0.05 * (seen.cqes ? 0.0 : 1.0);
		loop = (1.0 - 0.05) * loop + 0.05 * seen.loop_us;
		if (seen.rtt_us > 0) /* without a sample the last sample is used again */
			last = seen.rtt_us;
		rtt = (1.0 - 0.02) * rtt + 0.02 * last;
		CHECK(a.b_ema == b && a.e_ema == e && a.loop_ema_us == loop && a.rtt_ema_us == rtt);
	}
}

TEST(identifies)
{
	static const struct {
		double b0, b1, r0;
		uint32_t up, down, u_max;
	} cases[] = {
		{1, 9, 6, 2, 4, 15}, /* gain (9 - 1) / 8 = 1; step_up 2 / gain; u_max 2.5 * r0 */
		{1, 1, 6, 8, 16, 15}, /* no gain: the largest step */
		{2, 1, 6, 8, 16, 15}, /* a loss, too */
		{0, 100, 1, 1, 2, 8}, /* gain 12.5; step_up .16 but >= 1; u_max 2.5 but >= 8 */
		{0, 4, 40, 4, 8, 64}, /* gain 0.5; u_max 100, at most 64 */
		{0, 6.4, 3.4, 3, 6, 9}, /* step_up 2.5, rounded to 3; u_max 8.5, rounded to 9 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct adaptive a;

		adaptive_init(&a);
		a.b0 = cases[i].b0;
		a.b1 = cases[i].b1;
		a.r0 = cases[i].r0;
		adaptive_identify(&a);
		CHECK_EQ(a.step_up, cases[i].up);
		CHECK_EQ(a.step_down, cases[i].down);
		CHECK_EQ(a.u_max, cases[i].u_max);
	}
}

TEST(warms_up)
{
	const struct adaptive_loop two = {2, 1.0, 6.0};
	struct adaptive a;
	double rtt = 0;

	adaptive_init(&a);
	CHECK(a.u == 0 && a.u_max == 8 && a.step_up == 1 && a.step_down == 2);
	steps(&a, &two, 1024);
	steps(&a, &empty, 3071);
	CHECK(a.half == 0 && a.u == 0);
	adaptive_step(&a, &empty);
	CHECK(a.half == 1 && a.u == 8);
	for (uint32_t i = 0; i < 4096; i++) /* the mean begins at 0, not at the first sample */
		rtt = (1.0 - 0.02) * rtt + 0.02 * 6.0;
	CHECK(a.b0 == 0.5 && a.e0 == 0.75 && a.r0 == rtt);
	steps(&a, &two, 4095);
	CHECK_EQ(a.half, 1);
	adaptive_step(&a, &two);
	CHECK(a.half == 2 && a.b1 == 2.0 && a.e1 == 0.0 && a.u == 0);
	CHECK(a.db_du == 0.1875 && a.de_du == -0.09375); /* 1.5 / 8, -.75 / 8 */
	CHECK_EQ(a.step_up, 8); /* 2 / .1875 = 10.7, at most 8 */
	CHECK_EQ(a.step_down, 16);
	CHECK_EQ(a.u_max, 15);
	steps(&a, &two, (1u << 20) - 1);
	CHECK_EQ(a.half, 2);
	adaptive_step(&a, &two); /* the identification again */
	CHECK(a.half == 0 && a.u == 0);
}

TEST(identifies_again)
{
	const struct adaptive_loop fine = {2, 6.0, 6.0};
	struct adaptive a = identified(2, 40);

	steps(&a, &fine, 4096); /* until the filtered rho is near one: u stays */
	a.u = 30;
	a.low_count = a.high_count = a.hold_count = 0;
	a.phase_loops = 1000;
	steps(&a, &fine, 999);
	CHECK(a.half == 2 && a.u == 30);
	adaptive_step(&a, &fine);
	CHECK(a.half == 0 && a.u == 0);
	steps(&a, &fine, 4096);
	CHECK_EQ(a.u, 8);
	steps(&a, &fine, 4096);
	CHECK_EQ(a.half, 2);
	CHECK_EQ(a.u_max, 15);
	CHECK_EQ(a.u, 15); /* the budget before, limited to the new u_max */
}

/* Sets the filters to these values. */
static void settle(struct adaptive *a, double b, double e, double loop, double rtt)
{
	a->b_ema = b;
	a->e_ema = e;
	a->loop_ema_us = loop;
	a->rtt_ema_us = rtt;
}

/* The number of steps until u changes, if each step begins with these values of the filters. */
static uint32_t until_change(struct adaptive *a, double b, double e, double loop, double rtt)
{
	uint32_t u = a->u, n = 0;

	while (a->u == u && n < 1000) {
		struct adaptive_loop seen = {(uint32_t)b, loop, rtt};

		settle(a, b, e, loop, rtt);
		adaptive_step(a, &seen);
		n++;
	}
	return n;
}

TEST(rises_and_falls)
{
	struct adaptive a = identified(3, 10);

	/* rho 0.5: a step after 64 loops, then after 32 loops of hold and 64 more, up to u_max. */
	CHECK_EQ(until_change(&a, 4, 0.5, 3, 6), 64);
	CHECK_EQ(a.u, 3);
	CHECK_EQ(a.hold_count, 32);
	CHECK_EQ(until_change(&a, 4, 0.5, 3, 6), 96);
	CHECK_EQ(until_change(&a, 4, 0.5, 3, 6), 96);
	CHECK_EQ(until_change(&a, 4, 0.5, 3, 6), 96);
	CHECK_EQ(a.u, 10);
	/* rho 2, few empty loops: after 128 loops, by twice the step. */
	CHECK_EQ(until_change(&a, 4, 0.1, 12, 6), 32 + 128);
	CHECK_EQ(a.u, 4);
	CHECK_EQ(until_change(&a, 4, 0.1, 12, 6), 32 + 128);
	CHECK_EQ(a.u, 0);
}

TEST(many_empty_loops_count_as_low)
{
	struct adaptive a = identified(1, 10);

	CHECK_EQ(until_change(&a, 4, 0.85, 12, 6), 64); /* rho 2, but empty loops */
	CHECK_EQ(a.u, 1);
	a = identified(1, 10);
	CHECK_EQ(until_change(&a, 4, 0.5, 12, 6), 1000); /* neither too high nor too low */
}

/*
 * Returns the change of the budget by a loop after which the filters have exactly these values: -1
 * for a step down, 1 for a step up, 2 for the recovery from a collapse, 0 for none.
 */
static int decision(double b, double e, double loop, double rtt)
{
	struct adaptive a = identified(1, 20);
	struct adaptive_loop seen = {b >= 1 ? 1 : 0, loop, rtt};
	int change;

	settle(&a, (b - 0.05 * seen.cqes) / 0.95, (e - 0.05 * !seen.cqes) / 0.95, loop, rtt);
	a.u = 10;
	a.low_count = 63;
	a.high_count = 127;
	adaptive_step(&a, &seen);
	change = (int)a.u - 10;
	return change < -1 ? -1 : change > 2 ? 2 : change;
}

TEST(thresholds)
{
	/* The budget is too low with a rho below .8, too high with a rho above 1.2. */
	CHECK_EQ(decision(4, 0.3, 7.99, 10), 1);
	CHECK_EQ(decision(4, 0.3, 8.01, 10), 0);
	CHECK_EQ(decision(4, 0.3, 11.99, 10), 0);
	CHECK_EQ(decision(4, 0.3, 12.01, 10), -1);
	/* With more than .75 of empty loops the budget is too low, whatever rho is. */
	CHECK_EQ(decision(4, 0.749, 20, 10), 0);
	CHECK_EQ(decision(4, 0.751, 20, 10), 1);
	/* The budget is too high only with less than .4 of empty loops. */
	CHECK_EQ(decision(4, 0.401, 20, 10), 0);
	CHECK_EQ(decision(4, 0.399, 20, 10), -1);
	/*
	 * A round trip counts as at least half a microsecond, so rho is .45 / .5, .39 / .5, .61 /
	 * .5.
	 */
	CHECK_EQ(decision(4, 0.3, 0.45, 0.2), 0);
	CHECK_EQ(decision(4, 0.3, 0.39, 0.2), 1);
	CHECK_EQ(decision(4, 0.3, 0.61, 0.2), -1);
	/* Collapsed: fewer than one completion, more than .9 of empty loops. */
	CHECK_EQ(decision(0.99, 0.901, 10, 10), 2);
	CHECK_EQ(decision(0.99, 0.899, 10, 10), 1);
	CHECK_EQ(decision(1.01, 0.901, 10, 10), 1);
}

TEST(counts_in_a_row_only)
{
	struct adaptive a = identified(1, 10);
	struct adaptive_loop seen = {4, 3, 6}, well = {4, 6, 6};

	for (uint32_t i = 0; i < 63; i++) {
		settle(&a, 4, 0.5, 3, 6);
		adaptive_step(&a, &seen);
	}
	CHECK_EQ(a.low_count, 63);
	settle(&a, 4, 0.5, 6, 6);
	adaptive_step(&a, &well);
	CHECK_EQ(a.low_count, 0);
	CHECK_EQ(a.u, 0);
	CHECK_EQ(until_change(&a, 4, 0.5, 3, 6), 64);
}

TEST(recovers_from_collapse)
{
	struct adaptive a = identified(3, 20);

	/* b < 1 and e > 0.9: a step at once, by twice the step, then in every 33rd loop. */
	CHECK_EQ(until_change(&a, 0, 0.97, 0.7, 6), 1);
	CHECK_EQ(a.u, 6);
	CHECK_EQ(a.hold_count, 32);
	CHECK_EQ(until_change(&a, 0, 0.97, 0.7, 6), 33);
	CHECK_EQ(a.u, 12);
	CHECK_EQ(until_change(&a, 0, 0.97, 0.7, 6), 33);
	CHECK_EQ(until_change(&a, 0, 0.97, 0.7, 6), 33);
	CHECK_EQ(a.u, 20);
	a = identified(3, 20);
	CHECK_EQ(until_change(&a, 1, 0.97, 0.7, 6), 64); /* b is not below 1: no collapse */
	CHECK_EQ(a.u, 3);
}
