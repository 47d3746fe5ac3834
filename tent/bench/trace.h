/* SPDX-License-Identifier: MIT */
/* A thread that regularly writes the byte count, state and outages of each rail, as CSV. */
#ifndef TENTBENCH_TRACE_H
#define TENTBENCH_TRACE_H

#include "tent.h"

struct trace;

/* 0 or -errno. The caller must call trace_stop() before it releases the segment. */
int trace_start(struct tent_segment *s, FILE *out, struct trace **trace_p);
/* NULL is allowed. The caller checks the file for errors. */
void trace_stop(struct trace *t);

#endif
