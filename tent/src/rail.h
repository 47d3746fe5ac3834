/* SPDX-License-Identifier: MIT */
/*
 * The attributes and measurements of one rail. All rates are bytes per ns, all times ns.
 *
 * The rate is bytes divided by busy time. A rail serves its slices in order. The busy time of a
 * slice begins at the completion of the slice before it or, if that is later, one latency after its
 * own post; it ends at its own completion. Failed slices are no samples.
 */
#ifndef TENT_RAIL_H
#define TENT_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "sched.h"

#define RAIL_AVERAGE_NS 50e3 /* a slice of this busy time halves the older samples' weight */
#define RAIL_STALE_NS 1e6 /* idle time after which the estimated rate has doubled */
#define RAIL_LATENCY_NS 5000
#define RAIL_STALL_NS 2000000ull
#define RAIL_LATENCY_MAX 4 /* the estimate is within this factor of the attribute's latency */
#define RAIL_LATENCY_GAIN .125 /* weight of a new sample */

struct rail {
	/* Attributes. */
	double link_rate;
	double base_latency;
	uint32_t depth, group;
	uint64_t stall_min_ns;

	/* The ledger, see sched_priv.h. */
	uint64_t inflight; /* bytes of the slices that are bound or posted */
	uint64_t posted_bytes;
	uint32_t posted; /* number of slices */

	/*
	 * Measured: decaying sums of bytes and of busy time; ewma: the moving average of mode
	 * smart.
	 */
	double sum_bytes, sum_busy;
	double rate; /* sum_bytes / sum_busy */
	double ewma;
	double latency;
	uint64_t last_at; /* time of the last completion */
	uint64_t busy_at; /* time at which the idle rail got its first slice */

	/* Health. */
	enum sched_rail_state state; /* changed by health.c only */
	bool fresh; /* the rail has not been in use yet */
	uint32_t epoch; /* of the last fence or open */
	uint64_t progress_at; /* the last completion, or busy_at if that is later */
	uint64_t open_at; /* DOWN: when to open the rail; CONNECTING, PROBING: the deadline */
	uint64_t backoff;
	bool full; /* post returned -EAGAIN, and no completion has come since */
	bool report_up; /* the port came back while the rail was being fenced */

	uint64_t bytes, slices, exclusions;
};

void rail_init(struct rail *r, const struct sched_rail_attr *attr);

/* Estimated rate. An idle rail's estimate rises to the link rate, so that it is tried again. */
double rail_rate(const struct rail *r, uint64_t now);

/*
 * The estimated rate, reduced if the first posted slice takes longer than it should at that rate.
 * @head_length: of that slice; 0: it is a mark, or there is none.
 */
double rail_rate_seen(const struct rail *r, uint64_t now, uint64_t head_length);

/* Returns the time at which all posted bytes will have completed, at @rate; at least one latency
 * from now. */
double rail_free_at(const struct rail *r, uint64_t now, double rate);

void rail_posted(struct rail *r, uint64_t now, uint64_t length);
/* The slice has ended, with or without an error. */
void rail_unposted(struct rail *r, uint64_t length);

/* The times of a slice that has been completed. */
struct rail_sample {
	uint64_t posted_at, length;
	bool alone; /* at posted_at nothing else was posted on the rail */
	double numa_ns; /* additional latency of the slice's memory */
};

/* Counts a slice of this length that has been completed. */
void rail_count(struct rail *r, uint64_t length);
/* Updates the measurements. Returns the busy time of the slice. */
double rail_learn(struct rail *r, uint64_t now, const struct rail_sample *sample);
/* A mark has arrived. It is progress, but not a sample. */
void rail_marked(struct rail *r, uint64_t now);
/* Resets the measurements, after a failure. */
void rail_reset(struct rail *r, uint64_t now);

#endif
