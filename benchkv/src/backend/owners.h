/* SPDX-License-Identifier: MIT */
/*
 * The common parts of the backends whose daemons own the endpoints. A rank has one copyrpc endpoint
 * for each other rank; daemon r mod --net-daemons owns the endpoint for rank r. This daemon serves
 * rank r's requests for its own shard, and passes those for other shards to their daemons by flux.
 */
#ifndef BENCHKV_OWNERS_H
#define BENCHKV_OWNERS_H

#include "flux.h"

#include "backend.h"

/* The fields of struct backend that all these backends have in common. */
#define OWNERS_FIELDS                                                                              \
	.owned = true, .copyrpc = true, .endpoints = owners_endpoints,                             \
	.why_endpoints =                                                                           \
		"one for each other rank; daemon r mod --net-daemons owns that of rank r",         \
	.connect = owners_connect, .serve = owners_serve

uint32_t owners_endpoints(const struct node *n);
int owners_make(struct node *n, char *why, int size);
int owners_connect(struct node *n, char *why, int size);

/* Channels between the daemons of a rank; none if there is one daemon. */
int owners_make_flux(const struct node *n, struct flux **flux_p, char *why, int size);

/*
 * Creates the state of a daemon that accepts its clients' requests for other ranks. It may own
 * endpoints, or pass the requests to the daemon that does.
 */
int owners_make_daemon(struct daemon *d);

/* Polls the endpoints that the daemon owns, if any. */
uint32_t owners_serve(struct daemon *d);

#endif
