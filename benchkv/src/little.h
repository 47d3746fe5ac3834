/* SPDX-License-Identifier: MIT */
/*
 * Switches batching on or off, and prefers the setting with the lower average latency. The latency
 * is computed with Little's law, after Borisov, Amit and Tsafrir, "Batching with End-to-End
 * Performance Estimation" (HotOS 2025). The authors switch TCP's Nagle algorithm by counters that
 * the two ends of a connection exchange.
 *
 * A daemon has two counters of its requests to other ranks: the number of requests that have ended,
 * and the integral over time of the number under way. By Little's law, L = lambda * W, the average
 * latency W is the increase of the integral divided by the increase of the number that have ended.
 * The latency of a request runs from the moment at which the daemon reads the request until the
 * response arrives. No request is timed individually.
 *
 * The WRITEs of a daemon also delay the requests of the ranks to which it sends, because the
 * replies to these requests use the same adapters. A daemon cannot observe that delay. So the
 * daemons send each other both counters, in the field `word` of struct kv_req, and compute W for
 * both ends: the sum of the integrals divided by the sum of the requests that have ended.
 *
 * Time is divided into epochs, in which batching is either off (all endpoints are flushed in each
 * loop) or on (as with Nagle, calls to a rank wait until the earlier calls to this rank are
 * consumed, see control.h). After a switch, an epoch begins when the requests that were under way
 * at the switch have ended. The next epoch has the setting with the lower latency. At the start
 * each setting is tried for one epoch. The setting that is not in use is tried again every
 * LITTLE_AGAIN epochs, because its latency may have changed.
 *
 * The word contains 30 bits of a counter: in one request the number of requests that have ended,
 * and in the next request to the same peer the integral at that same moment.
 *
 *	31	1: bits 30 to 0 are valid; 0: the word contains no counter
 *	30	0: requests that have ended; 1: the integral, in units of 2^12 requests times ns
 *	29-0	the counter, modulo 2^30
 *
 * A peer's counters are not checked, because wrong ones can only select the worse setting.
 */
#ifndef BENCHKV_LITTLE_H
#define BENCHKV_LITTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "decision.h"

#define LITTLE_EPOCH_NS 200000u /* shortest epoch */
#define LITTLE_ENOUGH 64u /* fewest requests that end in an epoch */
#define LITTLE_AGAIN 16u /* epochs until the setting that is not in use is tried */
#define LITTLE_WEIGHT 0.5 /* weight of a new epoch in the latency of its setting */
#define LITTLE_STALE_NS 100000000u /* longest time between two reports that are compared */

#define LITTLE_VALID (1u << 31)
#define LITTLE_AREA (1u << 30)
#define LITTLE_MASK (LITTLE_AREA - 1)
#define LITTLE_SHIFT 12

/* The counters that were sent to another rank, and the counters that it has sent. */
struct little_peer {
	uint32_t told_area; /* the integral that the next request will carry */
	bool telling; /* the number of ended requests was sent, the integral was not yet */
	bool hearing; /* the number of ended requests was received, and is in `half` */
	bool known; /* ended, area and heard_ns are valid */
	uint32_t half;
	uint32_t ended, area; /* the last complete report */
	uint64_t heard_ns;
};

/* An epoch that has ended. */
struct little_epoch {
	uint64_t ended, area, peers_ended, peers_area;
	bool batching;
	enum decision_reason why; /* the reason for the setting of the next epoch */
};

struct little {
	bool batching;
	uint64_t now_ns; /* time of the last little_count() */
	uint32_t under_way;
	uint64_t ended, area; /* area: the integral, in requests times ns */
	struct little_peer *peers;
	/* This epoch. */
	uint32_t settling; /* requests that must end before the epoch begins */
	uint64_t since_ns, since_ended, since_area;
	uint64_t peers_ended, peers_area;
	/* The settings: off, on. */
	double latency_ns[2]; /* 0: not known */
	uint32_t epochs; /* number of epochs since the setting that is not in use was tried */
	bool trying; /* this epoch is a trial */
	uint64_t n_epochs;
	struct little_epoch last;
};

/* Initializes @l for @peers other ranks. 0 or -ENOMEM. */
int little_init(struct little *l, uint32_t peers);
void little_fini(struct little *l);

/*
 * Must be called after each loop of the daemon, with the number of requests under way and the
 * number that ended in the loop.
 */
void little_count(struct little *l, uint64_t now_ns, uint32_t under_way, uint32_t ended);

/* Returns the word for the next request to a peer. */
uint32_t little_word(struct little *l, uint32_t peer);
/* Handles the word of a request from a peer. */
void little_heard(struct little *l, uint32_t peer, uint32_t word);

#endif
