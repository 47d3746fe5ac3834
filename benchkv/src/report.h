/* SPDX-License-Identifier: MIT */
/* The results, as a table and in files for programs. */
#ifndef BENCHKV_REPORT_H
#define BENCHKV_REPORT_H

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "measure.h"
#include "node.h"
#include "result.h"

#define HOST_NAME_SIZE 64

struct report {
	const struct node *node;
	bool software_hca;
	const struct control_times *measured; /* source of auto's K and B; NULL: not measured */
	time_t time; /* when the first run began */
	const char (*hosts)[HOST_NAME_SIZE]; /* of each rank */
	uint32_t n_runs; /* runs that have begun; in a partial report the last one is incomplete */
	const struct result *runs; /* of all ranks together, one per run */
	const struct series *series; /* of all ranks together, one per run; only with --interval */
	const struct result *ranks; /* of all runs together, one per rank */
	struct result total;
	const char *partial; /* why the report is partial; NULL: it is complete */
	const bool *heard; /* by rank: its results are included */
};

/* The names of the latencies in the table and in the JSON object. */
extern const char *const report_latency_names[RESULT_LATENCIES];

static inline double report_seconds(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

static inline double report_ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

/* The spread of the runs' operations per second. */
struct spread {
	double min, median, max, stddev;
};

struct spread report_spread(const struct report *r);

/*
 * The probabilities that a job of this size finds that the store loses puts, see odds.h. Not for a
 * partial report.
 */
struct detection {
	double one, in_10000, in_1000; /* if it loses one put; one in 10,000; one in 1,000 */
};

struct detection report_detection(const struct report *r);

/* Prints the table. */
void report_print(const struct report *r, FILE *out);

/* An interval of a run with its figures. */
struct interval {
	uint32_t run;
	double start_s, seconds; /* start in the measured part of the run; length */
	double ops_per_s;
	struct series_row row;
};

/* Calls @fn for each interval, in the order of time. */
void report_intervals(const struct report *r, void (*fn)(const struct interval *i, void *arg),
	void *arg);

/* Writes the intervals as CSV, or as a JSON object per line. 0 or -errno. */
int report_series(const struct report *r, FILE *out);

/* Writes one JSON object on a line. 0 or -errno. */
int report_json(const struct report *r, FILE *out);

/*
 * Writes the percentiles of the latency in the format of HdrHistogram; in an open loop from the due
 * time. 0 or -errno.
 */
int report_hgrm(const struct report *r, FILE *out);

#endif
