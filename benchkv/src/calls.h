/* SPDX-License-Identifier: MIT */
/*
 * A daemon receives the clients' requests for other ranks. If the daemon has the endpoint for the
 * rank of a request, it makes the call. Otherwise it relays the request to the daemon that has the
 * endpoint. A request for which there is no room or credit waits in the queue of its rank, so that
 * no request overtakes another one.
 */
#ifndef BENCHKV_CALLS_H
#define BENCHKV_CALLS_H

#include "errand.h"

/* Accepts a request as an errand, and sends it if there is room. @d must have a free errand. */
void errand_take(struct daemon *d, const struct asker *who, const struct kv_req *req);

/* Phase D (phases.h): accepts the requests in the delegation ring, and returns their number. */
uint32_t errands_take(struct daemon *d);

/*
 * Part of phase B: accepts the requests that other daemons relay to this daemon, and handles the
 * replies to requests that this daemon has relayed. Returns the number of requests and replies.
 */
uint32_t errands_exchange(struct daemon *d);

/* Phase E: sends the errands for which there was no room or credit before. */
void errands_retry(struct daemon *d);

#endif
