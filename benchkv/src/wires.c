/* SPDX-License-Identifier: MIT */
#include "wires.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "values.h"
#include "why.h"

/* Published with the number of the rank that will read these addresses of endpoints. */
#define KEY_ENDPOINTS "endpoint"

struct wires {
	struct node *n;
	wires_make_fn *make;
	uint32_t per_rank;
	struct copyrpc_ep **ep; /* per_rank for each rank */
	unsigned char *blobs; /* the addresses of a rank's endpoints */
	size_t len; /* bytes of these addresses */
};

int wires_open_context(const struct node *n, uint32_t endpoints, uint32_t pending,
	struct copyrpc_ctx **ctx_p, char *why, int size)
{
	const struct copyrpc_ctx_attr attr = {.device = n->device,
		.max_endpoints = endpoints,
		.ring_size = n->ring_size,
		.max_pending = pending,
		.probe_ms = (uint32_t)(n->o->timeout_ns / NSEC_PER_MSEC)};
	int err = copyrpc_ctx_create(&attr, ctx_p);

	if (!err && n->values)
		err = values_register(n->values, *ctx_p);
	if (err)
		snprintf(why, (size_t)size, "device %s: %s%s", n->device, strerror(-err),
			err == -EPERM || err == -ENOMEM ?
				"; raise the limit of locked memory (ulimit -l)" :
				"");
	return err;
}

/* Makes the endpoints for a rank, and publishes their addresses for it. */
static int make_endpoints(struct wires *w, uint32_t rank, char *why, int size)
{
	struct copyrpc_ep **ep = &w->ep[(size_t)rank * w->per_rank];
	int err = 0;

	for (uint32_t i = 0; !err && i < w->per_rank; i++) {
		err = w->make(w->n, rank, i, &ep[i]);
		if (!err)
			copyrpc_ep_info(ep[i], w->blobs + (size_t)i * COPYRPC_INFO_SIZE);
	}
	if (err)
		return why_failed(why, size, err, "no endpoint for rank %u", rank);
	err = launch_put(w->n->launch, KEY_ENDPOINTS, rank, w->blobs, w->len);
	return err ? why_failed(why, size, err, "no address can be published for rank %u", rank) :
		     0;
}

static int connect_endpoints(struct wires *w, uint32_t rank, char *why, int size)
{
	struct node *n = w->n;
	int err = launch_get_struct(n->launch, rank, KEY_ENDPOINTS, n->rank, n->o->timeout_ns,
		w->blobs, w->len);

	if (err)
		return why_failed(why, size, err, "no address of rank %u", rank);
	for (uint32_t i = 0; !err && i < w->per_rank; i++) {
		uint32_t peer = (i + w->per_rank / 2) % w->per_rank;

		err = copyrpc_ep_connect(w->ep[(size_t)rank * w->per_rank + i],
			w->blobs + (size_t)peer * COPYRPC_INFO_SIZE, COPYRPC_INFO_SIZE);
	}
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

int wires_connect(struct node *n, wires_make_fn *make, uint32_t per_rank, char *why, int size)
{
	size_t len = (size_t)per_rank * COPYRPC_INFO_SIZE;
	struct wires w = {.n = n,
		.make = make,
		.per_rank = per_rank,
		.ep = calloc((size_t)n->ranks * per_rank, sizeof(struct copyrpc_ep *)),
		.blobs = malloc(len),
		.len = len};
	int err = w.ep && w.blobs ? connect_all(&w, why, size) : -ENOMEM;

	free(w.blobs);
	free((void *)w.ep);
	return err;
}
