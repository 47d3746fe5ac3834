/* SPDX-License-Identifier: MIT */
/* The complete state of a client. */
#ifndef DELEGRPC_CLIENT_H
#define DELEGRPC_CLIENT_H

#include "internal.h"

struct client {
	struct delegrpc_client hot; /* first */
	struct waiter w;
	struct delegrpc_attr attr;
	struct delegrpc_control *control;
	unsigned char *requests;
	uint32_t ring_shift;
	uint32_t id;
	bool watch; /* the ring can be full, or our predecessor's requests may be in it */
	bool admitted; /* our predecessor's requests have been given back */
	uint64_t start; /* value of head when we connected */
	uint64_t limit; /* a batch may be reserved if at most so many positions are in use */
	uint64_t tail; /* last value read from the region */
	uint64_t last; /* the position after our last reservation */
	uint64_t late, bad, flushes, full;
};

static inline struct client *client_of(struct delegrpc_client *client)
{
	return container_of(client, struct client, hot);
}

#endif
