/* SPDX-License-Identifier: MIT */
#include "wires.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

#define KEY_MAX 48

struct wires {
	struct node *n;
	const struct wires_kind *kind;
	uint32_t per_rank;
	struct copyrpc_ep **ep; /* per_rank for each rank */
};

/* The key under which a rank tells another one how to reach it. */
static void address_key(char key[KEY_MAX], uint32_t to)
{
	snprintf(key, KEY_MAX, "benchkv.endpoint.%u", to);
}

int wires_open_context(const struct node *n, uint32_t endpoints, uint32_t pending,
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

static int make_endpoint(struct wires *w, uint32_t rank, uint32_t i, void *blob)
{
	struct copyrpc_ep **ep_p = &w->ep[(size_t)rank * w->per_rank + i];
	int err = w->kind->make(w->n, rank, i, ep_p);

	if (!err)
		copyrpc_ep_info(*ep_p, blob);
	return err;
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
		return why_failed(why, size, err, "no endpoint for rank %u", rank);
	}
	address_key(key, rank);
	err = launch_put(w->n->launch, key, blobs, len);
	free(blobs);
	return err ? why_failed(why, size, err, "no address can be told to rank %u", rank) : 0;
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
		return why_failed(why, size, err, "no address of rank %u", rank);
	blobs = data;
	if (len != (size_t)w->per_rank * COPYRPC_INFO_SIZE)
		err = -EPROTO;
	for (uint32_t i = 0; !err && i < w->per_rank; i++)
		err = copyrpc_ep_connect(w->ep[(size_t)rank * w->per_rank + i],
			blobs + (size_t)w->kind->counterpart(n, i) * COPYRPC_INFO_SIZE,
			COPYRPC_INFO_SIZE);
	free(data);
	return err ? why_failed(why, size, err, "no connection to rank %u", rank) : 0;
}

static int connect_all(struct wires *w, char *why, int size)
{
	struct node *n = w->n;
	int err = 0;

	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = make_endpoints(w, i, why, size);
	}
	if (!err)
		err = launch_meet(n->launch, n->o->timeout_ns, why, size);
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = connect_endpoints(w, i, why, size);
	}
	return err;
}

int wires_connect(struct node *n, const struct wires_kind *kind, uint32_t per_rank, char *why,
	int size)
{
	struct wires w = {.n = n, .kind = kind, .per_rank = per_rank};
	int err;

	w.ep = calloc((size_t)n->ranks * per_rank, sizeof(struct copyrpc_ep *));
	if (!w.ep)
		return -ENOMEM;
	err = connect_all(&w, why, size);
	free((void *)w.ep);
	return err;
}
