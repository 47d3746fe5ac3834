/* SPDX-License-Identifier: MIT */
/* Collects the results of all ranks at rank 0. */
#ifndef BENCHKV_GATHER_H
#define BENCHKV_GATHER_H

#include "meet.h"

/*
 * Called by all ranks except rank 0: passes j->runs and j->daemons to rank 0. If @line is NULL,
 * rank 0 can get them after the next fence. In a job that ends early, @line is the lifeline, which
 * carries them. Returns 0 or -errno.
 */
int gather_tell(struct job *j, struct lifeline *line);

/*
 * Called by rank 0: adds the results of the other ranks to j->runs and j->daemons, and fills in
 * j->ranks and j->heard. Returns 0 or -errno.
 */
int gather_hear(struct job *j);

/*
 * Does the same with the results that arrive over the lifeline within a short time. Raises j->begun
 * to the number of runs for which a rank has a result.
 */
void gather_partial(struct job *j);

#endif
