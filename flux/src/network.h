/* SPDX-License-Identifier: MIT */
/* The network, for the library's own source files. */
#ifndef FLUX_NETWORK_H
#define FLUX_NETWORK_H

#pragma GCC visibility push(default)
#include "flux.h"
#pragma GCC visibility pop

#include <stdbool.h>

#include "base/live.h"
#include "base/wakefd.h"

/* The nodes that flux_left() has returned to a node. Private to the node's thread. */
struct told {
	bool asks; /* the node has called flux_left() */
	uint32_t n;
	uint64_t nodes[FLUX_WORDS]; /* bitmap */
};

/* One mapping holds this struct, a block of pages per node, and the rings. */
struct flux {
	struct flux_attr attr;
	size_t bytes;
	struct flux_node *node[FLUX_MAX_NODES];
	struct flux_shared *shared[FLUX_MAX_NODES]; /* by node; so are the next three */
	struct wakefd wake[FLUX_MAX_NODES];
	struct told told[FLUX_MAX_NODES];
	struct live_record *live[FLUX_MAX_NODES];
	FLUX_LINE uint32_t departures; /* number of nodes that have left */
};

/*
 * Pairs with the store in flux_leave(). If this load misses the store, the node still sends its
 * message. If it is a call, flux_poll() ends it; if it is a response, nobody reads it.
 */
static inline bool has_left(const struct flux_shared *peer)
{
	return __atomic_load_n(&peer->left, __ATOMIC_RELAXED);
}

/* Publishes and closes all open bursts. */
void bursts_end(struct flux_node *node);

/* Publishes the answers of a turn that ends, which must be in this burst. Counts an event. */
void burst_turn_ends(struct flux_node *node, struct flux_burst *b);

/* Returns the number of messages that are not published yet. Only assertions call it. */
uint32_t bursts_collected(const struct flux_node *node);

#endif
