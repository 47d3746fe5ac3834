/* SPDX-License-Identifier: MIT */
#include "endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 48

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

static int open_device(const struct node *n, struct network *net, char *why, int size)
{
	const struct copyrpc_ctx_attr attr = {.device = n->device,
		.max_endpoints = n->ranks - 1,
		.ring_size = n->ring_size,
		.max_pending = n->o->clients * n->o->queue_depth};
	int err = copyrpc_ctx_create(&attr, &net->ctx);

	if (err)
		snprintf(why, (size_t)size, "device %s: %s%s", n->device, strerror(-err),
			err == -EPERM || err == -ENOMEM ?
				"; raise the limit of locked memory (ulimit -l)" :
				"");
	return err;
}

static int make_endpoint(struct node *n, struct network *net, struct remote *r, char *why, int size)
{
	const struct copyrpc_ep_attr attr = {.user = r};
	unsigned char blob[COPYRPC_INFO_SIZE];
	char key[KEY_MAX];
	int err = copyrpc_ep_create(net->ctx, &attr, &r->ep);

	if (err)
		return say(why, size, err, "no endpoint for", r->rank);
	copyrpc_ep_info(r->ep, blob);
	address_key(key, r->rank);
	err = launch_put(n->launch, key, blob, sizeof(blob));
	return err ? say(why, size, err, "no address can be told to", r->rank) : 0;
}

static int connect_endpoint(struct node *n, struct remote *r, char *why, int size)
{
	char key[KEY_MAX];
	void *blob;
	size_t len;
	int err;

	address_key(key, n->rank);
	err = launch_get(n->launch, r->rank, key, n->o->timeout_ns, &blob, &len);
	if (err)
		return say(why, size, err, "no address of", r->rank);
	err = copyrpc_ep_connect(r->ep, blob, len);
	free(blob);
	return err ? say(why, size, err, "no connection to", r->rank) : 0;
}

int endpoints_connect(struct node *n, struct network *net, char *why, int size)
{
	int err = open_device(n, net, why, size);

	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = make_endpoint(n, net, &net->remotes[i], why, size);
	}
	if (err)
		return err;
	err = launch_fence(n->launch, n->o->timeout_ns);
	if (err)
		launch_explain(n->launch, err, n->o->timeout_ns, why, size);
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i != n->rank)
			err = connect_endpoint(n, &net->remotes[i], why, size);
	}
	return err;
}
