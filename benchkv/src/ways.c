/* SPDX-License-Identifier: MIT */
#include "ways.h"

#include <string.h>

#include "base/compiler.h"
#include "backend.h"
#include "client.h"
#include "values.h"

void ways_on_reply(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct client *c = arg;
	struct kv_resp resp = {.type = 0};

	if (len == sizeof(resp))
		memcpy(&resp, payload, sizeof(resp));
	c->take(c, token, &resp);
}

int ways_send(struct client *c, const struct op *op, const struct kv_req *req)
{
	if (unlikely(c->node->values))
		values_write(c->node->values, req);
	if (op->rank == c->node->rank)
		return shmipc_client_call(c->ipc[op->shard], req, sizeof(*req), req->seq);
	return c->remote->call(c, op->shard, req);
}

int ways_take(struct client *c)
{
	int n = 0, got;

	for (uint32_t i = 0; i < c->node->o->daemons; i++) {
		if (!shmipc_client_pending(c->ipc[i]))
			continue;
		got = shmipc_client_poll(c->ipc[i], ways_on_reply, c);
		if (got < 0)
			return got;
		n += got;
	}
	if (!c->remote || !c->remote->poll)
		return n;
	got = c->remote->poll(c);
	return got < 0 ? got : n + got;
}

uint32_t ways_awaited(const struct client *c)
{
	uint32_t ways = c->remote && c->remote->pending ? c->remote->pending(c) : 0;

	for (uint32_t i = 0; i < c->node->o->daemons; i++)
		ways += shmipc_client_pending(c->ipc[i]) != 0;
	return ways;
}

bool ways_wait(struct client *c, uint64_t timeout_ns)
{
	for (uint32_t i = 0; i < c->node->o->daemons; i++) {
		if (shmipc_client_pending(c->ipc[i])) {
			shmipc_client_wait(c->ipc[i], timeout_ns);
			return true;
		}
	}
	if (!c->remote->wait)
		return false;
	c->remote->wait(c, timeout_ns);
	return true;
}
