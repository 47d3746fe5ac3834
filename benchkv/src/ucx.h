/* SPDX-License-Identifier: MIT */
/*
 * Requests and replies as UCX active messages. Each daemon has a worker, whose address the
 * ranks tell each other; each client has a worker and an endpoint for each daemon of the other
 * ranks. A daemon answers on the endpoint that the request came from.
 *
 * A client or daemon is used by one thread at a time. Functions return 0 or -errno.
 */
#ifndef BENCHKV_UCX_H
#define BENCHKV_UCX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg.h"

struct ucx_net;
struct ucx_client;
struct ucx_server;
struct client;
struct daemon;
struct node;

/* What the workers of a rank share. device as for ibv_get_device_list(). */
int ucx_net_open(const char *device, struct ucx_net **net_p);
/*
 * Closes it, and all workers that were opened in it. in_order: no connection was being made;
 * otherwise UCX does not survive it, and what there is is left to the end of the process.
 * NULL is allowed.
 */
void ucx_net_close(struct ucx_net *net, bool in_order);

int ucx_server_open(struct ucx_net *net, struct daemon *d, struct ucx_server **s_p);
/* The address: *data_p is the caller's, to be freed. */
int ucx_server_address(struct ucx_server *s, void **data_p, size_t *len_p);
/* Serves what has arrived. How many requests that were. */
uint32_t ucx_server_poll(struct ucx_server *s);

int ucx_client_open(struct ucx_net *net, struct client *c, struct ucx_client **u_p);
/* An endpoint for that daemon of that rank, by its address. */
int ucx_client_connect(struct ucx_client *u, uint32_t rank, uint32_t daemon, const void *address);
/*
 * In the client's thread, when the daemons of the other ranks are about to run: greets each of
 * them, and waits for the answers, so that no request waits for a connection. -ETIMEDOUT,
 * -EINTR, or an endpoint has failed.
 */
int ucx_client_greet(struct ucx_client *u);
/* -EAGAIN does not occur; otherwise the endpoint has failed. The reply comes to client_take(). */
int ucx_client_call(struct ucx_client *u, uint32_t daemon, const struct kv_req *req);
/* Takes replies: their number, or -errno: an endpoint has failed. */
int ucx_client_poll(struct ucx_client *u);
uint32_t ucx_client_pending(const struct ucx_client *u);
/* Requests that UCX has taken, without the greetings. */
uint64_t ucx_client_calls(const struct ucx_client *u);

#endif
