/* SPDX-License-Identifier: MIT */
/*
 * The default mode meets its limits in every case of the simulator, also with some other
 * assumptions. Its makespan is in no case more than 0.5 % above that of mode smart.
 */
#include <math.h>

#include "support/test.h"
#include "summary.h"

static const struct sim_assume usual = {.told_latency = 1,
	.told_links = true,
	.cost_ns = 50,
	.bytes = 4000000000ull};

static struct summary run(const struct sim_case *c, enum tent_mode mode, const struct sim_assume *a,
	uint32_t n_seeds)
{
	struct tent_config config;
	struct summary s;

	config_init(&config);
	config.mode = mode;
	CHECK_EQ(summary_run(&s, c, a, &config, 1, n_seeds), 0);
	CHECK(s.slices > 0 && s.slice_ns.n > 0);
	CHECK_EQ(s.failed, 0);
	CHECK_EQ(s.late, 0);
	return s;
}

/* The number of runs of each case, from the environment, at most @most. */
static uint32_t seeds(uint32_t most)
{
	const char *env = getenv("TENT_SIM_SEEDS");
	uint32_t n = env ? (uint32_t)strtoul(env, NULL, 10) : most;

	return n < 1 || n > most ? most : n;
}

enum kind {
	STREAMS,
	SINGLES,
	FAULTS,
};

static enum kind kind_of(const struct sim_case *c)
{
	if (c->isolated)
		return SINGLES;
	return c->fault == FAULT_NONE ? STREAMS : FAULTS;
}

static void accept_all(enum kind kind, const struct sim_assume *a, uint32_t n_seeds)
{
	uint32_t n = 0;

	for (size_t i = 0; i < n_sim_cases; i++) {
		struct summary s;

		if (kind_of(&sim_cases[i]) != kind)
			continue;
		s = run(&sim_cases[i], TENT_MODE_DEFAULT, a, n_seeds);
		printf("  ");
		summary_line(&s, stdout);
		CHECK(summary_accepted(&s));
		summary_fini(&s);
		n++;
	}
	CHECK(n >= 4);
}

TEST_WITH(streams, accept_all, STREAMS, &usual, seeds(5));
TEST_WITH(singles, accept_all, SINGLES, &usual, seeds(5));
TEST_WITH(faults, accept_all, FAULTS, &usual, seeds(5));

TEST(shared_links_in_order)
{
	struct sim_assume a = usual;

	a.sharing = NET_FIFO;
	accept_all(STREAMS, &a, seeds(2));
	accept_all(SINGLES, &a, seeds(2));
	accept_all(FAULTS, &a, seeds(2));
}

TEST(latencies_vary)
{
	struct sim_assume a = usual;

	a.jitter = .5;
	accept_all(STREAMS, &a, seeds(2));
	accept_all(FAULTS, &a, seeds(2));
}

TEST(latencies_are_not_as_told)
{
	struct sim_assume a = usual;

	a.told_latency = .5;
	accept_all(STREAMS, &a, 1);
	a.told_latency = 3;
	accept_all(STREAMS, &a, 1);
	accept_all(FAULTS, &a, 1);
}

TEST(untold_links)
{
	struct sim_assume a = usual;

	a.told_links = false;
	accept_all(STREAMS, &a, seeds(2));
	accept_all(FAULTS, &a, seeds(2));
}

TEST(default_is_nowhere_behind)
{
	for (size_t i = 0; i < n_sim_cases; i++) {
		struct summary ours = run(&sim_cases[i], TENT_MODE_DEFAULT, &usual, seeds(2));
		AT_END(summary_fini)
		struct summary smart = run(&sim_cases[i], TENT_SMART, &usual, seeds(2));
		double ratio = figure_mean(&ours.makespan) / figure_mean(&smart.makespan);

		printf("  %-16s %.3f of smart\n", sim_cases[i].name, ratio);
		CHECK(ratio <= 1.005);
		summary_fini(&ours);
	}
}

TEST(same_seed_runs_the_same)
{
	const struct sim_case *c = case_find("mixed");
	struct sim_assume a = usual;
	struct summary first, again;

	a.bytes = 200000000;
	first = run(c, TENT_SMART, &a, 2);
	again = run(c, TENT_SMART, &a, 2);
	CHECK(first.makespan.sum == again.makespan.sum);
	CHECK(first.slices == again.slices);
	CHECK_EQ(first.slice_ns.n, again.slice_ns.n);
	for (size_t i = 0; i < first.slice_ns.n; i++)
		CHECK(first.slice_ns.v[i] == again.slice_ns.v[i]);
	summary_fini(&first);
	summary_fini(&again);
}

TEST(intervals)
{
	struct figure f = {0};

	CHECK(isnan(figure_mean(&f)));
	figure_add(&f, NAN);
	figure_add(&f, 1);
	CHECK(figure_mean(&f) == 1 && figure_ci95(&f) == 0);
	figure_add(&f, 2);
	figure_add(&f, 3);
	CHECK(figure_mean(&f) == 2 && f.worst == 3);
	/* t(2) = 4.303, standard deviation 1 */
	CHECK(fabs(figure_ci95(&f) - 4.303 / sqrt(3)) < 1e-9);
}
