/* SPDX-License-Identifier: MIT */
/*
 * An errand is a request of a client of this rank for another rank, from the moment a daemon takes
 * it over (calls.h) until the daemon has replied. A daemon keeps its errands here, and the replies that
 * the control holds back.
 */
#ifndef BENCHKV_ERRAND_H
#define BENCHKV_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "answer.h"
#include "msg.h"

#define QUEUE_NONE UINT32_MAX

struct daemon;

/* The daemon's name for it is its index, which is also the token of the call or relay. */
struct errand {
	struct kv_req req;
	struct asker who;
	uint32_t next; /* in the queue of its rank */
	uint64_t start_ns; /* when the loop began that took it, if the control wants to know */
	uint64_t taken_ns, called_ns; /* of those that are sampled; 0: it is not */
};

struct errand_queue {
	uint32_t first, last; /* QUEUE_NONE: empty */
};

/* A reply that waits for others, see hold.h. */
struct kept_reply {
	uint32_t errand;
	struct kv_resp resp;
};

struct errands {
	struct errand *all;
	struct slab free; /* indices of errands */
	struct errand_queue *queues; /* by rank */
	uint32_t *stalled; /* ranks with waiting errands */
	uint32_t n_stalled;
	uint32_t n_waiting; /* errands in the queues */
	uint32_t taken; /* errands so far, of which some are sampled */
	struct kept_reply *kept;
	uint32_t n_kept;
	uint64_t kept_since_ns;
};

/* Room for that many errands at a time: 0 or -ENOMEM. */
int errands_init(struct errands *e, uint32_t inflight, uint32_t ranks);
void errands_fini(struct errands *e);

bool errands_full(const struct errands *e);

/* The response to its call is there: counts how long its stages took, if it is sampled. */
void errand_arrived(struct daemon *d, uint32_t index);

/* Replies now, and frees the errand. */
void errand_end(struct daemon *d, uint32_t index, const struct kv_resp *resp);

/* The reply has come: it goes to its client now, or when the control lets it go. */
void errand_reply(struct daemon *d, uint32_t index, const struct kv_resp *resp);

/* There will be no reply: its client gets this errno. */
void errand_fail(struct daemon *d, uint32_t index, int error);

/* For a control that holds replies, after `responses` more of them: releases them if it is time. */
void errands_release(struct daemon *d, uint32_t responses);

#endif
