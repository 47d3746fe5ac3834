/* SPDX-License-Identifier: MIT */
/* A run: the scheduler gives the requests of a scene to simulated rails, until all have ended. */
#ifndef TENT_RUN_H
#define TENT_RUN_H

#include "case.h"
#include "config.h"

/* A growing array of samples in ns. */
struct samples {
	double *v;
	size_t n, capacity;
};

struct run_result {
	double makespan; /* ns */
	double bound; /* the clairvoyant bound; includes the time to detect a fault */
	double single; /* isolated or urgent requests: the highest ratio of the time to the bound
			  of an isolated request, see tentbench(1) */
	double adapt; /* ns from a change of rates until the throughput is 95 % of the ideal: the
			 maximum over the times in scene.changes; NAN: there are none */
	double remote_share, least_remote_share;
	double recovery; /* ns from a fault to the first slice that is sent again: the maximum over
			    all faults; NAN: no fault interrupted a slice */
	uint64_t duplicate_bytes; /* that had reached the peer and were sent again */
	uint64_t late; /* slices that arrived after they had been given to another rail */
	uint64_t failed; /* requests that ended with an error */
	uint64_t slices, exclusions;
};

/*
 * Appends the times of slices and requests to the samples. 0 or -errno; -ETIME: the requests did
 * not end.
 */
int run_case(const struct sim_case *c, const struct sim_assume *a, const struct tent_config *config,
	uint64_t seed, struct samples *slice_ns, struct samples *request_ns, struct run_result *r);

int samples_add(struct samples *s, double v);
void samples_fini(struct samples *s);

#endif
