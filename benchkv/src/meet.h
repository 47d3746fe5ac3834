/* SPDX-License-Identifier: MIT */
/*
 * The state of a job at each rank, and the start of the job: before the first run the ranks compare
 * their options, and rank 0 sends its measurements to the others.
 */
#ifndef BENCHKV_MEET_H
#define BENCHKV_MEET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "hello.h"
#include "lifeline.h"
#include "measure.h"
#include "node.h"
#include "progress.h"
#include "result.h"

#define WHY_MAX 320

struct job {
	const struct options *o;
	struct launch *l;
	struct node node;
	struct progress progress;
	struct lifeline *lifeline; /* NULL: a job of one rank */
	struct control_times measured; /* at rank 0, if auto was derived from these times */
	uint32_t index, sharers; /* index among the ranks with the same cores; their number */
	uint32_t begun, measured_runs; /* number of runs that have begun, and that are in `runs` */
	uint64_t cpu_ns; /* clock_cpu_ns() when the last run began */
	struct result *runs; /* of this rank; later, at rank 0, of all ranks */
	struct series *series; /* of the same ranks as `runs`; only with --interval */
	struct result daemons; /* of this rank; later, at rank 0, of all ranks */
	struct result total; /* for the report: of all runs, and `daemons` */
	const char *partial; /* why the report is partial; NULL: it is complete */
	bool *heard; /* rank 0 only: by rank, its results are in `runs`, `daemons` and `ranks` */
	struct result *ranks; /* rank 0 only: by rank, of all runs */
	char (*hosts)[HOST_NAME_SIZE]; /* of all ranks */
	time_t time; /* when the first run began */
	FILE *files[FILES]; /* NULL: this rank does not write the file */
	int32_t csv_err[FILES]; /* 0 or -errno of writing the trace and the decisions */
	int status; /* exit status after an error */
	const char *no_device; /* why this rank has no device */
	char why[WHY_MAX];
	bool mtu_said; /* rank 0 has printed a line about a rank with another MTU */
	bool said; /* why[] has been printed */
	bool aborted; /* the job has been aborted, or need not be */
};

/* These functions write the error to j->why, and return err. */
int job_cannot_write(struct job *j, const char *what, const char *file, int err);
int job_cannot_file(struct job *j, enum file f, uint32_t rank, int err);

/* Sets the exit status for a bad command line, which every rank detects. Returns err. */
int job_refuse(struct job *j, int err);

/* Waits for all ranks. 0, or -errno with a message in j->why. */
int job_fence(struct job *j);

/* Opens the files, derives the control, and compares the ranks' options. 0 or -errno. */
int job_meet(struct job *j, const char *device);

/* Fills in j->node for node_start(). 0 or -errno. */
int job_plan(struct job *j, const char *device);

#endif
