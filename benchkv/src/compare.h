/* SPDX-License-Identifier: MIT */
/*
 * Compares two settings, A and B, by the reports that benchkv --json wrote about their jobs. If the
 * jobs took turns, job i of A and job i of B are a pair. With at least COMPARE_PAIRS pairs, the
 * ratio of a figure is the median of the pairs' ratios. Its interval is bounded by two of the
 * sorted ratios, and contains the true median with a probability of at least 95 % for any
 * distribution (the confidence interval of the sign test). Otherwise the ratio is that of the two
 * medians, and has no interval.
 */
#ifndef BENCHKV_COMPARE_H
#define BENCHKV_COMPARE_H

#include <stddef.h>

struct options;
typedef struct json_t json_t;

#define COMPARE_PAIRS 10 /* fewer pairs get no verdict */
#define COMPARE_WORSE 3 /* exit status: B is worse by more than the tolerance */

/*
 * Appends the report of a whole, verified job to the array @reports. Returns 0; or, after it has
 * printed a message with @name, -EINVAL (@report is not such a report) or -ENOMEM.
 */
int compare_add(json_t *reports, json_t *report, const char *name);
/* Compares two arrays of reports: prints a table, and writes --json. Returns the exit status. */
int compare_print(json_t *const reports[2], const struct options *o);

/* The command `compare`. Returns the exit status. */
int compare_command(const struct options *o);
/* The command `run-pair`, pair.c: runs two commands in turn, then compares. */
int pair_command(const struct options *o);

/*
 * The largest k for which the interval from the k-th smallest to the k-th largest of @n values
 * contains the median with a probability of at least 95 %; 0: @n is less than COMPARE_PAIRS.
 */
size_t compare_rank(size_t n);

#endif
