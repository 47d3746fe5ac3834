/* SPDX-License-Identifier: MIT */
#include "case.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

#define LATENCY 5000.0
#define REMOTE_LATENCY 1000.0 /* additional latency of rails on the other node */

#define FALL_AT 5e6
#define BACK_AT 15e6
#define RAMP_STEPS 10
#define RAMP_STEP_NS 2e5
#define TRAFFIC_NS 5e5 /* mean time between changes of the other traffic */

#define STREAM(size) .min = size, .max = size, .outstanding = 4
#define ONE(size) .min = size, .max = size, .outstanding = 1, .isolated = 100
#define EIGHT .local = 4, .remote = 4, .slow = 1, .remote_rate = 1

const struct sim_case sim_cases[] = {
	{"healthy-8m", "stream of 8 MiB, without changes or faults", STREAM(8 * MIB), EIGHT},
	{"healthy-1m", "stream of 1 MiB", STREAM(MIB), EIGHT},
	{"healthy-33x64k", "stream of 33 x 64 KiB", STREAM(33 * 64 * KIB), EIGHT},
	{"mixed", "stream of mixed sizes, 4 KiB to 32 MiB", .min = 4 * KIB, .max = 32 * MIB,
		.outstanding = 4, EIGHT},
	{"urgent-1m", "requests of 1 MiB of the first class beside a stream of 8 MiB of the last",
		STREAM(8 * MIB), .urgent = MIB, EIGHT},
	{"slow-rail-8m", "one local rail at 10 % of its link, 8 MiB", STREAM(8 * MIB), .local = 4,
		.remote = 4, .slow = .1, .remote_rate = 1},
	{"slow-rail-1m", "the same with 1 MiB", STREAM(MIB), .local = 4, .remote = 4, .slow = .1,
		.remote_rate = 1},
	{"slow-remote-8m", "remote rails at 40 %, 8 MiB", STREAM(8 * MIB), .local = 4, .remote = 4,
		.slow = 1, .remote_rate = .4},
	{"remote-only-8m", "no local rail, 8 MiB", STREAM(8 * MIB), .local = 0, .remote = 4,
		.slow = 1, .remote_rate = 1},
	{"local-only-8m", "no remote rail, 8 MiB", STREAM(8 * MIB), .local = 4, .remote = 0,
		.slow = 1, .remote_rate = 1},
	{"step-8m", "one local rail falls to 10 % and is back after 10 ms", STREAM(8 * MIB), EIGHT,
		.change = CHANGE_STEP},
	{"step-1m", "the same with 1 MiB", STREAM(MIB), EIGHT, .change = CHANGE_STEP},
	{"trough-8m", "one local rail falls to 1 % and is back after 10 ms", STREAM(8 * MIB), EIGHT,
		.change = CHANGE_TROUGH},
	{"ramp-8m", "a local rail falls to 10 % and returns, each in ten steps", STREAM(8 * MIB),
		EIGHT, .change = CHANGE_RAMP},
	{"background-8m", "other traffic comes and goes on every rail", STREAM(8 * MIB), EIGHT,
		.change = CHANGE_BACKGROUND},
	{"one-64k", "single requests of 64 KiB", ONE(64 * KIB), EIGHT},
	{"one-1m", "single requests of 1 MiB", ONE(MIB), EIGHT},
	{"one-33x64k", "single requests of 33 x 64 KiB", ONE(33 * 64 * KIB), EIGHT},
	{"one-8m", "single requests of 8 MiB", ONE(8 * MIB), EIGHT},
	{"dies-silent", "a local rail stalls without a report", STREAM(8 * MIB), EIGHT,
		.fault = FAULT_SILENT},
	{"dies-flush", "a local rail completes everything with errors", STREAM(8 * MIB), EIGHT,
		.fault = FAULT_FLUSH},
	{"dies-port", "a local rail's port goes down", STREAM(8 * MIB), EIGHT, .fault = FAULT_PORT},
	{"dies-33x64k", "a local rail stalls in a stream of 33 x 64 KiB", STREAM(33 * 64 * KIB),
		EIGHT, .fault = FAULT_SILENT},
	{"returns", "a local rail stalls and is back after 8 ms", STREAM(8 * MIB), EIGHT,
		.fault = FAULT_SILENT, .outage_ns = 8e6},
	{"hiccup", "a local rail stalls until it has just been excluded", STREAM(8 * MIB), EIGHT,
		.fault = FAULT_SILENT, .outage_ns = 2.002e6},
	{"flap", "a local port goes down three times, for 2 ms", STREAM(8 * MIB), EIGHT,
		.fault = FAULT_FLAP, .outage_ns = 2e6},
};

const size_t n_sim_cases = ARRAY_SIZE(sim_cases);

const struct sim_case *case_find(const char *name)
{
	for (size_t i = 0; i < n_sim_cases; i++) {
		if (!strcmp(sim_cases[i].name, name))
			return &sim_cases[i];
	}
	return NULL;
}

static void add_step(struct scene *sc, uint32_t rail, double at, double rate)
{
	uint32_t *n = &sc->bound.rails[rail].n_steps;

	if (*n < CASE_STEPS)
		sc->steps[rail][(*n)++] = (struct bound_step){at, rate};
}

static void add_change(struct scene *sc, const struct sim_case *c, double when)
{
	uint32_t v = sc->victim, n = c->change == CHANGE_RAMP ? RAMP_STEPS : 1;
	double low = c->change == CHANGE_TROUGH ? .01 : .1;

	for (uint32_t i = 1; i <= n; i++)
		add_step(sc, v, when + FALL_AT + (i - 1) * RAMP_STEP_NS,
			CASE_RATE * (1 - (1 - low) * i / n));
	for (uint32_t i = 1; i <= n; i++)
		add_step(sc, v, when + BACK_AT + (i - 1) * RAMP_STEP_NS,
			CASE_RATE * (low + (1 - low) * i / n));
	sc->changes[0] = when + FALL_AT + (n - 1) * RAMP_STEP_NS;
	sc->changes[1] = when + BACK_AT + (n - 1) * RAMP_STEP_NS;
}

/* Other traffic uses 0 to 80 % of each rail's link; the times between changes are exponential. */
static void add_background(struct scene *sc, uint64_t *random)
{
	for (uint32_t r = 0; r < sc->bound.n_rails; r++) {
		double at = 0;

		while (sc->bound.rails[r].n_steps < CASE_STEPS) {
			at -= TRAFFIC_NS * log(1 - rand_unit(random));
			add_step(sc, r, at, CASE_RATE * (1 - .8 * rand_unit(random)));
		}
	}
}

static void add_outages(struct scene *sc, const struct sim_case *c, double when)
{
	uint32_t n = c->fault == FAULT_FLAP ? 3 : 1;

	for (uint32_t i = 0; i < n; i++) {
		double from = when + FALL_AT + i * 2.5 * c->outage_ns;
		double to = c->outage_ns > 0 ? from + c->outage_ns : INFINITY;

		sc->outages[i].from = from;
		sc->outages[i].to = to;
		add_step(sc, sc->victim, from, 0);
		if (isfinite(to))
			add_step(sc, sc->victim, to, CASE_RATE);
	}
	sc->n_outages = n;
}

void scene_init(struct scene *sc, const struct sim_case *c, const struct sim_assume *a,
	uint64_t *random)
{
	double when = 1e6 * rand_unit(random);

	memset(sc, 0, sizeof(*sc));
	sc->bound.n_rails = c->local + c->remote;
	sc->bound.group_rates[0] = CASE_LINK_RATE;
	sc->victim = (uint32_t)(rand_next(random) % (c->local ? c->local : c->remote));
	for (uint32_t r = 0; r < sc->bound.n_rails; r++) {
		double truth = LATENCY * (.8 + .4 * rand_unit(random));
		bool remote = r >= c->local;

		sc->bound.rails[r] = (struct bound_rail){
			.latency = truth + (remote ? REMOTE_LATENCY : 0),
			.group = remote ? 0 : BOUND_NO_GROUP,
			.remote = remote,
			.steps = sc->steps[r],
		};
		sc->told_latency[r] = truth * a->told_latency;
		add_step(sc, r, 0,
			CASE_RATE * (remote                 ? c->remote_rate :
					    r == sc->victim ? c->slow :
							      1));
	}
	if (c->change == CHANGE_BACKGROUND)
		add_background(sc, random);
	else if (c->change != CHANGE_NONE)
		add_change(sc, c, when);
	if (c->fault != FAULT_NONE)
		add_outages(sc, c, when);
}

uint64_t case_length(const struct sim_case *c, uint64_t *random)
{
	double low = log((double)c->min), high = log((double)c->max);

	if (c->min == c->max)
		return c->min;
	return (uint64_t)exp(low + (high - low) * rand_unit(random));
}
