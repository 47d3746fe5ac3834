/* SPDX-License-Identifier: MIT */
/*
 * An errand is a request of a client of this rank for another rank. It begins when a daemon accepts
 * the request (calls.h), and ends when the daemon has replied. struct errands holds the errands of
 * a daemon and the replies that the control holds.
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

/* An errand is identified by its index, which is also the token of the call or relay. */
struct errand {
	struct kv_req req;
	struct asker who;
	uint32_t next; /* in the queue of its rank */
	uint64_t start_ns; /* beginning of the loop in which it began, if the control needs it */
	uint64_t taken_ns, called_ns; /* if the errand is timed, else 0 */
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
	uint32_t taken; /* number of errands so far; one in STAGE_SAMPLE is timed */
	struct kept_reply *kept;
	uint32_t n_kept;
	uint64_t kept_since_ns;
};

/* Initializes @e for at most @inflight errands at a time. 0 or -ENOMEM. */
int errands_init(struct errands *e, uint32_t inflight, uint32_t ranks);
void errands_fini(struct errands *e);

/* Must be called when the response has arrived: records the times of an errand that is timed. */
void errand_arrived(struct daemon *d, uint32_t index);

/* Replies now, and frees the errand. */
void errand_end(struct daemon *d, uint32_t index, const struct kv_resp *resp);

/* Sends the reply to the client now, or keeps it if the control holds replies. */
void errand_reply(struct daemon *d, uint32_t index, const struct kv_resp *resp);

/* Replies to the client with this errno, because no response will come. */
void errand_fail(struct daemon *d, uint32_t index, int error);

/* Must be called after @responses more responses: sends the held replies if the control allows. */
void errands_release(struct daemon *d, uint32_t responses);

#endif
