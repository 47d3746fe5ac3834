/* SPDX-License-Identifier: MIT */
/* What each rail has carried over time, as CSV: a thread that looks now and then. */
#ifndef TENTBENCH_TRACE_H
#define TENTBENCH_TRACE_H

#include "tent.h"

struct trace;

/* 0 or -errno. Ends with trace_stop(), before the segment does. */
int trace_start(struct tent_segment *s, const char *path, struct trace **trace_p);
/* 0 or -errno of what was written. NULL is fine. */
int trace_stop(struct trace *t);

#endif
