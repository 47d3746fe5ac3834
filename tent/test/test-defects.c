/* SPDX-License-Identifier: MIT */
/*
 * The cases of the simulator detect the published defects (see defects.h), with which mode smart is
 * built here (TENT_DEFECTS). So test-sim.c does not pass by chance.
 */

#include "support/test.h"
#include "summary.h"

static const struct sim_assume usual = {.told_latency = 1,
	.told_links = true,
	.cost_ns = 50,
	.bytes = 4000000000ull};

static double ratio(const char *name)
{
	const struct sim_case *c = case_find(name);
	struct tent_config config;
	struct summary s;
	double mean;

	config_init(&config);
	config.mode = TENT_SMART;
	CHECK_EQ(summary_run(&s, c, &usual, &config, 1, 5), 0);
	CHECK(!summary_accepted(&s) || c->max == 8 << 20);
	mean = figure_mean(&s.ratio);
	printf("  %-16s %.2f of the bound\n", name, mean);
	summary_fini(&s);
	return mean;
}

/*
 * Because of empty slices and charges that are not released, one rail after the other is not used
 * any more.
 */
TEST(ledger_drift)
{
	CHECK(ratio("healthy-33x64k") > 4);
	CHECK(ratio("dies-33x64k") > 4);
}

/* With slices of equal size the ledger does not drift. */
TEST(healthy_large_requests)
{
	CHECK(ratio("healthy-8m") < 1.05);
}

/*
 * If bandwidth includes the time in the scheduler's queue, the estimate is at its lower limit for
 * every rail, fast or slow.
 */
TEST(slow_rail)
{
	CHECK(ratio("slow-rail-8m") > 1.5);
}

TEST(singles)
{
	CHECK(ratio("one-8m") > 1.5);
	CHECK(ratio("one-33x64k") > 1.5);
}
