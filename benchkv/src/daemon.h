/* SPDX-License-Identifier: MIT */
/*
 * A daemon thread has a shard of the store. It serves the clients of its own rank through shmipc,
 * and requests of other ranks. Requests of other ranks arrive at the daemons that have endpoints
 * (see net_daemons in options.h). Such a daemon serves its own shard, and passes requests for other
 * shards to their daemons through flux. Requests of the rank's own clients for other ranks come
 * through a ring (delegation), or through shmipc and perhaps another daemon (meta). If clients have
 * endpoints of their own, such requests do not come to daemons.
 */
#ifndef BENCHKV_DAEMON_H
#define BENCHKV_DAEMON_H

#include <pthread.h>
#include <stdint.h>

#include "bucket.h"
#include "errand.h"
#include "network.h"
#include "node.h"
#include "sleeper.h"
#include "trace.h"

#define PHASE_SAMPLE 64
#define STAGE_SAMPLE 16

struct daemon_stats {
	uint64_t loops, idle_loops, sleeps;
	uint64_t overslept; /* sleeps of --wait event that should have ended earlier */
	uint64_t local; /* requests served for clients of this rank */
	uint64_t remote; /* requests of other ranks for this daemon's shard */
	uint64_t forwarded; /* requests of other ranks that were passed to another daemon */
	uint64_t relayed; /* requests for other ranks that went to the daemon of the endpoint */
	uint64_t calls, responses; /* calls to other ranks for this rank's clients, and responses */
	uint64_t stalled; /* calls that had to wait for room or credit */
	uint64_t polls; /* of the network */
	uint64_t batch[BUCKETS]; /* loops, grouped by the messages that their polls brought */
	uint64_t bad_replies; /* replies that could not be sent */
	/*
	 * One in PHASE_SAMPLE loops is timed. phase_loops counts the timed loops that handled
	 * something; phase_ns sums the times of their phases.
	 */
	uint64_t phase_loops, phase_ns[TRACE_PHASES];
	/*
	 * One in STAGE_SAMPLE calls is timed: wait_ns until the call, network_ns from the call to
	 * its response.
	 */
	uint64_t stage_calls, wait_ns, network_ns;
};

struct daemon {
	struct node *node;
	uint32_t index;
	pthread_t thread;
	struct store *store;
	struct shmipc_server *ipc;
	struct delegrpc_server *ring; /* clients' requests for other ranks; NULL: none come here */
	struct flux_node *flux; /* requests of other ranks for other daemons' shards; NULL: none */
	struct flux_node *relay; /* requests for other ranks, to the endpoint's owner; or NULL */
	void *port; /* the backend's part of this daemon */
	bool sees_ranks; /* it handles requests to, or from, other ranks */
	bool takes_errands; /* clients' requests for other ranks come through shmipc */
	/* Only with sees_ranks: */
	struct network net;
	struct errands errands;
	struct trace trace;
	struct decisions decisions; /* of the control, with --decisions */
	struct sleeper sleeper;
	struct daemon_stats stats;
};

/* The body of the thread; arg is the daemon. */
void *daemon_main(void *arg);

#endif
