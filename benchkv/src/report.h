/* SPDX-License-Identifier: MIT */
/* The results, as a table and in files for programs. */
#ifndef BENCHKV_REPORT_H
#define BENCHKV_REPORT_H

#include <stdio.h>

#include "base/clock.h"
#include "meet.h"
#include "odds.h"

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

struct spread report_spread(const struct job *j);

/*
 * The size of the job, from which odds.h computes how likely it is that lost puts are found. Has no
 * meaning for a partial report.
 */
struct odds report_odds(const struct job *j);

/* Prints the table. */
void report_print(const struct job *j, FILE *out);

/* An interval of a run with its figures. */
struct interval {
	uint32_t run;
	double start_s, seconds; /* start in the measured part of the run; length */
	double ops_per_s;
	struct series_row row;
};

/* Calls @fn for each interval, in the order of time. */
void report_intervals(const struct job *j, void (*fn)(const struct interval *i, void *arg),
	void *arg);

/* Writes the intervals as CSV, or as a JSON object per line. 0 or -errno. */
int report_series(const struct job *j, FILE *out);

/* Writes one JSON object on a line. 0 or -errno. */
int report_json(const struct job *j, FILE *out);

/*
 * Writes the percentiles of the latency in the format of HdrHistogram; in an open loop from the due
 * time. 0 or -errno.
 */
int report_hgrm(const struct job *j, FILE *out);

#endif
