/* SPDX-License-Identifier: MIT */
/*
 * A daemon takes requests over for other ranks. It calls the rank if it has the endpoint, else it
 * relays the request to the daemon that has it. A request for which there is no room or credit
 * waits in the queue of its rank, so that none overtakes another one.
 */
#ifndef BENCHKV_CALLS_H
#define BENCHKV_CALLS_H

#include "errand.h"

/* Takes a request over, and calls or relays if there is room. Not if errands_full(). */
void errand_take(struct daemon *d, const struct asker *who, const struct kv_req *req);

/* Phase D: takes the requests in the delegation ring, and returns their number. */
uint32_t errands_take(struct daemon *d);

/* Part of phase B: takes requests that other daemons relay, and their replies to ours. */
uint32_t errands_exchange(struct daemon *d);

/* Phase E: makes the calls for which there was no room or credit before. */
void errands_retry(struct daemon *d);

#endif
