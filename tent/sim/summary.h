/* SPDX-License-Identifier: MIT */
/* The runs of one case and mode, and their summary. */
#ifndef TENT_SUMMARY_H
#define TENT_SUMMARY_H

#include <stdio.h>

#include "run.h"

/* The limits of the default mode, see tentbench(1). */
#define LIMIT_STREAM 1.05 /* makespan divided by the bound, also after a fault */
#define LIMIT_SINGLE 1.0 /* time of an isolated request divided by its bound */
#define LIMIT_URGENT 3.0 /* the same ratio, for a request of the first class beside a stream */
#define LIMIT_ADAPT_MS 2.0
#define LIMIT_RECOVERY_MS 50.0 /* silent stalls */
#define LIMIT_REPORTED_MS 1.0 /* faults that are reported */

/* Running sums of one figure. */
struct figure {
	double sum, squares, worst;
	uint32_t n; /* values that are not NAN */
};

void figure_add(struct figure *f, double v);
double figure_mean(const struct figure *f); /* NAN if there are no values */
/* Half the width of the 95 % confidence interval of the mean (Student's t); 0 for one value. */
double figure_ci95(const struct figure *f);

struct summary {
	const struct sim_case *c;
	enum tent_mode mode;
	uint32_t seeds;
	struct figure ratio, single, adapt, remote_excess, recovery, duplicate, makespan;
	uint64_t late, failed, exclusions, slices;
	struct samples slice_ns, request_ns;
};

/* 0, or the error of a run. */
int summary_run(struct summary *s, const struct sim_case *c, const struct sim_assume *a,
	const struct tent_config *config, uint64_t first_seed, uint32_t seeds);
void summary_fini(struct summary *s);

/* True: all runs meet all limits. */
bool summary_accepted(const struct summary *s);

void summary_json(const struct summary *s, FILE *f);
void summary_header(FILE *f);
void summary_line(const struct summary *s, FILE *f);

#endif
