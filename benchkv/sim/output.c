/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/json.h"

#define RANKS_PER_THREAD 16

/*
 * Returns the mean loop time divided by the mean round-trip time. By Little's law the round-trip
 * time is the number of outstanding calls divided by the rate at which calls end. 0: no calls are
 * outstanding.
 */
static double rho(const struct sim_config *c, const struct sim_result *r)
{
	double calls_per_us = r->ops_per_s / 1e6 / c->ranks * (c->ranks - 1) / c->ranks;

	return r->outstanding > 0 ? r->loop_us * calls_per_us / r->outstanding : 0;
}

const char *backend_name(bool meta)
{
	return meta ? "meta" : "delegation";
}

static json_t *job_object(const struct sim_config *c, const struct sim_result *r)
{
	char control[CONTROL_NAME_MAX];

	control_name(&c->control, control);
	return json_pack(
		"{s:i, s:i, s:i, s:f, s:i, s:i, s:s, s:o, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
		"s:f, s:f, s:f, s:f, s:[fffff], s:i, s:i, s:s}",
		"np", (int)c->ranks, "qd", (int)c->depth, "qd_before",
		(int)(c->depth_before ? c->depth_before : c->depth), "qd_step_ms",
		(double)c->step_ns / 1e6, "clients", (int)c->clients, "daemons", (int)c->daemons,
		"control", control, "machine", json_text(c->machine.name), "init",
		c->collapsed ? "low" : "high", "seed", (json_int_t)c->seed, "duration_ms",
		(double)c->duration_ns / 1e6, "mops", r->ops_per_s / 1e6, "outstanding",
		r->outstanding, "cqe_batch", r->cqe_batch, "loops_per_s", r->loops_per_s, "loop_us",
		r->loop_us, "rho", rho(c, r), "messages_per_write", r->messages_per_write, "p50_us",
		r->p50_us, "p99_us", r->p99_us, "loops_by_responses", r->bucket[0], r->bucket[1],
		r->bucket[2], r->bucket[3], r->bucket[4], "client_waits", (int)c->client_waits,
		"intake", (int)c->intake, "backend", backend_name(c->meta));
}

/* Returns a number of threads: one per core, but at least RANKS_PER_THREAD ranks per thread. */
static uint32_t threads_for(uint32_t ranks)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = ranks / RANKS_PER_THREAD;

	n = cores > 0 && n > (uint32_t)cores ? (uint32_t)cores : n;
	return n ? n : 1;
}

/*
 * If the control is `auto` without numbers, derives K and B as the ranks of a real job do. Returns
 * the values from which K and B were derived.
 */
static struct control_origin derive(struct sim_config *c)
{
	struct control_origin origin;

	machine_derive(&c->machine, &c->control, &origin);
	origin.under_way = (double)c->clients * c->depth / c->daemons;
	control_share(&c->control, origin.under_way);
	return origin;
}

int output_job(const struct sim_config *config, FILE *json, struct sim_result *r_p)
{
	struct sim_config c = *config;
	int err;

	if (!c.threads)
		c.threads = threads_for(c.ranks);
	derive(&c);
	err = sim_run(&c, r_p);
	return err || !json ? err : json_line(job_object(&c, r_p), 9, json);
}

int output_run(const struct sim_options *o, FILE *json)
{
	struct sim_config derived = o->config, *c = &derived;
	char control[CONTROL_NAME_MAX], why[256];
	struct sim_result r;
	int err = output_job(c, json, &r);
	struct control_origin origin;

	if (err || json == stdout)
		return err;
	origin = derive(c);
	control_name(&c->control, control);
	control_explain(&c->control, &origin, why, sizeof(why));
	printf("%u ranks, %u clients x %u, %u daemons, control %s, machine %s, initial state %s: simulated\n",
		c->ranks, c->clients, c->depth, c->daemons, control, c->machine.name,
		c->collapsed ? "low" : "high");
	if (c->depth_before)
		printf("  requests          %u per client until %g ms\n", c->depth_before,
			(double)c->step_ns / 1e6);
	if (c->meta)
		printf("  backend           meta\n");
	if (c->client_waits > 1)
		printf("  clients           wait for %u replies\n", c->client_waits);
	if (c->intake)
		printf("  intake            at most %u requests per loop\n", c->intake);
	if (c->control.kind == CONTROL_AUTO)
		printf("  K and B           %s\n", why);
	printf("  operations        %10.2f M/s (%.3f M/s per rank)\n", r.ops_per_s / 1e6,
		r.ops_per_s / 1e6 / c->ranks);
	printf("  latency           %10.1f us p50, %.1f us p99\n", r.p50_us, r.p99_us);
	printf("  outstanding calls %10.0f per rank\n", r.outstanding);
	printf("  responses         %10.2f per loop\n", r.cqe_batch);
	printf("  messages          %10.2f per WRITE, %.2f M WRITE/s per rank\n",
		r.messages_per_write, r.writes_per_s / 1e6);
	printf("  loop              %10.2f us, %.2f M/s per daemon\n", r.loop_us,
		r.loops_per_s / 1e6);
	printf("  loop / round trip %10.2f, %.2f of the loops find no response\n", rho(c, &r),
		r.bucket[0]);
	return 0;
}

/* ---- the map ---- */

static const uint32_t map_ranks[] = {2, 4, 8, 16, 32, 64};
static const uint32_t map_depths[] = {1, 4, 32};

/*
 * Simulates the job from both initial states. If the throughputs are within a factor of 1.2, there
 * is one equilibrium, otherwise there are two.
 */
static int map_cell(struct sim_config c, FILE *json)
{
	struct sim_result high, low;
	int err;

	c.collapsed = false;
	err = output_job(&c, json, &high);
	c.collapsed = true;
	if (!err)
		err = output_job(&c, json, &low);
	if (err || json == stdout)
		return err;
	if (low.ops_per_s > high.ops_per_s / 1.2)
		printf("  %15.2f", low.ops_per_s / 1e6);
	else
		printf("  %6.2f | %6.2f", low.ops_per_s / 1e6, high.ops_per_s / 1e6);
	fflush(stdout);
	return 0;
}

static int map_control(const struct sim_options *o, const struct control_spec *control, FILE *json)
{
	struct sim_config c = o->config;
	char name[CONTROL_NAME_MAX];

	c.control = *control;
	control_name(control, name);
	if (json != stdout) {
		printf("%s, M operations/s (low | high: two equilibria)\n   QD", name);
		for (size_t n = 0; n < ARRAY_SIZE(map_ranks); n++)
			printf("  %10s %4u", "NP", map_ranks[n]);
		putchar('\n');
	}
	for (size_t q = 0; q < ARRAY_SIZE(map_depths); q++) {
		if (json != stdout)
			printf("%5u", map_depths[q]);
		for (size_t n = 0; n < ARRAY_SIZE(map_ranks); n++) {
			int err;

			c.ranks = map_ranks[n];
			c.depth = map_depths[q];
			err = map_cell(c, json);
			if (err)
				return err;
		}
		if (json != stdout)
			putchar('\n');
	}
	return 0;
}

int output_map(const struct sim_options *o, FILE *json)
{
	static const char *const controls[] = {"none", "budget:16", "adaptive-budget", "auto"};
	struct control_spec spec;
	int err = 0;

	if (o->control_given)
		return map_control(o, &o->config.control, json);
	for (size_t i = 0; !err && i < ARRAY_SIZE(controls); i++) {
		control_parse(controls[i], &spec);
		err = map_control(o, &spec, json);
	}
	return err;
}
