/* SPDX-License-Identifier: MIT */
/*
 * benchkv with a fifth backend, `owner`: a client sends a request for another rank by shmipc to the
 * daemon that owns the endpoint for that rank. A backend needs only this file and its line in the
 * list below (which replaces that of benchkv by ld --wrap).
 */
#include "backend/owners.h"
#include "client.h"
#include "daemon.h"

static int make_daemon(struct daemon *d)
{
	d->takes_errands = true;
	return owners_make_daemon(d);
}

static int call(struct client *c, uint32_t shard, const struct kv_req *req)
{
	return shmipc_client_call(c->ipc[node_owner(c->node, req->rank)], req, sizeof(*req),
		req->seq);
}

static const struct backend backend_owner = {
	.name = "owner",
	.brief = "client, shmipc, daemon, copyrpc",
	.about = "Clients give their requests for other ranks to the daemon of the endpoint.\n",
	.make = owners_make,
	.make_daemon = make_daemon,
	.call = call,
	OWNERS_FIELDS,
};

extern const struct backend *const __wrap_backends[];

const struct backend *const __wrap_backends[] = {
	&backend_owner,
	NULL,
};
