/* SPDX-License-Identifier: MIT */
/*
 * A client's own way to other ranks: a copyrpc context, and in it an endpoint for each daemon
 * of each other rank. One thread at a time.
 */
#ifndef BENCHKV_DIRECT_H
#define BENCHKV_DIRECT_H

#include <stdint.h>

#include "copyrpc.h"
#include "msg.h"

struct client;

struct direct {
	struct client *client;
	struct copyrpc_ctx *ctx; /* NULL: another backend */
	struct copyrpc_ep **ep; /* by rank and daemon */
	uint32_t pending; /* requests without a reply */
};

/* Memory for it: 0 or -ENOMEM. */
int direct_init(struct direct *x, struct client *c);
void direct_fini(struct direct *x);

/* The place of the endpoint for that daemon of that rank. */
struct copyrpc_ep **direct_ep(const struct direct *x, uint32_t rank, uint32_t daemon);

/*
 * Asks that daemon of the request's rank; the reply, an error too, comes to client_take(). 0;
 * -EAGAIN: no room or credit now; otherwise the endpoint has failed.
 */
int direct_call(struct direct *x, uint32_t daemon, const struct kv_req *req);

/* Sends what was asked, and takes replies. Their number. */
uint32_t direct_poll(struct direct *x);

#endif
