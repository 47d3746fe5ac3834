/* SPDX-License-Identifier: MIT */
/*
 * Runs jobs of benchkv in virtual time (tasks.h). A job has one run for each of its controls of
 * batching (control.h). Every run begins in the simulator's initial state "low", in which a WRITE
 * carries one message.
 */
#ifndef BENCHKV_TIMED_JOBS_H
#define BENCHKV_TIMED_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "machine.h"
#include "sim.h"

#define JOBS_CLIENTS 46 /* of a rank */
#define JOBS_LOW_NS (500 * NSEC_PER_USEC) /* time in the initial state "low" */
#define JOBS_WARMUP_NS NSEC_PER_MSEC /* from the start of the run; includes JOBS_LOW_NS */
#define JOBS_DURATION_NS NSEC_PER_MSEC
#define JOBS_RUNS 8

struct job {
	uint32_t ranks, depth;
	uint32_t sq_depth; /* of copyrpc's send queues; 0: the default */
	uint32_t serves; /* maximum of calls that a loop of auto serves; 0: as in a real job */
	bool longer; /* only `benchkv-test-timed tables` runs this job */
	uint32_t n;
	const char *controls[JOBS_RUNS];
};

struct run {
	double messages_per_write, ops_per_s;
	struct sim_result sim; /* of the same job and control, if the simulator has run it */
};

/* The machine that is simulated. The adapters of the software HCA have the same times. */
extern struct machine machine;

/* Must be called once, before the first job. */
void jobs_init(void);

/* Runs a job. runs[i] is the run with its i-th control. */
void jobs_run(const struct job *j, struct run *runs);

/*
 * Parses the name of a control. For `auto` without numbers derives K and B as the ranks of @j would
 * from a machine file.
 */
struct control_spec jobs_control(const struct job *j, const char *name);

#endif
