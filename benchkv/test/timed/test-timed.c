/* SPDX-License-Identifier: MIT */
/*
 * The daemons that ship, in virtual time, beside the simulator: how many messages does a WRITE carry
 * under each control? README.md says what is real here, and what is not.
 *
 *	benchkv-test-timed [long]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/test.h"
#include "backend.h"
#include "client.h"
#include "costs.h"
#include "daemon.h"
#include "meeting.h"
#include "sim.h"
#include "tasks.h"

#define CLIENTS 46
#define LOW_NS (500 * NSEC_PER_USEC) /* of a WRITE per message, at the beginning of a run */
#define WARMUP_NS NSEC_PER_MSEC /* with that time */
#define DURATION_NS NSEC_PER_MSEC
#define RUNS 8
#define DEEP 8192 /* blocks of a send queue that never is full here */
#define FACTOR 1.5 /* between simulator and daemons, at most */
#define APART 1.1 /* controls that are apart by less in the simulator have no order */
/*
 * Messages per WRITE of a job at depth 32 that is not in the low state. If a daemon took the requests
 * of one poll of its ring only, 4 ranks would have 21 and 8 ranks 9.
 */
#define RECOVERED 25

/* A job: a run for each control, from the low state. */
struct job {
	uint32_t ranks, depth;
	uint32_t sq_depth; /* 0: as copyrpc has it */
	bool longer; /* not in the short form */
	uint32_t n;
	const char *controls[RUNS];
};

struct run {
	double messages_per_write, ops_per_s;
	struct sim_result sim;
};

/* A rank, as job.c has it. */
struct seat {
	const struct job *job;
	struct run *runs;
	struct options o;
	struct node node;
	struct launch *launch;
	struct task *task;
};

/* What is counted of all ranks. */
struct counts {
	uint64_t messages, writes, ops;
};

static struct machine machine;
static struct seat seats[COSTS_RANKS];

static struct counts count(uint32_t ranks)
{
	struct counts sum = {0};

	for (uint32_t r = 0; r < ranks; r++) {
		struct copyrpc_stats s;

		copyrpc_ctx_stats(seats[r].node.daemons[0].net.ctx, &s);
		sum.messages += s.requests + s.responses;
		sum.writes += s.batches_received;
		sum.ops += node_done(&seats[r].node);
	}
	return sum;
}

/* A task beside a run: from the end of the warm-up to the end. */
static void *observe(void *arg)
{
	struct run *r = arg;
	struct counts from, to;

	task_spend(WARMUP_NS);
	from = count(seats[0].job->ranks);
	task_spend(DURATION_NS);
	to = count(seats[0].job->ranks);
	r->messages_per_write =
		(double)(to.messages - from.messages) / (double)(to.writes - from.writes);
	r->ops_per_s = (double)(to.ops - from.ops) * 1e9 / (double)DURATION_NS;
	return NULL;
}

static void verify(const struct node *n)
{
	for (uint32_t i = 0; i < n->o->clients; i++) {
		CHECK_EQ(check_errors(&n->clients[i].check.n), 0);
		CHECK(n->clients[i].check.n.verified);
	}
	CHECK_EQ(n->daemons[0].stats.bad_replies, 0);
}

/* With K and B of auto as the ranks of a job have them with a machine file. */
static struct control_spec spec_of(const struct job *j, const char *name)
{
	struct control_origin origin;
	struct control_spec spec;

	CHECK_EQ(control_parse(name, &spec), 0);
	machine_derive(&machine, &spec, &origin);
	control_share(&spec, CLIENTS * j->depth);
	return spec;
}

/* Between two runs, when no request is under way. */
static void set_control(struct seat *s, const char *name)
{
	struct control *c = &s->node.daemons[0].net.control;
	struct control_spec spec = spec_of(s->job, name);

	control_fini(c);
	CHECK_EQ(control_init(c, &spec, s->node.ranks), 0);
}

static void run_once(struct seat *s, uint32_t i)
{
	struct task *observer = NULL;

	set_control(s, s->job->controls[i]);
	CHECK_EQ(launch_fence(s->launch, 0), 0);
	if (!s->node.rank) {
		costs_begin_run(task_now() + LOW_NS);
		observer = task_start(observe, &s->runs[i]);
	}
	CHECK_EQ(node_run(&s->node, NULL, NULL), 0);
	if (observer)
		task_join(observer);
	verify(&s->node);
	CHECK_EQ(launch_fence(s->launch, 0), 0);
}

/* What a rank does in main(): job.c, without the options and the report. */
static void *take_seat(void *arg)
{
	struct seat *s = arg;
	char why[256] = "";

	if (node_start(&s->node, why, sizeof(why))) {
		fprintf(stderr, "rank %u: %s\n", s->node.rank, why);
		exit(1);
	}
	for (uint32_t i = 0; i < s->job->n; i++)
		run_once(s, i);
	node_stop(&s->node);
	CHECK_EQ(launch_fence(s->launch, 0), 0);
	node_free(&s->node, true);
	return NULL;
}

static void prepare(struct seat *s, const struct job *j, struct run *runs, struct launch *l)
{
	static char names[COSTS_RANKS][16];

	snprintf(names[l->rank], sizeof(names[0]), "mlx5_%u", l->rank);
	*s = (struct seat){.job = j, .runs = runs, .launch = l};
	s->o = (struct options){.backend = backends[0],
		.daemons = 1,
		.net_daemons = 1,
		.clients = CLIENTS,
		.queue_depth = j->depth,
		.duration_ns = WARMUP_NS + DURATION_NS,
		.runs = j->n,
		.load = {.key_range = 100000, .read_ratio = 0.5, .seed = 1},
		.timeout_ns = NSEC_PER_SEC};
	s->node = (struct node){.o = &s->o,
		.launch = l,
		.rank = l->rank,
		.ranks = j->ranks,
		.ring_size = node_ring_size(&s->o),
		.device = names[l->rank],
		.nap_ns = node_nap_ns(1, 1)};
}

static void run_daemons(const struct job *j, struct run *runs)
{
	static struct launch ranks[COSTS_RANKS];
	struct task *adapters;

	task_spend(
		NSEC_PER_MSEC - task_now() % NSEC_PER_MSEC); /* in step with all that is periodic */
	meeting_begin(ranks, j->ranks);
	costs_begin_job(&machine, CLIENTS, j->sq_depth);
	adapters = task_start(costs_adapters, NULL);
	for (uint32_t r = 0; r < j->ranks; r++) {
		prepare(&seats[r], j, runs, &ranks[r]);
		seats[r].task = task_start(take_seat, &seats[r]);
	}
	for (uint32_t r = 0; r < j->ranks; r++)
		task_join(seats[r].task);
	costs_stop_adapters();
	task_join(adapters);
	meeting_end();
}

static void simulate(const struct job *j, const char *control, struct run *r)
{
	struct sim_config config = {.machine = machine,
		.control = spec_of(j, control),
		.ranks = j->ranks,
		.daemons = 1,
		.clients = CLIENTS,
		.depth = j->depth,
		.threads = 1,
		.collapsed = true,
		.collapsed_ns = LOW_NS,
		.warmup_ns = WARMUP_NS,
		.duration_ns = DURATION_NS,
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

/* Send queues as they are at depth 32: they are full at once, and messages gather behind them. */
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
	{2, 1, 0, false, ALL},
	{4, 1, 0, false, ALL},
	{8, 1, 0, false, ALL},
	{4, 32, DEEP, false, 1, {"none"}},
	{4, 32, 0, false, 1, {"none"}},
	{8, 32, DEEP, true, 1, {"none"}},
	{8, 32, 0, true, 1, {"none"}},
};

#define JOBS ARRAY_SIZE(jobs)

static struct run results[JOBS][RUNS];

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

/* Of the jobs at depth 1: a line for each control, a column for each job. */
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
		j->sq_depth ? "without end" : "as they are");
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
	run_daemons(j, runs);
	for (uint32_t i = 0; i < j->n; i++)
		simulate(j, j->controls[i], &runs[i]);
	if (j->depth > 1 && !j->sq_depth)
		return recovered(j, runs);
	return (int)within_factor(j, runs) & (int)in_order(j, runs);
}

/* Nothing but the program decides what happens. */
static bool same_again(void)
{
	static const struct job job = {2, 1, 0, false, 2, {"auto", "little"}};
	struct run runs[2][RUNS] = {0};

	for (int i = 0; i < 2; i++)
		run_daemons(&job, runs[i]);
	if (!memcmp(runs[0], runs[1], sizeof(runs[0])))
		return true;
	fprintf(stderr, "the same job twice: %.9f and %.9f, %.9f and %.9f messages per WRITE\n",
		runs[0][0].messages_per_write, runs[1][0].messages_per_write,
		runs[0][1].messages_per_write, runs[1][1].messages_per_write);
	return false;
}

/* An adapter for each rank, with the simulator's times: a file that nobody else sees. */
static void describe_adapters(void)
{
	int fd = memfd_create("topology", 0);
	char path[64];

	CHECK(fd >= 0);
	for (int i = 0; i < COSTS_RANKS; i++)
		CHECK(dprintf(fd, "name=mlx5_%d service_ns=%.0f latency_ns=%.0f rate_mbps=%.0f\n",
			      i, machine.send_ns, machine.wire_ns,
			      machine.bytes_per_ns * 8000) > 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(!setenv("SOFTHCA_TOPOLOGY", path, 1));
}

int main(int argc, char **argv)
{
	bool longer = argc > 1 && !strcmp(argv[1], "long"), good;
	char why[200];

	CHECK_EQ(machine_load("hdr100", &machine, why, sizeof(why)), 0);
	machine.poll_flushes = 0; /* as benchkv's daemons */
	describe_adapters();
	good = same_again();
	for (size_t i = 0; i < JOBS; i++)
		if (longer || !jobs[i].longer)
			good &= check_job(&jobs[i], results[i]);
	print_all();
	return !good;
}
