/* SPDX-License-Identifier: MIT */
/*
 * Two settings, A and B, compared by the reports that benchkv --json wrote of their jobs. Where the
 * jobs took turns, job i of A and job i of B are a pair. The ratio of a figure is the median of the
 * pairs' ratios; its interval lies between two of the sorted ratios, and contains the true median
 * with a probability of at least 95 % whatever the distribution is (the confidence interval of the
 * sign test). Jobs that did not take turns differ by everything that changed on the machine in the
 * meantime, so they get no interval.
 */
#ifndef BENCHKV_COMPARE_H
#define BENCHKV_COMPARE_H

#include <stddef.h>

struct options;
typedef struct json_t json_t;

#define COMPARE_PAIRS 10 /* fewer pairs get no verdict */
#define COMPARE_WORSE 3 /* exit status: B is worse by more than the tolerance */

/* Appends the report to the array @reports. 0, or -EINVAL if it is none of a whole, verified job. */
int compare_add(json_t *reports, json_t *report, const char *name);
/* Prints the table of two arrays of reports, and writes it to --json. Returns the exit status. */
int compare_print(json_t *const reports[2], const struct options *o);

/* The command `compare`. Returns the exit status. */
int compare_command(const struct options *o);
/* The command `run-pair`, pair.c: runs two commands in turn, then compares. */
int pair_command(const struct options *o);

/*
 * The number k for which the interval from the k-th smallest to the k-th largest of @n values contains
 * the median with at least 95 %; 0: @n is too small.
 */
size_t compare_rank(size_t n);

#endif
