/* SPDX-License-Identifier: MIT */
/*
 * Switches batching on and off by the average latency that Little's law gives, after Borisov, Amit
 * and Tsafrir, "Batching with End-to-End Performance Estimation" (HotOS 2025). They toggle TCP's
 * Nagle algorithm by counters that the two ends of a connection tell each other.
 *
 * A daemon counts its requests to other ranks: the number that has ended, and the integral over
 * time of the number under way. By L = lambda * W, the difference of the integral over the
 * difference of the number that ended is their average latency W, from the moment that the daemon
 * takes a request to its response. No request is timed by itself.
 *
 * A daemon does not see what its WRITEs do to the requests of the ranks that it sends to, whose
 * replies go through the same adapters. So the daemons tell each other both counters, in the
 * reserved word of their requests, and W is that of both ends: the sum of the integrals over the
 * sum of what has ended.
 *
 * Time is divided into epochs, in which batching is either off (all endpoints are flushed in each
 * loop) or on (as Nagle: calls to a rank wait until the calls sent there before are consumed, see
 * control.h). An epoch begins when the requests that were under way at a switch have ended. The
 * next one has the setting with the lower latency. Each setting is tried for one epoch at the
 * start, and the one not in use again every LITTLE_AGAIN epochs, because its figure grows old.
 *
 * The word carries 30 bits of a counter. A peer hears the number that has ended, and in the next
 * request the integral of that same moment.
 *
 *	31	set: this is a counter; a word of 0 says nothing
 *	30	0: requests that have ended; 1: the integral, in units of 2^12 requests times ns
 *	29-0	the counter, modulo 2^30
 *
 * A peer's counters are not checked, because they can only select one of the two settings.
 */
#ifndef BENCHKV_LITTLE_H
#define BENCHKV_LITTLE_H

#include <stdbool.h>
#include <stdint.h>

#define LITTLE_EPOCH_NS 200000u /* at least */
#define LITTLE_ENOUGH 64u /* requests that end in an epoch, at least */
#define LITTLE_AGAIN 16u /* epochs until the setting that is not in use is tried */
#define LITTLE_WEIGHT 0.5 /* of a new epoch in the latency of its setting */
#define LITTLE_STALE_NS 100000000u /* two reports that are further apart are not compared */

#define LITTLE_VALID (1u << 31)
#define LITTLE_AREA (1u << 30)
#define LITTLE_MASK (LITTLE_AREA - 1)
#define LITTLE_SHIFT 12

/* The counters that were sent to another rank, and those received from it. */
struct little_peer {
	uint32_t told_area; /* the second half of what is being told */
	bool telling; /* the first half was told */
	bool hearing; /* the first half was heard: in `half` */
	bool known; /* a whole report was heard: in what follows */
	uint32_t half;
	uint32_t ended, area;
	uint64_t heard_ns;
};

/* The reason for the present setting of batching. */
enum little_why {
	LITTLE_LOWER, /* the lower latency */
	LITTLE_UNKNOWN, /* not known yet */
	LITTLE_OLD, /* not measured for long */
};

/* An epoch that has ended. */
struct little_epoch {
	uint64_t ended, area, peers_ended, peers_area;
	bool batching;
	enum little_why why; /* batching is what it is in the next one */
};

struct little {
	bool batching;
	uint64_t now_ns; /* of the last count */
	uint32_t under_way;
	uint64_t ended, area; /* area: the integral, in requests times ns */
	struct little_peer *peers;
	/* This epoch. */
	uint32_t settling; /* requests that have to end before it begins */
	uint64_t since_ns, since_ended, since_area;
	uint64_t peers_ended, peers_area;
	/* The settings: off, on. */
	double latency_ns[2]; /* 0: not known */
	uint32_t epochs; /* since the one not in use was tried */
	bool trying; /* this epoch is a trial */
	uint64_t n_epochs;
	struct little_epoch last;
};

/* For that many other ranks: 0 or -ENOMEM. */
int little_init(struct little *l, uint32_t peers);
void little_fini(struct little *l);

/*
 * Called after a loop: the time, the number of requests under way, and the number that ended in the
 * loop.
 */
void little_count(struct little *l, uint64_t now_ns, uint32_t under_way, uint32_t ended);

/* Returns the word for the next request to a peer; takes the word of a request from a peer. */
uint32_t little_word(struct little *l, uint32_t peer);
void little_heard(struct little *l, uint32_t peer, uint32_t word);

#endif
