/* SPDX-License-Identifier: MIT */
/*
 * The cases of the simulator by name. A case becomes rails, changes of
 * their rates, and faults, all drawn from a seed.
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
	CHANGE_STEP, /* a rail falls to a tenth, and is back 10 ms later */
	CHANGE_TROUGH, /* the same to a hundredth */
	CHANGE_RAMP, /* as a step, but in ten steps each way */
	CHANGE_BACKGROUND, /* other traffic comes and goes on every rail */
};

enum case_fault {
	FAULT_NONE,
	FAULT_SILENT, /* no data, no completions, no report */
	FAULT_FLUSH, /* everything completes with errors, at once and for ever */
	FAULT_PORT, /* as silent, and a port event */
	FAULT_FLAP, /* the port goes and comes, three times */
};

struct sim_case {
	const char *name, *about;
	uint64_t min, max; /* length of a request; between the two if they differ */
	uint32_t outstanding;
	uint64_t urgent; /* length of requests of the first class, one every 200 us beside a stream
			    of the last class; 0: all are of one class */
	uint32_t isolated; /* so many requests one by one instead of a stream; 0: a stream */
	uint32_t local, remote; /* rails */
	double slow; /* rate of one local rail, of its link's; 1: as the others */
	double remote_rate; /* of remote rails, of their links' */
	enum case_change change;
	enum case_fault fault;
	double outage_ns; /* 0: it does not come back */
};

extern const struct sim_case sim_cases[];
extern const size_t n_sim_cases;

const struct sim_case *case_find(const char *name);

/* The assumptions of the cases, which options vary. */
struct sim_assume {
	enum net_sharing sharing;
	double jitter; /* of latencies: up to so much more, as a part of each */
	double told_latency; /* the scheduler's latencies, as a multiple of the real ones */
	bool told_links; /* is it told what shared links can carry? */
	double cost_ns; /* per slice, on the rail */
	uint64_t bytes; /* of a stream */
	FILE *trace; /* what each rail has sent, over time; NULL: not */
};

/* A case with all that is drawn. */
struct scene {
	uint32_t n_rails, victim;
	double line_rate[NET_RAILS], latency[NET_RAILS], told_latency[NET_RAILS];
	bool remote[NET_RAILS];
	uint32_t group[NET_RAILS];
	struct bound_step steps[NET_RAILS][CASE_STEPS];
	uint32_t n_steps[NET_RAILS];
	struct {
		double from, to; /* INFINITY: for good */
	} outages[CASE_OUTAGES];
	uint32_t n_outages;
	double changes[2]; /* when the rate of a rail falls and is back; 0: never */
	struct bound bound; /* of the same rails */
};

#define CASE_LINK_RATE 60.0 /* bytes per ns of the link that the remote rails share */

void scene_init(struct scene *sc, const struct sim_case *c, const struct sim_assume *a,
	uint64_t *random);

/* The length of the next request. */
uint64_t case_length(const struct sim_case *c, uint64_t *random);

#endif
