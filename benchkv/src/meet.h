/* SPDX-License-Identifier: MIT */
/*
 * The state of a job at each rank, and the meeting of its ranks: before anything runs they compare
 * their options, and rank 0 tells the others what it has measured.
 */
#ifndef BENCHKV_MEET_H
#define BENCHKV_MEET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "csv.h"
#include "lifeline.h"
#include "measure.h"
#include "node.h"
#include "progress.h"
#include "report.h"
#include "result.h"

#define WHY_MAX 320

struct job {
	const struct options *o;
	struct launch *l;
	struct node node;
	struct progress progress;
	struct lifeline *lifeline; /* NULL: of a job of one rank */
	struct measured measured; /* rank 0, when auto was derived from it */
	uint32_t index, sharers; /* among the ranks with the same cores */
	uint32_t begun, measured_runs; /* runs that have begun; whose results are in `runs` */
	uint64_t cpu_ns; /* clock_cpu_ns() when the last of them began */
	struct result *runs; /* of this rank; then, at rank 0, of all */
	bool *heard; /* rank 0 only: whose results it has */
	struct result *ranks; /* rank 0 only: of all runs */
	char (*hosts)[HOST_NAME_SIZE]; /* of all ranks */
	time_t time; /* when the first run began */
	FILE *json, *hgrm; /* rank 0 only */
	FILE *csv[CSV_FILES]; /* NULL: not asked for */
	int32_t csv_err[CSV_FILES]; /* 0 or -errno: what became of them */
	int status; /* to end with after an error */
	char why[WHY_MAX];
	bool said; /* why */
	bool aborted; /* or need not be */
};

/* These return err, and have said in j->why what is wrong. */
int job_cannot_write(struct job *j, const char *what, const char *file, int err);
int job_cannot_json(struct job *j, int err);
int job_cannot_hgrm(struct job *j, int err);
int job_cannot_csv(struct job *j, enum csv_file f, uint32_t rank, int err);

/* Ends the job for a bad command line, which every rank finds out. Returns err. */
int job_refuse(struct job *j, int err);

/* All ranks meet: 0 or -errno, and j->why. */
int job_fence(struct job *j);

/* Gets what that rank has put under a key, of a known size. 0 or -errno. */
int job_get_struct(struct job *j, uint32_t rank, const char *key, void *to, size_t size);

/* Opens the files, derives the control, and compares with the other ranks. 0 or -errno. */
int job_meet(struct job *j, const char *device);

/* Fills in j->node, up to node_start(). 0 or -errno; no_device: why there is no device. */
int job_plan(struct job *j, const char *device, const char *no_device);

#endif
