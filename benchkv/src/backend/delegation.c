/* SPDX-License-Identifier: MIT */
/*
 * A client writes a request for another rank into a ring of shared memory (delegrpc) of the daemon
 * that owns the endpoint for that rank.
 */
#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "daemon.h"
#include "owners.h"
#include "ways.h"
#include "why.h"

/* A client's connections, by daemon; NULL where the daemon has no ring. */
static struct delegrpc_client **rings_of(const struct client *c)
{
	return c->way;
}

/* Clients send requests for other ranks only to daemons that own endpoints. */
static int make_daemon(struct daemon *d)
{
	return node_endpoints(d->node, d->index) ? owners_make_daemon(d) : 0;
}

static int make_client(struct client *c)
{
	c->way = calloc(c->node->o->daemons, sizeof(struct delegrpc_client *));
	return c->way ? 0 : -ENOMEM;
}

static void free_client(struct client *c)
{
	for (uint32_t i = 0; c->way && i < c->node->o->daemons; i++)
		delegrpc_client_disconnect(rings_of(c)[i]);
	free(c->way);
}

static int open_daemon(struct daemon *d, char *why, int size)
{
	struct node *n = d->node;
	const struct delegrpc_attr attr = {.max_clients = n->o->clients,
		.resp_depth = n->o->queue_depth,
		.req_size = sizeof(struct kv_req),
		.resp_size = sizeof(struct kv_resp)};
	char name[NODE_NAME_MAX];
	int err;

	node_region_name(n, d->index, name);
	err = delegrpc_server_create(name, &attr, &d->ring);
	if (err)
		return why_no_region(why, size, err, name);
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = delegrpc_client_connect(name, &attr, &rings_of(&n->clients[i])[d->index]);
	delegrpc_server_unlink(d->ring);
	return err ? why_no_daemon(why, size, err) : 0;
}

static int call(struct client *c, uint32_t shard, const struct kv_req *req)
{
	return delegrpc_client_call(rings_of(c)[node_owner(c->node, req->rank)], req, sizeof(*req),
		req->seq);
}

/*
 * Returns the next ring with outstanding replies, starting with daemon *i_p, or NULL. Sets *i_p to
 * the daemon after that of the ring.
 */
static struct delegrpc_client *next_pending(const struct client *c, uint32_t *i_p)
{
	while (*i_p < c->node->o->daemons) {
		struct delegrpc_client *ring = rings_of(c)[(*i_p)++];

		if (ring && delegrpc_client_pending(ring))
			return ring;
	}
	return NULL;
}

static int poll_rings(struct client *c)
{
	struct delegrpc_client *ring;
	uint32_t i = 0;
	int n = 0;

	while ((ring = next_pending(c, &i))) {
		int got = delegrpc_client_poll(ring, ways_on_reply, c);

		if (got < 0)
			return got;
		n += got;
	}
	return n;
}

static uint32_t pending(const struct client *c)
{
	uint32_t n = 0, i = 0;

	while (next_pending(c, &i))
		n++;
	return n;
}

static void wait_ring(struct client *c, uint64_t timeout_ns)
{
	uint32_t i = 0;

	delegrpc_client_wait(next_pending(c, &i), timeout_ns);
}

const struct backend backend_delegation = {
	.name = "delegation",
	.brief = "client, delegrpc, daemon, copyrpc; the default",
	.about =
		"Clients write their requests for other ranks into a ring of shared memory (delegrpc),\n"
		"from which a daemon takes them and sends them to the rank (copyrpc).\n",
	.make = owners_make,
	.make_daemon = make_daemon,
	.make_client = make_client,
	.open_daemon = open_daemon,
	.free_client = free_client,
	.call = call,
	.poll = poll_rings,
	.pending = pending,
	.wait = wait_ring,
	OWNERS_FIELDS,
};
