/* SPDX-License-Identifier: MIT */
/*
 * A daemon thread: a shard of the store, the clients of its own rank through shmipc, and
 * requests of other ranks. Those come to daemon 0, which owns the NIC; it serves its own
 * shard and passes the rest to the other daemons, the workers, through flux.
 *
 * The loop has phases, each of which takes what is there and goes on; none of them polls for
 * what another one needs, and what cannot go on now waits in a queue. Workers have the
 * first two.
 *
 *	A local		requests of this rank's clients for this shard
 *	B channels	which requests for other ranks there are; answers of the workers;
 *			requests that daemon 0 has passed on
 *	C network	what has arrived: responses go to their clients, requests to their
 *			shards; once, or as often as the control says; which may hold
 *			the responses back for a moment
 *	D calls		requests for other ranks are gathered at their endpoints
 *	E retry		so are those for which there was no room or credit
 *	F flush		endpoints send what they have gathered, as the control says
 *	G forward	requests that a worker had no room for
 */
#ifndef BENCHKV_DAEMON_H
#define BENCHKV_DAEMON_H

#include <pthread.h>
#include <stdint.h>

#include "errand.h"
#include "network.h"
#include "node.h"
#include "trace.h"

/* 0, 1, 2 to 10, 11 to 100, more. */
#define BATCH_SIZES 5

struct daemon_stats {
	uint64_t loops, idle_loops, sleeps;
	uint64_t local; /* requests served for clients of this rank */
	uint64_t remote; /* requests served for other ranks; by the daemon that has the shard */
	uint64_t forwarded; /* requests of other ranks that daemon 0 has passed to a worker */
	uint64_t calls, responses; /* for clients, to other ranks */
	uint64_t stalled; /* calls that had to wait for room or credit */
	uint64_t polls; /* of the network */
	uint64_t batch[BATCH_SIZES]; /* loops by the messages that their polls brought */
	uint64_t bad_replies; /* replies that could not be given to whom they are for */
};

struct daemon {
	struct node *node;
	uint32_t index;
	pthread_t thread;
	struct store *store;
	struct shmipc_server *ipc;
	struct delegrpc_server *ring; /* daemon 0 only */
	struct flux_node *flux; /* NULL: no flux */
	struct network net; /* daemon 0 only, as what follows */
	struct errands errands;
	struct trace trace;
	struct daemon_stats stats;
};

/* The body of the thread; arg is the daemon. */
void *daemon_main(void *arg);

/* Phase A: serves requests of this rank's clients and returns their number. */
uint32_t daemon_serve_local(struct daemon *d);

/* Of phase B: serves requests that daemon 0 has passed on, and returns their number. */
uint32_t daemon_serve_forwarded(struct daemon *d);

/* Hands a reply to a local client, through shmipc or delegrpc; counts failures. */
void daemon_answer_local(struct daemon *d, uint32_t client, uint32_t id,
	const struct kv_resp *resp);
void daemon_answer_delegated(struct daemon *d, uint32_t client, uint32_t id,
	const struct kv_resp *resp);

#endif
