/* SPDX-License-Identifier: MIT */
/*
 * A daemon takes requests for other ranks from the clients. If the daemon has the endpoint for the
 * rank of a request, it makes the call. Otherwise it relays the request to the daemon that has the
 * endpoint. A request for which there is no room or credit waits in the queue of its rank, so that
 * no request overtakes another one.
 */
#ifndef BENCHKV_CALLS_H
#define BENCHKV_CALLS_H

#include "errand.h"

/* Takes a request, and calls or relays it if there is room. @d must have a free errand. */
void errand_take(struct daemon *d, const struct asker *who, const struct kv_req *req);

/* Phase D (phases.h): takes the requests in the delegation ring, and returns their number. */
uint32_t errands_take(struct daemon *d);

/* Part of phase B: takes requests that other daemons relay, and replies to relayed requests. */
uint32_t errands_exchange(struct daemon *d);

/* Phase E: makes the calls for which there was no room or credit before. */
void errands_retry(struct daemon *d);

#endif
