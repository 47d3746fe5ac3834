/* SPDX-License-Identifier: MIT */
/*
 * The attributes and measurements of one rail. All rates are bytes per ns, all times ns.
 *
 * The rate is bytes over busy time. A rail serves its slices in order, so a slice that
 * was posted while the one before it was still under way took from that one's completion
 * to its own; a slice posted on an idle rail took from its post to its completion, less
 * the latency. Failed slices are no samples.
 */
#ifndef TENT_RAIL_H
#define TENT_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "sched.h"

#define RAIL_AVERAGE_NS 50e3 /* busy time after which a sample's weight has halved */
#define RAIL_STALE_NS 1e6 /* idle time in which the estimate doubles */
#define RAIL_LATENCY_NS 5000
#define RAIL_LATENCY_MAX 4 /* times the latency of the attribute, or its quarter */
#define RAIL_LATENCY_GAIN .125 /* weight of a new sample */

struct rail {
	/* Attributes. */
	double link_rate;
	double base_latency;
	uint32_t depth, group;

	/* The ledger. */
	uint64_t inflight; /* bytes charged: bound and posted */
	uint64_t posted_bytes;
	uint32_t posted; /* slices */

	/* Measured: decaying sums of bytes and of busy time; smart's moving average. */
	double sum_bytes, sum_busy;
	double rate; /* their quotient */
	double ewma;
	double latency;
	uint64_t last_at; /* the last completion */
	uint64_t busy_at; /* the first of the posted slices was posted then */

	/* Health. */
	enum sched_rail_state state; /* changed by health.c only */
	bool fresh; /* it has not been in use yet */
	uint32_t epoch; /* of the fence, or the open, that is awaited */
	uint64_t progress_at; /* the last completion, or busy_at if that is later */
	uint64_t open_at; /* DOWN: when to open it; CONNECTING, PROBING: when to give that up */
	uint64_t backoff;
	bool full; /* post returned -EAGAIN, and no completion has come since */
	bool report_up; /* the port came back while the rail was being fenced */

	uint64_t bytes, slices, exclusions;
};

void rail_init(struct rail *r, const struct sched_rail_attr *attr);

/* Estimated rate. An idle rail's estimate rises to the link rate, so that it is tried again. */
double rail_rate(const struct rail *r, uint64_t now);

/* The rate that is seen: lower if the head of its queue, unless it is a mark, is overdue. */
double rail_rate_seen(const struct rail *r, uint64_t now, uint64_t head_length);

/* When what is posted will have been completed at this rate; at least one latency from now. */
double rail_free_at(const struct rail *r, uint64_t now, double rate);

void rail_posted(struct rail *r, uint64_t now, uint64_t length);
/* The slice has ended, well or not. */
void rail_unposted(struct rail *r, uint64_t length);
/* A slice that has been completed. */
struct rail_sample {
	uint64_t posted_at, length;
	bool alone; /* nothing else was posted on the rail then */
	double numa_ns; /* latency of its memory, which is not the rail's */
};

/* Returns the busy time that it took. */
double rail_learn(struct rail *r, uint64_t now, const struct rail_sample *sample);
/* A mark has arrived: that is progress, and no sample. */
void rail_marked(struct rail *r, uint64_t now);
/* Forgets what was measured, after a failure. */
void rail_reset(struct rail *r, uint64_t now);

#endif
