/* SPDX-License-Identifier: MIT */
/*
 * A daemon thread: a shard of the store, the clients of its own rank through shmipc, and
 * requests of other ranks. Those come to daemon 0, which owns the NIC; it serves its own
 * shard and passes the rest to the other daemons, the workers, through flux.
 *
 * The loop of daemon 0 has phases, each of which takes what is there and goes on; none
 * of them polls for what another one needs, and what cannot go on now waits in a queue.
 *
 *	A local		requests of this rank's clients for shard 0
 *	B ring		which requests for other ranks there are; answers of the workers
 *	C network	what has arrived: responses go to their clients, requests to their
 *			shards; once, or as often as the control says
 *	D calls		requests for other ranks are gathered at their endpoints
 *	E retry		so are those for which there was no room or credit
 *	F flush		endpoints send what they have gathered, as the control says
 *	G forward	requests that a worker had no room for
 */
#ifndef BENCHKV_DAEMON_H
#define BENCHKV_DAEMON_H

#include <pthread.h>
#include <stdint.h>

#include "base/slab.h"
#include "control.h"
#include "msg.h"
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

#define QUEUE_NONE UINT32_MAX

/* A request on its way to another rank; daemon 0's name for it is its index. */
struct errand {
	struct kv_req req;
	uint32_t client, id; /* whom delegrpc is to give the reply */
	uint32_t next; /* in the queue of its rank */
	uint64_t start_ns; /* when it was first gathered, if the control wants to know */
};

/* Another rank. */
struct remote {
	struct copyrpc_ep *ep; /* NULL: this rank itself */
	uint32_t rank;
	uint32_t first, last; /* errands that wait for room or credit */
	bool go; /* flush it now */
	bool failed;
};

/* What only daemon 0 has. */
struct network {
	struct remote *remotes; /* by rank */
	struct errand *errands;
	struct slab free; /* indices of errands */
	uint32_t *stalled; /* ranks with waiting errands */
	uint32_t n_stalled;
	struct control control;
	struct control_load *loads; /* gathered by phase F */
	size_t n_loads;
	struct copyrpc_req **held; /* requests for workers, FORWARD_MAX for each */
	uint32_t *n_held; /* by worker */
	struct control_polls polls; /* of this loop */
	uint64_t loop_ns; /* when it began */
	uint32_t n_waiting; /* errands in the queues of their ranks */
	struct trace trace;
	uint64_t rtt_sum_ns; /* of the calls that have ended in it */
};

struct daemon {
	struct node *node;
	uint32_t index;
	pthread_t thread;
	struct store *store;
	struct shmipc_server *ipc;
	struct delegrpc_server *ring; /* daemon 0 only */
	struct copyrpc_ctx *ctx; /* daemon 0 only */
	struct flux_node *flux; /* NULL: no flux */
	struct network net; /* daemon 0 only */
	struct daemon_stats stats;
};

/* Memory for the network side of daemon 0: 0 or -ENOMEM. */
int network_init(struct network *net, const struct node *node);
void network_fini(struct network *net);

/* The bodies of the threads; arg is the daemon. */
void *daemon0_main(void *arg);
void *worker_main(void *arg);

/* Phase A: serves local requests and returns their number. */
uint32_t daemon_serve_local(struct daemon *d);

/* The end of a loop that handled n messages: if there was nothing, rests by and by. */
struct wait;
void daemon_rest(struct daemon *d, uint32_t n, struct wait *w);

/* Hands a reply to a local client, through shmipc or delegrpc; counts failures. */
void answer_local(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp);
void answer_delegated(struct daemon *d, uint32_t client, uint32_t id, const struct kv_resp *resp);

#endif
