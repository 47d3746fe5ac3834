/* SPDX-License-Identifier: MIT */
#include "endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "daemon.h"

#define KEY_MAX 48

/*
 * A rank's endpoints for another one, in an order that both know. delegation, meta: the one of
 * the daemon that owns it. direct: those of each client for each daemon there, client by
 * client; then those of our daemons for each client there, in the order of their clients.
 */
struct wires {
	struct node *n;
	uint32_t links; /* of clients of one side and daemons of the other */
	uint32_t per_rank;
	struct copyrpc_ep **ep; /* per_rank for each rank */
};

/* The key under which a rank tells another one how to reach it. */
static void address_key(char key[KEY_MAX], uint32_t to)
{
	snprintf(key, KEY_MAX, "benchkv.endpoint.%u", to);
}

static int say(char *why, int size, int err, const char *what, uint32_t rank)
{
	snprintf(why, (size_t)size, "%s rank %u: %s", what, rank, strerror(-err));
	return err;
}

static bool is_direct(const struct node *n)
{
	return n->o->backend == BACKEND_DIRECT;
}

/* ---- contexts ---- */

static int open_context(const struct node *n, uint32_t endpoints, uint32_t pending,
	struct copyrpc_ctx **ctx_p, char *why, int size)
{
	const struct copyrpc_ctx_attr attr = {.device = n->device,
		.max_endpoints = endpoints,
		.ring_size = n->ring_size,
		.max_pending = pending};
	int err = copyrpc_ctx_create(&attr, ctx_p);

	if (err)
		snprintf(why, (size_t)size, "device %s: %s%s", n->device, strerror(-err),
			err == -EPERM || err == -ENOMEM ?
				"; raise the limit of locked memory (ulimit -l)" :
				"");
	return err;
}

static int open_contexts(struct node *n, char *why, int size)
{
	uint32_t clients = n->o->clients, depth = n->o->queue_depth, others = n->ranks - 1;
	bool direct = is_direct(n);
	int err = 0;

	for (uint32_t i = 0; !err && i < n->o->daemons; i++) {
		struct copyrpc_ctx **ctx_p = &n->daemons[i].net.ctx;

		if (direct)
			err = open_context(n, others * clients, depth, ctx_p, why, size);
		else if (node_owns_endpoints(n, i))
			err = open_context(n, others, clients * depth, ctx_p, why, size);
	}
	for (uint32_t i = 0; direct && !err && i < clients; i++)
		err = open_context(n, others * n->o->daemons, depth, &n->clients[i].direct.ctx, why,
			size);
	return err;
}

/* ---- endpoints ---- */

/* The context of the i-th endpoint for that rank. */
static struct copyrpc_ctx *ctx_of(const struct wires *w, uint32_t rank, uint32_t i)
{
	const struct node *n = w->n;

	if (!is_direct(n))
		return n->daemons[node_owner(n, rank)].net.ctx;
	if (i < w->links)
		return n->clients[i / n->o->daemons].direct.ctx;
	return n->daemons[i % n->o->daemons].net.ctx;
}

/* Hands it to who uses it; a daemon's endpoints for clients are found by what comes in. */
static void place_endpoint(const struct wires *w, uint32_t rank, uint32_t i, struct copyrpc_ep *ep)
{
	const struct node *n = w->n;

	if (!is_direct(n))
		n->daemons[node_owner(n, rank)].net.remotes[rank].ep = ep;
	else if (i < w->links)
		*direct_ep(&n->clients[i / n->o->daemons].direct, rank, i % n->o->daemons) = ep;
}

static int make_endpoint(struct wires *w, uint32_t rank, uint32_t i, void *blob)
{
	struct node *n = w->n;
	struct copyrpc_ep **ep_p = &w->ep[(size_t)rank * w->per_rank + i];
	const struct copyrpc_ep_attr attr = {
		.user = is_direct(n) ? NULL : &n->daemons[node_owner(n, rank)].net.remotes[rank]};
	int err = copyrpc_ep_create(ctx_of(w, rank, i), &attr, ep_p);

	if (err)
		return err;
	copyrpc_ep_info(*ep_p, blob);
	place_endpoint(w, rank, i, *ep_p);
	return 0;
}

/* Makes the endpoints for a rank, and tells it how to reach them. */
static int make_endpoints(struct wires *w, uint32_t rank, char *why, int size)
{
	size_t len = (size_t)w->per_rank * COPYRPC_INFO_SIZE;
	unsigned char *blobs = malloc(len);
	char key[KEY_MAX];
	int err = blobs ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < w->per_rank; i++)
		err = make_endpoint(w, rank, i, blobs + (size_t)i * COPYRPC_INFO_SIZE);
	if (err) {
		free(blobs);
		return say(why, size, err, "no endpoint for", rank);
	}
	address_key(key, rank);
	err = launch_put(w->n->launch, key, blobs, len);
	free(blobs);
	return err ? say(why, size, err, "no address can be told to", rank) : 0;
}

/* Which endpoint of the other side is for our i-th. */
static uint32_t counterpart(const struct wires *w, uint32_t i)
{
	if (!is_direct(w->n))
		return i;
	return i < w->links ? i + w->links : i - w->links;
}

static int connect_endpoints(struct wires *w, uint32_t rank, char *why, int size)
{
	struct node *n = w->n;
	char key[KEY_MAX];
	unsigned char *blobs;
	void *data;
	size_t len;
	int err;

	address_key(key, n->rank);
	err = launch_get(n->launch, rank, key, n->o->timeout_ns, &data, &len);
	if (err)
		return say(why, size, err, "no address of", rank);
	blobs = data;
	if (len != (size_t)w->per_rank * COPYRPC_INFO_SIZE)
		err = -EPROTO;
	for (uint32_t i = 0; !err && i < w->per_rank; i++)
		err = copyrpc_ep_connect(w->ep[(size_t)rank * w->per_rank + i],
			blobs + (size_t)counterpart(w, i) * COPYRPC_INFO_SIZE, COPYRPC_INFO_SIZE);
	free(data);
	return err ? say(why, size, err, "no connection to", rank) : 0;
}

static int connect_all(struct wires *w, char *why, int size)
{
	struct node *n = w->n;
	int err = open_contexts(n, why, size);

	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = make_endpoints(w, i, why, size);
	}
	if (err)
		return err;
	err = launch_fence(n->launch, n->o->timeout_ns);
	if (err)
		launch_explain(n->launch, err, n->o->timeout_ns, why, size);
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = connect_endpoints(w, i, why, size);
	}
	return err;
}

/* ---- UCX ---- */

static void worker_key(char key[KEY_MAX], uint32_t daemon)
{
	snprintf(key, KEY_MAX, "benchkv.worker.%u", daemon);
}

static int tell_worker(struct node *n, uint32_t daemon)
{
	struct daemon *d = &n->daemons[daemon];
	char key[KEY_MAX];
	void *address;
	size_t len;
	int err = ucx_server_open(n->ucx, d, &d->ucx);

	if (!err)
		err = ucx_server_address(d->ucx, &address, &len);
	if (err)
		return err;
	worker_key(key, daemon);
	err = launch_put(n->launch, key, address, len);
	free(address);
	return err;
}

/* The clients' endpoints for that daemon of that rank. */
static int hear_worker(struct node *n, uint32_t rank, uint32_t daemon)
{
	char key[KEY_MAX];
	void *address;
	size_t len;
	int err;

	worker_key(key, daemon);
	err = launch_get(n->launch, rank, key, n->o->timeout_ns, &address, &len);
	if (err)
		return err;
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = ucx_client_connect(n->clients[i].ucx, rank, daemon, address);
	free(address);
	return err;
}

static int connect_ucx(struct node *n, char *why, int size)
{
	int err = ucx_net_open(n->device, &n->ucx);

	for (uint32_t i = 0; !err && i < n->o->daemons; i++)
		err = tell_worker(n, i);
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = ucx_client_open(n->ucx, &n->clients[i], &n->clients[i].ucx);
	if (err) {
		snprintf(why, (size_t)size, "UCX on device %s: %s", n->device, strerror(-err));
		return err;
	}
	err = launch_fence(n->launch, n->o->timeout_ns);
	if (err)
		launch_explain(n->launch, err, n->o->timeout_ns, why, size);
	for (uint32_t i = 0; !err && i < n->ranks * n->o->daemons; i++) {
		uint32_t rank = i / n->o->daemons;

		if (rank == n->rank)
			continue;
		err = hear_worker(n, rank, i % n->o->daemons);
		if (err)
			return say(why, size, err, "no UCX endpoint for", rank);
	}
	return err;
}

int endpoints_connect(struct node *n, char *why, int size)
{
	struct wires w = {.n = n, .links = n->o->clients * n->o->daemons};
	int err;

	if (n->o->backend == BACKEND_UCX)
		return connect_ucx(n, why, size);
	w.per_rank = is_direct(n) ? 2 * w.links : 1;
	w.ep = calloc((size_t)n->ranks * w.per_rank, sizeof(struct copyrpc_ep *));
	if (!w.ep)
		return -ENOMEM;
	err = connect_all(&w, why, size);
	free((void *)w.ep);
	return err;
}
