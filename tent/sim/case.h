/* SPDX-License-Identifier: MIT */
/*
 * The cases of the simulator. A scene is a case with the values that are drawn from a seed: rails,
 * changes of their rates, and faults.
 */
#ifndef TENT_CASE_H
#define TENT_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bound.h"
#include "net.h"

#define CASE_STEPS 1024
#define CASE_OUTAGES 8

enum case_change {
	CHANGE_NONE,
	CHANGE_STEP, /* a rail's rate falls to a tenth, and is back 10 ms later */
	CHANGE_TROUGH, /* a rail's rate falls to a hundredth, and is back 10 ms later */
	CHANGE_RAMP, /* like CHANGE_STEP, but the rate falls and rises in ten steps */
	CHANGE_BACKGROUND, /* other traffic comes and goes on every rail */
};

enum case_fault {
	FAULT_NONE,
	FAULT_SILENT, /* no data, no completions, no report */
	FAULT_FLUSH, /* from the fault on everything completes immediately with errors */
	FAULT_PORT, /* like FAULT_SILENT, with a port event */
	FAULT_FLAP, /* the port goes down and up three times */
};

struct sim_case {
	const char *name, *about;
	uint64_t min, max; /* range of the length of a request */
	uint32_t outstanding;
	uint64_t urgent; /* not 0: every 200 us a request of this length and of the first class is
			    submitted; the stream is of the last class */
	uint32_t isolated; /* number of requests, submitted one by one; 0: a stream instead */
	uint32_t local, remote; /* number of rails */
	double slow; /* rate of one local rail, as a fraction of its link's rate */
	double remote_rate; /* rate of the remote rails, as a fraction of their links' rate */
	enum case_change change;
	enum case_fault fault;
	double outage_ns; /* 0: the rail does not come back */
};

extern const struct sim_case sim_cases[];
extern const size_t n_sim_cases;

const struct sim_case *case_find(const char *name);

/* Assumptions that apply to all cases; each has an option of tentbench sim. */
struct sim_assume {
	enum net_sharing sharing;
	double jitter; /* each latency is multiplied by a random factor of 1 to 1 + jitter */
	double told_latency; /* the scheduler's latencies, as a multiple of the real ones without
				the additional latency of remote rails */
	bool told_links; /* the scheduler's attributes contain the rates of shared links */
	double cost_ns; /* time for which each slice occupies its rail, in addition to its bytes */
	uint64_t bytes; /* of a stream */
	FILE *trace; /* receives the bytes that each rail has sent over time; may be NULL */
};

/* A case and all its random values. */
struct scene {
	struct bound bound; /* contains the rails */
	uint32_t victim; /* the rail that is slow, changes its rate or fails */
	double told_latency[NET_RAILS];
	struct bound_step steps[NET_RAILS][CASE_STEPS]; /* of the rails */
	struct {
		double from, to; /* `to` is INFINITY if the rail does not come back */
	} outages[CASE_OUTAGES];
	uint32_t n_outages;
	double changes[2]; /* the times at which a rail's rate has fallen and is back; 0: never */
};

#define CASE_RATE 25.0 /* bytes per ns of a rail's link: 200 Gb/s */
#define CASE_LINK_RATE 60.0 /* of the link that the remote rails share */

void scene_init(struct scene *sc, const struct sim_case *c, const struct sim_assume *a,
	uint64_t *random);

/* The length of the next request. */
uint64_t case_length(const struct sim_case *c, uint64_t *random);

#endif
