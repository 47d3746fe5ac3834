/* SPDX-License-Identifier: MIT */
/*
 * The one thread of this process that waits for the timers of its QPs (hca/timer.h). It
 * sleeps unless a QP backs off (RNR, transport timeouts) or another process rings because
 * a QP has to be flushed that nobody else can flush.
 */
#ifndef SOFTHCA_SCHED_SCHED_H
#define SOFTHCA_SCHED_SCHED_H

/* Starts the thread if it does not run. There is none in step mode. Returns 0 or -errno. */
int sched_start(void);

/* In a forked child: forgets the thread, which the child does not have. */
void sched_forget(void);

/* Serves the timers that are due. */
void sched_serve(void);

#endif
