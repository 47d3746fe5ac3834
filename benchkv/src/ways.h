/* SPDX-License-Identifier: MIT */
/* The paths of a client's requests: shmipc in its own rank, the backend to other ranks. */
#ifndef BENCHKV_WAYS_H
#define BENCHKV_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "msg.h"
#include "workload.h"

struct client;

/*
 * Sends a request to the daemon of its key. 0; -EAGAIN: there is no room now; another -errno: the
 * path has failed.
 */
int ways_send(struct client *c, const struct op *op, const struct kv_req *req);

/* Calls c->take() for each reply that has arrived. Returns their number or -errno. */
int ways_take(struct client *c);

/* Callback of shmipc and delegrpc: passes a reply to c->take(); arg is the client. */
void ways_on_reply(void *arg, uint64_t token, const void *payload, uint32_t len);

/* The number of paths on which the client waits for replies. */
uint32_t ways_awaited(const struct client *c);

/*
 * Must be called only if the client waits on one path. Sleeps until a reply comes, at most
 * @timeout_ns. False: the client cannot sleep on this path.
 */
bool ways_wait(struct client *c, uint64_t timeout_ns);

#endif
