/* SPDX-License-Identifier: MIT */
/* The ways that a client's requests take: to a daemon of its rank, or as the backend says. */
#ifndef BENCHKV_WAYS_H
#define BENCHKV_WAYS_H

#include <stdint.h>

#include "msg.h"
#include "workload.h"

struct client;

/* On how many ways a client waits for replies, and one of those through shared memory. */
struct awaited {
	uint32_t ways;
	struct shmipc_client *ipc; /* NULL: not this way */
	struct delegrpc_client *ring;
};

/*
 * Sends a request where its key lives. 0; -EAGAIN: there is no room now; otherwise the way has
 * failed.
 */
int ways_send(struct client *c, const struct op *op, const struct kv_req *req);

/* Takes the replies that are there, which come to client_take(). Their number or -errno. */
int ways_take(struct client *c);

struct awaited ways_awaited(const struct client *c);

#endif
