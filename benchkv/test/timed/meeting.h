/* SPDX-License-Identifier: MIT */
/* The ranks of a job, all in this process, instead of what a launcher has started. */
#ifndef BENCHKV_TIMED_MEETING_H
#define BENCHKV_TIMED_MEETING_H

#include "launch.h"

struct launch {
	uint32_t rank;
};

/* Fills in ranks[0 .. n - 1]. Until meeting_end() they are a job. */
void meeting_begin(struct launch *ranks, uint32_t n);
void meeting_end(void);

#endif
