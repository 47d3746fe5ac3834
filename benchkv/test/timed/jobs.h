/* SPDX-License-Identifier: MIT */
/* Jobs of benchkv in virtual time: a run for each control, each from the state "low". */
#ifndef BENCHKV_TIMED_JOBS_H
#define BENCHKV_TIMED_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "machine.h"
#include "sim.h"

#define JOBS_CLIENTS 46 /* of a rank */
#define JOBS_LOW_NS (500 * NSEC_PER_USEC) /* a WRITE carries one message, when a run begins */
#define JOBS_WARMUP_NS NSEC_PER_MSEC /* that time included */
#define JOBS_DURATION_NS NSEC_PER_MSEC
#define JOBS_RUNS 8

struct job {
	uint32_t ranks, depth;
	uint32_t sq_depth; /* of copyrpc; 0: its default */
	bool longer; /* not in the short form */
	uint32_t n;
	const char *controls[JOBS_RUNS];
};

struct run {
	double messages_per_write, ops_per_s;
	struct sim_result sim; /* of the simulator, if it ran the same */
};

/* The simulator's machine, which the adapters follow. */
extern struct machine machine;

/* Once, before the first job. */
void jobs_init(void);

/* Runs a job: runs[i] is that of its i-th control. */
void jobs_run(const struct job *j, struct run *runs);

/* A control with the K and B of auto that the ranks of a job have with a machine file. */
struct control_spec jobs_control(const struct job *j, const char *name);

#endif
