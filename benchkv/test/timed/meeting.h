/* SPDX-License-Identifier: MIT */
/* The ranks of a job that are all in this process, instead of processes of a launcher. */
#ifndef BENCHKV_TIMED_MEETING_H
#define BENCHKV_TIMED_MEETING_H

#include "launch.h"

/* Fills in ranks[0 .. n - 1], which are a job until meeting_end(). */
void meeting_begin(struct launch *ranks, uint32_t n);
void meeting_end(void);

#endif
