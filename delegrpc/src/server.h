/* SPDX-License-Identifier: MIT */
/* The complete state of a server. */
#ifndef DELEGRPC_SERVER_H
#define DELEGRPC_SERVER_H

#include "internal.h"

/* The search for holes; see holes.c. */
struct sweep {
	uint64_t limit; /* the clients checked so far, if alive, fill no position less than this */
	uint32_t next; /* client to check next */
	bool begun;
};

struct server {
	struct delegrpc_server hot; /* first */
	struct waiter w;
	struct delegrpc_attr attr;
	struct delegrpc_header *header;
	struct delegrpc_line *lines;
	struct sweep sweep;
	uint64_t void_end; /* positions less than this that are not filled are holes */
	uint32_t met; /* clients with a smaller index have sent requests */
	uint32_t busy_polls; /* value that hot.busy starts from */
	uint64_t looked_ns, yielded_ns;
	uint64_t stale, holes, looks, yields;
};

static inline struct server *server_of(struct delegrpc_server *server)
{
	return container_of(server, struct server, hot);
}

/*
 * Call it if the next position is not filled. If no client will fill that position, moves the
 * cursor over it and gives it back. Returns 1 if there is more to do immediately, 0, or -EPROTO,
 * which all later polls return.
 */
int skip_holes(struct server *s);

#endif
