/* SPDX-License-Identifier: MIT */
/*
 * Each client has a copyrpc context of its own, and in it an endpoint for each daemon of each other
 * rank.
 */
#include <errno.h>
#include <stdlib.h>

#include "backend.h"
#include "client.h"
#include "daemon.h"
#include "values.h"
#include "wires.h"

/* The state of a client: c->way. */
struct direct {
	struct client *client;
	struct copyrpc_ctx *ctx;
	uint32_t pending; /* requests without a reply */
	struct copyrpc_ep *ep[]; /* by rank and daemon */
};

static struct copyrpc_ep **ep_of(const struct client *c, uint32_t rank, uint32_t daemon)
{
	struct direct *x = c->way;

	return &x->ep[(size_t)rank * c->node->o->daemons + daemon];
}

static int make_daemon(struct daemon *d)
{
	d->sees_ranks = true;
	return network_init(&d->net, d->node);
}

static int make_client(struct client *c)
{
	size_t n = (size_t)c->node->ranks * c->node->o->daemons;
	struct direct *x = calloc(1, sizeof(*x) + n * sizeof(struct copyrpc_ep *));

	if (!x)
		return -ENOMEM;
	x->client = c;
	c->way = x;
	return 0;
}

static void free_client(struct client *c)
{
	struct direct *x = c->way;

	if (x)
		copyrpc_ctx_destroy(x->ctx);
	free(x);
}

/* ---- endpoints ---- */

/*
 * Half of the number of endpoints of a rank for another rank. Both ranks order them in this way:
 * the endpoints of our clients, one for each daemon of the other rank, client by client; then the
 * endpoints of our daemons, one for each client of the other rank, in the order of these clients.
 * wires_connect() connects the first half of one rank with the second half of the other rank.
 */
static uint32_t links(const struct node *n)
{
	return n->o->clients * n->o->daemons;
}

static uint32_t endpoints(const struct node *n)
{
	return 2 * links(n) * (n->ranks - 1);
}

static int open_contexts(struct node *n, char *why, int size)
{
	uint32_t depth = n->o->queue_depth, others = n->ranks - 1;
	int err = 0;

	for (uint32_t i = 0; !err && i < n->o->daemons; i++)
		err = wires_open_context(n, others * n->o->clients, depth, &n->daemons[i].net.ctx,
			why, size);
	for (uint32_t i = 0; !err && i < n->o->clients; i++) {
		struct direct *x = n->clients[i].way;

		err = wires_open_context(n, others * n->o->daemons, depth, &x->ctx, why, size);
	}
	return err;
}

/*
 * Makes endpoint i in the order of links(). A daemon needs no list of its endpoints: it only
 * answers.
 */
static int make_endpoint(struct node *n, uint32_t rank, uint32_t i, struct copyrpc_ep **ep_p)
{
	const struct copyrpc_ep_attr attr = {.user = NULL};
	uint32_t daemon = i % n->o->daemons;
	struct client *c = &n->clients[i / n->o->daemons % n->o->clients];
	struct direct *x = c->way;
	int err;

	if (i >= links(n))
		return copyrpc_ep_create(n->daemons[daemon].net.ctx, &attr, ep_p);
	err = copyrpc_ep_create(x->ctx, &attr, ep_p);
	if (!err)
		*ep_of(c, rank, daemon) = *ep_p;
	return err;
}

static int connect_all(struct node *n, char *why, int size)
{
	int err = open_contexts(n, why, size);

	return err ? err : wires_connect(n, make_endpoint, 2 * links(n), why, size);
}

/* ---- requests ---- */

static int call(struct client *c, uint32_t shard, const struct kv_req *req)
{
	struct copyrpc_ep *ep = *ep_of(c, req->rank, shard);
	struct direct *x = c->way;
	int err = values_call(c->node->values, ep, req, 0, req->seq);

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
	if (!status)
		values_take(c->node->values, c->check.origin, (uint32_t)token, data, len, &resp);
	c->take(c, token, &resp);
}

static int poll_endpoints(struct client *c)
{
	struct direct *x = c->way;

	return x->pending ? copyrpc_poll(x->ctx, on_response, x) : 0;
}

static uint32_t pending(const struct client *c)
{
	const struct direct *x = c->way;

	return x->pending != 0;
}

static void get_stats(const struct client *c, struct copyrpc_stats *s)
{
	const struct direct *x = c->way;

	if (x->ctx)
		copyrpc_ctx_get_stats(x->ctx, s, sizeof(*s));
}

const struct backend backend_direct = {
	.name = "direct",
	.brief = "client, copyrpc: each client has endpoints of its own",
	.about =
		"Each client has a copyrpc context of its own, and in it an endpoint for each daemon of\n"
		"the other ranks.\n",
	.copyrpc = true,
	.endpoints = endpoints,
	.why_endpoints =
		"each client has one for each daemon of the other ranks, each daemon one for each of "
		"their clients",
	.make_daemon = make_daemon,
	.make_client = make_client,
	.connect = connect_all,
	.free_client = free_client,
	.call = call,
	.poll = poll_endpoints,
	.pending = pending,
	.serve = network_poll,
	.get_stats = get_stats,
};
