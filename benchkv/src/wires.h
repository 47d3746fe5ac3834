/* SPDX-License-Identifier: MIT */
/*
 * Connects copyrpc endpoints of this rank with those of the other ranks. The ranks exchange the
 * addresses through the launcher.
 */
#ifndef BENCHKV_WIRES_H
#define BENCHKV_WIRES_H

#include "copyrpc.h"
#include "node.h"

/* Makes the endpoint number @i, from 0, to @rank. */
typedef int wires_make_fn(struct node *n, uint32_t rank, uint32_t i, struct copyrpc_ep **ep_p);

/* Opens a context with room for @endpoints endpoints, each with @pending pending calls. */
int wires_open_context(const struct node *n, uint32_t endpoints, uint32_t pending,
	struct copyrpc_ctx **ctx_p, char *why, int size);

/*
 * Makes @per_rank endpoints for each other rank, and connects the first half of them with the
 * second half of the other rank's endpoints, and the second half with the first. If @per_rank is 1,
 * connects the single endpoints of both ranks. All ranks of the job must call it.
 */
int wires_connect(struct node *n, wires_make_fn *make, uint32_t per_rank, char *why, int size);

#endif
