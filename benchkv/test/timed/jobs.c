/* SPDX-License-Identifier: MIT */
#include "jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/test.h"
#include "backend.h"
#include "client.h"
#include "costs.h"
#include "meeting.h"
#include "tasks.h"

/* A rank, with the objects that job.c also has. */
struct seat {
	const struct job *job;
	struct run *runs;
	struct options o;
	struct node node;
	struct launch *launch;
	struct task *task;
};

/* Counters, summed over all ranks. */
struct counts {
	uint64_t messages, writes, ops;
};

struct machine machine;

static struct seat seats[COSTS_RANKS];

static struct counts count(uint32_t ranks)
{
	struct counts sum = {0};

	for (uint32_t r = 0; r < ranks; r++) {
		struct copyrpc_stats s;

		copyrpc_ctx_get_stats(seats[r].node.daemons[0].net.ctx, &s, sizeof(s));
		sum.messages += s.requests + s.responses;
		sum.writes += s.batches_received;
		sum.ops += node_done(&seats[r].node);
	}
	return sum;
}

/* A task that runs beside a run, and measures from the end of the warm-up to the end. */
static void *observe(void *arg)
{
	struct run *r = arg;
	struct counts from, to;

	task_spend(JOBS_WARMUP_NS);
	from = count(seats[0].job->ranks);
	task_spend(JOBS_DURATION_NS);
	to = count(seats[0].job->ranks);
	r->messages_per_write =
		(double)(to.messages - from.messages) / (double)(to.writes - from.writes);
	r->ops_per_s = (double)(to.ops - from.ops) * 1e9 / (double)JOBS_DURATION_NS;
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

struct control_spec jobs_control(const struct job *j, const char *name)
{
	struct control_origin origin;
	struct control_spec spec;

	CHECK_EQ(control_parse(name, &spec), 0);
	machine_derive(&machine, &spec, &origin);
	control_share(&spec, JOBS_CLIENTS * j->depth);
	return spec;
}

/* Replaces the control. Must be called between two runs, when no request is under way. */
static void set_control(struct seat *s, const char *name)
{
	struct control *c = &s->node.daemons[0].net.control;
	struct control_spec spec = jobs_control(s->job, name);

	control_fini(c);
	CHECK_EQ(control_init(c, &spec, s->node.ranks), 0);
	control_limit(c, JOBS_CLIENTS * s->job->depth, 1, 1, 1);
	if (s->job->serves)
		c->serves = s->job->serves;
}

static void run_once(struct seat *s, uint32_t i)
{
	struct task *observer = NULL;

	set_control(s, s->job->controls[i]);
	CHECK_EQ(launch_fence(s->launch, 0), 0);
	if (!s->node.rank) {
		costs_begin_run(task_now() + JOBS_LOW_NS);
		observer = task_start(observe, &s->runs[i]);
	}
	CHECK_EQ(node_run(&s->node, NULL, NULL), 0);
	if (observer)
		task_join(observer);
	verify(&s->node);
	CHECK_EQ(launch_fence(s->launch, 0), 0);
}

/* The most calls that a daemon with all endpoints serves in a loop (control.h). */
static uint32_t most_served(uint32_t depth)
{
	uint32_t part = JOBS_CLIENTS * depth * 2 / 3;

	return part < 32 ? 32 : part;
}

/* The task of a rank. Runs the job as job.c does, without the options and the report. */
static void *take_seat(void *arg)
{
	struct seat *s = arg;
	char why[256] = "";

	if (node_start(&s->node, why, sizeof(why))) {
		fprintf(stderr, "rank %u: %s\n", s->node.rank, why);
		exit(1);
	}
	CHECK_EQ(s->node.daemons[0].net.control.serves, most_served(s->job->depth));
	if (s->job->depth > 1) /* an additional run, in which the rings grow */
		run_once(s, 0);
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
		.clients = JOBS_CLIENTS,
		.queue_depth = j->depth,
		.duration_ns = JOBS_WARMUP_NS + JOBS_DURATION_NS,
		.runs = j->n + (j->depth > 1),
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

void jobs_run(const struct job *j, struct run *runs)
{
	static struct launch ranks[COSTS_RANKS];
	struct task *adapters;

	/*
	 * Each job begins at a full ms, so that periodic actions come at the same times in each
	 * job.
	 */
	task_spend(NSEC_PER_MSEC - task_now() % NSEC_PER_MSEC);
	meeting_begin(ranks, j->ranks);
	costs_begin_job(&machine, JOBS_CLIENTS, j->sq_depth);
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

/*
 * Describes an adapter for each rank, with the simulator's times, in a file of this process only.
 */
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

void jobs_init(void)
{
	char why[200];

	CHECK_EQ(machine_load("hdr100", &machine, why, sizeof(why)), 0);
	machine.poll_flushes = 0; /* benchkv's daemons send nothing between two polls */
	describe_adapters();
}
