/* SPDX-License-Identifier: MIT */
/*
 * Connects copyrpc endpoints of this rank with those of the other ranks. The ranks exchange the
 * addresses through the launcher.
 */
#ifndef BENCHKV_WIRES_H
#define BENCHKV_WIRES_H

#include "copyrpc.h"
#include "node.h"

/*
 * A backend's functions for its endpoints to other ranks. The endpoints to each rank are numbered
 * from 0.
 */
struct wires_kind {
	/* Makes the endpoint number @i to @rank. */
	int (*make)(struct node *n, uint32_t rank, uint32_t i, struct copyrpc_ep **ep_p);
	/*
	 * Returns the number of the peer's endpoint to which this rank's endpoint @i is connected.
	 */
	uint32_t (*counterpart)(const struct node *n, uint32_t i);
};

/* Opens a context with room for @endpoints endpoints, each with @pending pending calls. */
int wires_open_context(const struct node *n, uint32_t endpoints, uint32_t pending,
	struct copyrpc_ctx **ctx_p, char *why, int size);

/* Makes and connects @per_rank endpoints for each other rank. All ranks of the job must call it. */
int wires_connect(struct node *n, const struct wires_kind *kind, uint32_t per_rank, char *why,
	int size);

#endif
