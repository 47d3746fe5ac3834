/* SPDX-License-Identifier: MIT */
/* How the results of all ranks come to rank 0: told by each, heard after the next fence. */
#ifndef BENCHKV_GATHER_H
#define BENCHKV_GATHER_H

#include "node.h"
#include "result.h"

/* A rank: tells its results, one per run, and what its daemons did. 0 or -errno. */
int gather_tell(struct node *n, const struct result *runs, const struct result *daemons);

/*
 * Rank 0: adds what the others have told to runs and daemons, which have its own, and fills in
 * ranks: of all runs together, one per rank. 0 or -errno.
 */
int gather_hear(struct node *n, struct result *runs, struct result *ranks, struct result *daemons);

#endif
