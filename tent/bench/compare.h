/* SPDX-License-Identifier: MIT */
/* The rows of --peer: tent and its peers (other methods) make writes of the same size in turn. */
#ifndef TENTBENCH_COMPARE_H
#define TENTBENCH_COMPARE_H

#include <sys/types.h>

#include "row.h"
#include "ucx.h"

/*
 * For each size, tent and the peers in the options have turns of several writes of this size, one
 * at a time. Writes an object per size to @json (NULL: none), and prints a row per size unless
 * @json is stdout. Returns the exit status.
 * @server: the server's process id; @u: NULL if UCX is no peer.
 */
int compare_rows(struct tent *t, struct tent_segment *s, const struct move_options *o,
	const struct row_memory *m, pid_t server, struct ucx *u, FILE *json);

#endif
