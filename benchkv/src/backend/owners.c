/* SPDX-License-Identifier: MIT */
#include "owners.h"

#include "base/clock.h"
#include "daemon.h"
#include "why.h"
#include "wires.h"

uint32_t owners_endpoints(const struct node *n)
{
	return n->ranks - 1;
}

int owners_make_flux(const struct node *n, struct flux **flux_p, char *why, int size)
{
	const struct flux_attr attr = {.nodes = n->o->daemons,
		.payload_size = n->values ? sizeof(struct forwarded) : sizeof(struct kv_req)};
	int err = n->o->daemons > 1 ? flux_create(&attr, flux_p) : 0;

	return err ? why_failed(why, size, err, "the channels between the daemons") : 0;
}

int owners_make(struct node *n, char *why, int size)
{
	return owners_make_flux(n, &n->flux, why, size);
}

int owners_make_daemon(struct daemon *d)
{
	struct node *n = d->node;
	uint32_t requests = n->o->clients * n->o->queue_depth;
	int err = network_init(&d->net, n);

	d->sees_ranks = true;
	control_limit(&d->net.control, requests, n->o->net_daemons, node_endpoints(n, d->index),
		n->ranks - 1);
	if (!err)
		err = errands_init(&d->errands, requests, n->ranks);
	if (!err && n->o->files[FILE_TRACE])
		err = trace_init(&d->trace);
	if (!err && n->o->files[FILE_DECISIONS]) {
		err = decisions_init(&d->decisions, clock_ns());
		d->net.control.log = &d->decisions;
	}
	return err;
}

uint32_t owners_serve(struct daemon *d)
{
	return d->net.ctx ? network_poll(d) : 0;
}

/* ---- endpoints ---- */

static int open_contexts(struct node *n, char *why, int size)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < n->o->daemons; i++) {
		if (node_endpoints(n, i))
			err = wires_open_context(n, n->ranks - 1, n->o->clients * n->o->queue_depth,
				&n->daemons[i].net.ctx, why, size);
	}
	return err;
}

static int make_endpoint(struct node *n, uint32_t rank, uint32_t i, struct copyrpc_ep **ep_p)
{
	struct network *net = &n->daemons[node_owner(n, rank)].net;
	const struct copyrpc_ep_attr attr = {.user = &net->remotes[rank]};
	int err = copyrpc_ep_create(net->ctx, &attr, ep_p);

	if (!err)
		net->remotes[rank].ep = *ep_p;
	return err;
}

int owners_connect(struct node *n, char *why, int size)
{
	int err = open_contexts(n, why, size);

	return err ? err : wires_connect(n, make_endpoint, 1, why, size);
}
