/* SPDX-License-Identifier: MIT */
/* The complete state of a server. */
#ifndef DELEGRPC_SERVER_H
#define DELEGRPC_SERVER_H

#include "base/members.h"
#include "internal.h"

static_assert(CLIENT_BYTE(7) == MEMBER_BYTE(7), "the same");

/* The search for holes; see holes.c. */
struct sweep {
	uint64_t limit; /* the clients checked so far, if alive, fill no position less than this */
	uint32_t next; /* client to check next */
	bool begun;
};

/* The search for clients that came or ended; see guests.c. */
struct guests {
	struct guest *of; /* by index, if the server takes events */
	uint32_t seen; /* last value read from header->changes */
	uint32_t leaving; /* clients that have ended but whose requests are not all received */
	uint32_t calls; /* since the last reading of the clock */
	uint32_t next; /* client whose lock is tested next */
	uint64_t tested_ns; /* time of the last tests of locks */
};

struct server {
	struct delegrpc_server hot; /* the first member */
	struct waiter w;
	struct delegrpc_attr attr;
	struct delegrpc_header *header;
	struct delegrpc_line *lines;
	struct sweep sweep;
	uint64_t void_end; /* positions less than this that are not filled are holes */
	uint32_t met; /* greatest index of a client that has sent requests, plus 1 */
	uint32_t busy_polls; /* value that hot.busy starts from */
	uint64_t looked_ns, yielded_ns;
	uint64_t stale, holes, looks, yields;
	uint64_t bursts, collected; /* published bursts of collected replies; replies in them */
	struct members members;
	struct guests guests;
};

static inline struct server *server_of(struct delegrpc_server *server)
{
	return container_of(server, struct server, hot);
}

/*
 * Called when the server has found nothing. If the next positions are holes (holes.c), moves the
 * cursor over them, and gives them back if all earlier positions have been given back. Returns 1 if
 * there is more to do immediately, 0 if not, or -EPROTO, which all later polls return as well.
 */
int skip_holes(struct server *s);

/* Allocates the memory that a server needs for events. Returns 0 or -ENOMEM. */
int guests_init(struct server *s);

/*
 * Looks for clients that came or ended. Tests the locks of some clients as well, to find dead ones,
 * if the last such test was at least 10 ms ago. With @sleeps each call reads the clock for that,
 * otherwise each 64th call does. Returns true if there are events.
 */
bool guests_look(struct server *s, bool sleeps);

#endif
