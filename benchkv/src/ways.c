/* SPDX-License-Identifier: MIT */
#include "ways.h"

#include <errno.h>
#include <string.h>

#include "client.h"

static void on_reply(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct kv_resp resp = {.type = 0};

	if (len == sizeof(resp))
		memcpy(&resp, payload, sizeof(resp));
	client_take(arg, token, &resp);
}

int ways_send(struct client *c, const struct op *op, const struct kv_req *req)
{
	if (op->rank == c->node->rank)
		return shmipc_client_call(c->ipc[op->shard], req, sizeof(*req), req->seq);
	switch (c->node->o->backend) {
	case BACKEND_META:
		return shmipc_client_call(c->ipc[op->shard], req, sizeof(*req), req->seq);
	case BACKEND_DIRECT:
		return direct_call(&c->direct, op->shard, req);
	case BACKEND_UCX:
		return ucx_client_call(c->ucx, op->shard, req);
	default:
		return delegrpc_client_call(c->rings[node_owner(c->node, op->rank)], req,
			sizeof(*req), req->seq);
	}
}

static bool ring_pending(const struct client *c, uint32_t daemon)
{
	return c->rings[daemon] && delegrpc_client_pending(c->rings[daemon]);
}

/* Of those that come through shared memory. */
static int take_from_daemons(struct client *c)
{
	int n = 0, got;

	for (uint32_t i = 0; i < c->node->o->daemons; i++) {
		if (shmipc_client_pending(c->ipc[i])) {
			got = shmipc_client_poll(c->ipc[i], on_reply, c);
			if (got < 0)
				return got;
			n += got;
		}
		if (ring_pending(c, i)) {
			got = delegrpc_client_poll(c->rings[i], on_reply, c);
			if (got < 0)
				return got;
			n += got;
		}
	}
	return n;
}

int ways_take(struct client *c)
{
	int n = take_from_daemons(c), got;

	if (n < 0)
		return n;
	if (c->direct.pending)
		n += (int)direct_poll(&c->direct);
	if (c->ucx && ucx_client_pending(c->ucx)) {
		got = ucx_client_poll(c->ucx);
		if (got < 0)
			return got;
		n += got;
	}
	return n;
}

struct awaited ways_awaited(const struct client *c)
{
	struct awaited a = {.ways = c->direct.pending || (c->ucx && ucx_client_pending(c->ucx))};

	for (uint32_t i = 0; i < c->node->o->daemons; i++) {
		if (shmipc_client_pending(c->ipc[i])) {
			a.ipc = c->ipc[i];
			a.ways++;
		}
		if (ring_pending(c, i)) {
			a.ring = c->rings[i];
			a.ways++;
		}
	}
	return a;
}
