/* SPDX-License-Identifier: MIT */
/* The ways of a client's requests: to the daemons of its rank by shmipc, to other ranks by the backend. */
#ifndef BENCHKV_WAYS_H
#define BENCHKV_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "msg.h"
#include "workload.h"

struct client;

/*
 * Sends a request where its key lives. 0; -EAGAIN: there is no room now; otherwise the way has
 * failed.
 */
int ways_send(struct client *c, const struct op *op, const struct kv_req *req);

/* Gives the replies that are there to c->take(). Their number or -errno. */
int ways_take(struct client *c);

/* A reply through shared memory, given to c->take(); arg is the client. */
void ways_on_reply(void *arg, uint64_t token, const void *payload, uint32_t len);

/* The number of ways on which replies are awaited. */
uint32_t ways_awaited(const struct client *c);

/* If one way is awaited, sleeps until it has a reply. False: nothing would wake the client. */
bool ways_wait(struct client *c, uint64_t timeout_ns);

#endif
