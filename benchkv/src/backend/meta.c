/* SPDX-License-Identifier: MIT */
/*
 * A client sends its request for another rank to its own rank's daemon with the number of the key's
 * shard (shmipc), as if the key were of its own rank. This daemon passes the request to the daemon
 * that owns the endpoint for the other rank (flux).
 */
#include "client.h"
#include "daemon.h"
#include "owners.h"

/*
 * Requests for other ranks have flux channels of their own (n->relay). If they used the channels of
 * the requests from other ranks (n->flux), they could take up all the room there while they wait
 * for replies. Two ranks could then wait for each other for ever.
 */
static int make(struct node *n, char *why, int size)
{
	int err = owners_make(n, why, size);

	return err ? err : owners_make_flux(n, &n->relay, why, size);
}

static int make_daemon(struct daemon *d)
{
	d->takes_errands = true;
	return owners_make_daemon(d);
}

static int call(struct client *c, uint32_t shard, const struct kv_req *req)
{
	return shmipc_client_call(c->ipc[shard], req, sizeof(*req), req->seq);
}

const struct backend backend_meta = {
	.name = "meta",
	.brief = "client, shmipc, daemon, flux, the rank's daemon, copyrpc",
	.about =
		"Clients give their requests for other ranks to the daemon with the number of the\n"
		"key's shard (shmipc). It passes them to the daemon with the endpoint of the rank\n"
		"(flux), which sends them to the rank (copyrpc).\n",
	.all_own = true,
	.make = make,
	.make_daemon = make_daemon,
	.call = call,
	OWNERS_FIELDS,
};
