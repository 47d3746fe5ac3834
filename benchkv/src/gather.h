/* SPDX-License-Identifier: MIT */
/*
 * The results of all ranks come to rank 0: each rank puts its own, and rank 0 gets them after the
 * next fence.
 */
#ifndef BENCHKV_GATHER_H
#define BENCHKV_GATHER_H

#include "lifeline.h"
#include "node.h"
#include "result.h"

/* A rank: tells its results, one per run, and what its daemons did. 0 or -errno. */
int gather_tell(struct node *n, const struct result *runs, const struct result *daemons);

/* The same by the lifeline, of the runs that there are: a job ends before its end. */
int gather_send(struct lifeline *line, const struct result *runs, uint32_t n_runs,
	const struct result *daemons);

/*
 * Rank 0: adds what the others have told to runs and daemons, which have its own, and fills in
 * ranks: of all runs together, one per rank. 0 or -errno.
 */
int gather_hear(struct node *n, struct result *runs, struct result *ranks, struct result *daemons);

/*
 * The same of what comes by the lifeline in a short time. *n_runs_p becomes the number of runs of
 * which there is something; heard[rank]: all that this rank has was heard.
 */
void gather_partial(struct node *n, struct lifeline *line, struct result *runs, uint32_t *n_runs_p,
	struct result *ranks, struct result *daemons, bool *heard);

#endif
