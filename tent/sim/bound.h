/* SPDX-License-Identifier: MIT */
/*
 * The clairvoyant bound: the earliest time at which rails can have completed a number of
 * bytes, if their capacity is known in advance and the data can be divided in any way.
 *
 * Rails that share a link are a group; each other rail is a group of its own. With capacity c_r(t)
 * and latency l_r of rail r, and rate C_g of the link of group g (infinite if it is not shared):
 *
 *	R(t, T) = sum over g of min(C_g, sum over r in g of c_r(t) where t <= T - l_r)
 *	T*(B)   = min { T : integral of R(t, T) from 0 to T >= B }
 *
 * Units are bytes and ns. The bound does not depend on the scheduler.
 */
#ifndef TENT_BOUND_H
#define TENT_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#define BOUND_RAILS 64
#define BOUND_GROUPS 16
#define BOUND_NO_GROUP UINT32_MAX

/* From time @at on the rail has this rate. */
struct bound_step {
	double at, rate;
};

struct bound_rail {
	double latency;
	uint32_t group; /* an index of group_rates, or BOUND_NO_GROUP */
	bool remote; /* the rail is on another NUMA node than the memory */
	const struct bound_step *steps; /* ascending; the first one is at 0 or before */
	uint32_t n_steps;
};

struct bound {
	uint32_t n_rails;
	struct bound_rail rails[BOUND_RAILS];
	double group_rates[BOUND_GROUPS]; /* rates of the shared links */
};

/*
 * Bytes that can be completed between @from and @from + @span; *remote_p: the part of them that
 * remote rails must carry.
 */
double bound_bytes(const struct bound *b, double from, double span, double *remote_p);

/* T*: the shortest time for these bytes, starting at @from; INFINITY: they cannot be completed. */
double bound_time(const struct bound *b, double from, double bytes);

/* The share of bytes that must be remote to reach T*. */
double bound_remote_share(const struct bound *b, double from, double bytes);

/* R(@at, @at + @span): the ideal throughput at time @at of the rails with a latency up to @span. */
double bound_rate(const struct bound *b, double at, double span);

#endif
