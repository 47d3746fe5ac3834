/* SPDX-License-Identifier: MIT */
/* Output of the commands of benchkv-sim: run, table and map. */
#ifndef BENCHKV_SIM_OUTPUT_H
#define BENCHKV_SIM_OUTPUT_H

#include <stdbool.h>

#include "sim.h"

/* The command line of benchkv-sim. */
enum sim_command { SIM_RUN, SIM_TABLE, SIM_MAP };

struct sim_options {
	enum sim_command command;
	struct sim_config config;
	bool control_given; /* the map shows this control; otherwise several controls */
	const char *trace, *hgrm; /* files of the command run, or NULL */
	const char *json; /* file, - for standard output, or NULL */
};

/*
 * DERIVED: a parameter of the machine was derived from the published figure. FITTED: a parameter
 * was chosen so that the simulated figure fits. PREDICTED: neither.
 */
enum origin { PREDICTED, DERIVED, FITTED };

/* A published row; 0 where nothing was published. */
struct published {
	uint32_t ranks, depth;
	const char *control;
	bool collapsed; /* the initial state of the simulated job */
	double mops, outstanding, cqe_batch, loops_per_s;
	enum origin mops_is, loops_is; /* of throughput and loop rate; the rest is predicted */
	uint32_t clients, daemons; /* 0: the default, 46 clients and 1 daemon */
	bool meta; /* the backend */
};

#define PUBLISHED_BLOCKS 4
extern const struct published_block {
	const char *conditions;
	const struct published *rows;
	size_t n;
} published_blocks[PUBLISHED_BLOCKS];

/*
 * Each function simulates jobs and prints the results. json: a file for objects, or NULL. 0 or
 * -errno.
 */
int output_run(const struct sim_options *o, FILE *json);
int output_table(const struct sim_options *o, FILE *json);
int output_map(const struct sim_options *o, FILE *json);

/* "meta" or "delegation". */
const char *backend_name(bool meta);

/*
 * Runs a job and, unless json is NULL, writes a JSON object with its options and results. For auto
 * without numbers derives K and B from that job.
 */
int output_job(const struct sim_config *config, FILE *json, struct sim_result *r_p);

#endif
