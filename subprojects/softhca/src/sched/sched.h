/* SPDX-License-Identifier: MIT */
/*
 * The one thread of this process that waits for the timers of its QPs (hca/timer.h). It sleeps
 * until a timer is due (RNR, transport timeouts), or until another process wakes it, because only
 * this process can flush a QP.
 */
#ifndef SOFTHCA_SCHED_SCHED_H
#define SOFTHCA_SCHED_SCHED_H

/* Starts the thread if it does not run; does nothing in step mode. Returns 0 or -errno. */
int sched_start(void);

/* In a forked child: forgets the thread, which the child does not have. */
void sched_forget(void);

/* Serves the timers that are due. */
void sched_serve(void);

#endif
