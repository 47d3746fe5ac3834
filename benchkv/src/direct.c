/* SPDX-License-Identifier: MIT */
#include "direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

int direct_init(struct direct *x, struct client *c)
{
	*x = (struct direct){.client = c};
	x->ep = calloc((size_t)c->node->ranks * c->node->o->daemons, sizeof(struct copyrpc_ep *));
	return x->ep ? 0 : -ENOMEM;
}

void direct_fini(struct direct *x)
{
	copyrpc_ctx_destroy(x->ctx);
	free((void *)x->ep);
}

struct copyrpc_ep **direct_ep(const struct direct *x, uint32_t rank, uint32_t daemon)
{
	return &x->ep[(size_t)rank * x->client->node->o->daemons + daemon];
}

int direct_call(struct direct *x, uint32_t daemon, const struct kv_req *req)
{
	struct copyrpc_ep *ep = *direct_ep(x, req->rank, daemon);
	int err = copyrpc_call(ep, req, sizeof(*req), sizeof(struct kv_resp), req->seq);

	x->pending += !err;
	return err == -ENOBUFS ? -EAGAIN : err;
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct direct *x = arg;
	struct client *c = x->client;
	struct kv_resp resp = {.type = KV_ERROR,
		.origin = (uint16_t)c->check.origin,
		.seq = (uint32_t)token,
		.value = (uint64_t)(status ? -status : EBADMSG)};

	x->pending--;
	if (!status && len == sizeof(resp))
		memcpy(&resp, data, sizeof(resp)); /* the peer may still write there */
	client_take(c, token, &resp);
}

uint32_t direct_poll(struct direct *x)
{
	return (uint32_t)copyrpc_poll(x->ctx, on_response, x);
}
