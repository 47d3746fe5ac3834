/* SPDX-License-Identifier: MIT */
/*
 * The network side of a daemon: its endpoints, the messages that arrive there, and the decision
 * when to send. A request of another rank is copied when it arrives. If it is for another
 * daemon's shard, it is passed to that daemon through flux, or waits here until that daemon has
 * room. phases.h describes the phases of a daemon's loop.
 */
#ifndef BENCHKV_NETWORK_H
#define BENCHKV_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "copyrpc.h"
#include "msg.h"

struct daemon;
struct node;

/* Another rank. */
struct remote {
	struct copyrpc_ep *ep; /* NULL: this daemon has no endpoint for the rank */
	uint32_t rank;
	bool go; /* the control has selected the endpoint for the next flush */
	bool failed;
};

/*
 * A request of another rank that is passed to the worker (another daemon of this rank), and the
 * worker's reply. Without values of more than 8 bytes, only the first field of each is sent. The
 * worker may use `from` until it replies.
 */
struct forwarded {
	struct kv_req req;
	struct copyrpc_req *from;
};

struct forwarded_reply {
	struct kv_resp resp;
	uint32_t got_len; /* see values.h */
};

struct network {
	struct copyrpc_ctx *ctx; /* NULL: the daemon has no endpoints */
	struct remote *remotes; /* by rank */
	struct control control;
	struct control_load *loads; /* filled in by phase F */
	size_t n_loads;
	size_t held_back; /* endpoints that the control did not flush in the last phase F */
	struct forwarded *held; /* requests for which a worker had no room: FORWARD_MAX each */
	uint32_t *n_held; /* by worker */
	struct control_polls polls; /* of this loop */
	uint32_t n_left; /* requests that have arrived and that the loop has not served */
	uint64_t loop_ns; /* when the loop began, if the control needs it */
	uint64_t rtt_sum_ns; /* sum of the round trips of the calls that have ended in the loop */
	bool staggers; /* the first calls to the ranks are still being spread over time */
	uint64_t first_ns; /* when the first request for any rank came; 0: none yet */
};

/* Allocates the memory. 0 or -ENOMEM. */
int network_init(struct network *net, const struct node *node);
void network_fini(struct network *net);

/*
 * Gathers a request at the endpoint of its rank. When the call ends, errand_reply() or
 * errand_fail() is called with the token. 0; -EAGAIN: no room or credit now; otherwise the endpoint
 * has failed.
 */
int network_call(struct daemon *d, const struct kv_req *req, uint32_t token);

/* Phase B: sends the workers' replies to the other ranks, and returns their number. */
uint32_t network_take_answers(struct daemon *d);

/*
 * Phase C: polls, ends the errands (errand.h) of the responses, and serves as many requests as the
 * control allows or passes them to the daemons of their shards. Returns the number of messages that
 * it handled.
 */
uint32_t network_poll(struct daemon *d);

/* Phase F: flushes the endpoints that the control selects. */
void network_flush(struct daemon *d);

/* Phase G: passes on requests for which a worker had no room. */
void network_forward(struct daemon *d);

/* The number of completions so far, one per arrived batch. Reads counters of all endpoints. */
uint64_t network_completions(const struct network *net);

/* The number of requests that wait for a worker. */
uint32_t network_held(const struct daemon *d);

/* The current number of WRITEs with calls that the peers have not consumed. */
uint32_t network_unconsumed(struct daemon *d);

/*
 * Called at the end of a loop: passes the loop's figures to the control, if the control needs them.
 */
void network_observe(struct daemon *d);

#endif
