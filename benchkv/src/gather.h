/* SPDX-License-Identifier: MIT */
/*
 * Collects the results of all ranks at rank 0: each rank puts its own results, and rank 0 gets them
 * after the next fence.
 */
#ifndef BENCHKV_GATHER_H
#define BENCHKV_GATHER_H

#include "lifeline.h"
#include "node.h"
#include "result.h"

/* Called by all other ranks: puts the results, one per run, and of the daemons. 0 or -errno. */
int gather_tell(struct node *n, const struct result *runs, const struct result *daemons);

/* Sends the results so far over the lifeline, because the job ends early. 0 or -errno. */
int gather_send(struct lifeline *line, const struct result *runs, uint32_t n_runs,
	const struct result *daemons);

/*
 * Called by rank 0: adds the results of the other ranks to @runs and @daemons, which must contain
 * its own, and fills in @ranks: one result per rank, of all runs together. 0 or -errno.
 */
int gather_hear(struct node *n, struct result *runs, struct result *ranks, struct result *daemons);

/*
 * The same with the results that arrive over the lifeline within a short time. *n_runs_p becomes
 * the number of runs with any result; heard[rank]: all results of this rank have arrived.
 */
void gather_partial(struct node *n, struct lifeline *line, struct result *runs, uint32_t *n_runs_p,
	struct result *ranks, struct result *daemons, bool *heard);

#endif
