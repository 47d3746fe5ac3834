/* SPDX-License-Identifier: MIT */
/*
 * The network side of a daemon: its endpoints, what arrives on them, and when they send.
 * A request of another rank is read once, when it arrives; one for another daemon's shard
 * goes to that daemon through flux, or waits here until it has room.
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
	struct copyrpc_ep *ep; /* NULL: not reached from here */
	uint32_t rank;
	bool go; /* flush it now */
	bool failed;
};

/* A request of another rank that a worker had no room for. */
struct held_req {
	struct copyrpc_req *from;
	struct kv_req req;
};

struct network {
	struct copyrpc_ctx *ctx; /* NULL: no network */
	struct remote *remotes; /* by rank */
	struct control control;
	struct control_load *loads; /* gathered by phase F */
	size_t n_loads;
	size_t held_back; /* endpoints that the control has not let go in the last phase F */
	struct held_req *held; /* FORWARD_MAX for each worker */
	uint32_t *n_held; /* by worker */
	struct control_polls polls; /* of this loop */
	uint64_t loop_ns; /* when it began, if the control wants to know */
	uint64_t rtt_sum_ns; /* of the calls that have ended in it */
	bool staggers; /* the first calls to the ranks are still being spread */
	uint64_t first_ns; /* when the first call of all was to be made; 0: not yet */
};

/* Memory for it: 0 or -ENOMEM. */
int network_init(struct network *net, const struct node *node);
void network_fini(struct network *net);

/* Is there an endpoint for that rank? */
bool network_reaches(const struct daemon *d, uint32_t rank);

/*
 * Gathers a request at the endpoint of its rank; errand_reply() or errand_fail() follow with the
 * token. 0; -EAGAIN: no room or credit now; otherwise the endpoint has failed.
 */
int network_call(struct daemon *d, const struct kv_req *req, uint32_t token);

/* Phase B: takes the workers' answers, and returns their number. */
uint32_t network_take_answers(struct daemon *d);

/*
 * Phase C: takes what has arrived, gives responses to errands and requests to their shards, and
 * returns their number.
 */
uint32_t network_poll(struct daemon *d);

/* Phase F: sends what the endpoints have gathered, as the control says. */
void network_flush(struct daemon *d);

/* Phase G: passes on requests for which a worker had no room. */
void network_forward(struct daemon *d);

/* Completions so far: each batch that has arrived is one. Takes time for each endpoint. */
uint64_t network_completions(const struct network *net);

/* Requests that wait for a worker. */
uint32_t network_held(const struct daemon *d);

/* WRITEs with calls in them that the peers have not consumed, brought up to date. */
uint32_t network_unconsumed(struct daemon *d);

/* Called at the end of a loop: gives its figures to the control, if the control observes. */
void network_observe(struct daemon *d);

#endif
