/* SPDX-License-Identifier: MIT */
/*
 * Runs benchkv's daemons in virtual time, and compares their messages per WRITE under each control
 * with the simulator. README.md explains which parts are real and which are modelled.
 *
 *	benchkv-test-timed [NAME]	runs the tests, or those whose names contain NAME
 *	benchkv-test-timed tables	prints the tables of README.md
 *	benchkv-test-timed orders	prints the throughput with other orders of phases (orders.h)
 */
#include <stdio.h>

#include "support/test.h"
#include "costs.h"
#include "jobs.h"
#include "node.h"
#include "orders.h"

#define DEEP 8192 /* blocks of a send queue that is never full here */
#define FACTOR 1.25 /* largest accepted ratio of simulator and daemons */
#define APART 1.1 /* least ratio in the simulator for which the order of two controls is checked */
/*
 * A job at depth 32 has left the state "low" (jobs.h) if its WRITEs have at least this many
 * messages. With daemons that poll their ring of requests once per loop, a job of 4 ranks would have
 * 21 messages per WRITE, and one of 8 ranks 9.
 */
#define RECOVERED 25

static void simulate(const struct job *j, const char *control, struct run *r)
{
	struct sim_config config = {.machine = machine,
		.control = jobs_control(j, control),
		.ranks = j->ranks,
		.daemons = 1,
		.clients = JOBS_CLIENTS,
		.depth = j->depth,
		.threads = 1,
		.collapsed = true,
		.collapsed_ns = JOBS_LOW_NS,
		.warmup_ns = JOBS_WARMUP_NS,
		.duration_ns = JOBS_DURATION_NS,
		.seed = 1};

	CHECK_EQ(sim_run(&config, &r->sim), 0);
}

/* ---- what is expected ---- */

static double ratio_of(const struct run *r)
{
	return r->messages_per_write / r->sim.messages_per_write;
}

static bool within_factor(const struct job *j, const struct run *runs)
{
	bool all = true;

	for (uint32_t i = 0; i < j->n; i++) {
		double ratio = ratio_of(&runs[i]);

		if (ratio > 1 / FACTOR && ratio < FACTOR)
			continue;
		all = false;
		fprintf(stderr, "%u ranks, %s: the daemons have %.2f times the simulator's\n",
			j->ranks, j->controls[i], ratio);
	}
	return all;
}

static bool in_order(const struct job *j, const struct run *runs)
{
	bool all = true;

	for (uint32_t i = 0; i < j->n * j->n; i++) {
		uint32_t more = i / j->n, less = i % j->n;

		if (runs[more].sim.messages_per_write < APART * runs[less].sim.messages_per_write ||
			runs[more].messages_per_write > runs[less].messages_per_write)
			continue;
		all = false;
		fprintf(stderr, "%u ranks: %s has not more messages per WRITE than %s\n", j->ranks,
			j->controls[more], j->controls[less]);
	}
	return all;
}

/* At depth 32, send queues of the default depth are soon full, and messages gather. */
static bool recovered(const struct job *j, const struct run *runs)
{
	for (uint32_t i = 0; i < j->n; i++) {
		if (runs[i].messages_per_write < RECOVERED) {
			fprintf(stderr, "%u ranks, depth %u, %s: %.2f messages per WRITE\n",
				j->ranks, j->depth, j->controls[i], runs[i].messages_per_write);
			return false;
		}
	}
	return true;
}

#define ALL                                                                                        \
	8,                                                                                         \
	{                                                                                          \
		"none", "adaptive-budget", "hold:10", "adaptive-hold", "threshold:8,4",            \
			"budget:16", "little", "auto"                                              \
	}

static const struct job jobs[] = {
	{2, 1, 0, 0, false, ALL},
	{4, 1, 0, 0, false, ALL},
	{8, 1, 0, 0, true, ALL},
	{4, 32, DEEP, 0, false, 1, {"none"}},
	{4, 32, 0, 0, false, 1, {"none"}},
	{8, 32, DEEP, 0, true, 1, {"none"}},
	{8, 32, 0, 0, true, 1, {"none"}},
};

#define JOBS ARRAY_SIZE(jobs)

static struct run results[JOBS][JOBS_RUNS];

/* ---- the tables ---- */

static void print_cell(const struct run *r)
{
	printf(" %.2f / %.2f (%.2f) |", r->messages_per_write, r->sim.messages_per_write,
		ratio_of(r));
}

static void print_rate(const struct run *r)
{
	printf(" %.1f / %.1f |", r->ops_per_s / 1e6, r->sim.ops_per_s / 1e6);
}

/* Prints the jobs at depth 1: a line for each control, a column for each job. */
static void print_controls(size_t n, void (*print)(const struct run *r))
{
	printf("| depth 1 |");
	for (size_t j = 0; j < n; j++)
		printf(" %u ranks |", jobs[j].ranks);
	printf("\n|---|");
	for (size_t j = 0; j < n; j++)
		printf("---|");
	for (uint32_t i = 0; i < jobs[0].n; i++) {
		printf("\n| `%s` |", jobs[0].controls[i]);
		for (size_t j = 0; j < n; j++)
			print(&results[j][i]);
	}
	printf("\n\n");
}

static void print_deep(const struct job *j, const struct run *r)
{
	if (!r->messages_per_write)
		return;
	printf("| %u ranks, send queues %s |", j->ranks,
		j->sq_depth ? "unlimited" : "of default depth");
	print_cell(r);
	print_rate(r);
	printf("\n");
}

static void print_all(void)
{
	size_t shallow = 0;

	while (jobs[shallow].depth == 1)
		shallow++;
	printf("Messages per WRITE: daemons / simulator (ratio)\n\n");
	print_controls(shallow, print_cell);
	printf("Millions of operations per second: daemons / simulator\n\n");
	print_controls(shallow, print_rate);
	printf("| depth 32, `none` | messages per WRITE | M/s |\n|---|---|---|\n");
	for (size_t j = shallow; j < JOBS; j++)
		print_deep(&jobs[j], results[j]);
}

static bool check_job(const struct job *j, struct run *runs)
{
	jobs_run(j, runs);
	for (uint32_t i = 0; i < j->n; i++)
		simulate(j, j->controls[i], &runs[i]);
	if (j->depth > 1 && !j->sq_depth)
		return recovered(j, runs);
	return (int)within_factor(j, runs) & (int)in_order(j, runs);
}

static bool check_jobs(bool longer)
{
	bool good = true;

	for (size_t i = 0; i < JOBS; i++) {
		if (longer || !jobs[i].longer)
			good &= check_job(&jobs[i], results[i]);
	}
	return good;
}

/* ---- tests ---- */

TEST(daemons_are_as_simulated)
{
	CHECK(check_jobs(false));
}

/* Two runs of the same job have the same results, because all times are virtual. */
TEST(a_job_is_the_same_each_time)
{
	static const struct job job = {2, 1, 0, 0, false, 2, {"auto", "little"}};
	struct run runs[2][JOBS_RUNS] = {0};

	for (int i = 0; i < 2; i++)
		jobs_run(&job, runs[i]);
	CHECK(!memcmp(runs[0], runs[1], sizeof(runs[0])));
}

/* costs.c checks how many calls every loop serves. In this job many loops leave calls. */
TEST(a_loop_leaves_what_it_may_not_serve)
{
	static const struct job job = {4, 1, 0, 4, false, 1, {"auto"}};
	struct run run[JOBS_RUNS] = {0};

	jobs_run(&job, run);
	CHECK(costs_loops_left() > 100);
}

/* Daemon r mod net_daemons has the endpoint for rank r. */
TEST(daemons_share_the_endpoints)
{
	static const struct options o = {.net_daemons = 3};
	static const struct node n = {.o = &o, .rank = 1, .ranks = 5};

	for (uint32_t d = 0; d < 5; d++)
		CHECK_EQ(node_endpoints(&n, d), d == 0 ? 2 : d < 3 ? 1 : 0);
}

int main(int argc, char **argv)
{
	bool good;

	jobs_init();
	if (argc > 1 && !strcmp(argv[1], "orders"))
		return orders_print();
	if (argc < 2 || strcmp(argv[1], "tables") != 0)
		return test_main(argc, argv);
	good = check_jobs(true);
	print_all();
	return !good;
}
