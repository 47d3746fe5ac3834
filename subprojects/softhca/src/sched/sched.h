/* SPDX-License-Identifier: MIT */
/*
 * The adapter's thread: a process has one, beside the program's threads, for all its adapters. It
 * sleeps until a timer of a QP (hca/timer.h) is due (RNR, transport timeouts), or until another
 * process wakes it, because only this process can flush its QPs. In the modes poll and auto, it
 * also executes doorbells: a doorbell wakes the thread, which then spins while doorbells are rung.
 */
#ifndef SOFTHCA_SCHED_SCHED_H
#define SOFTHCA_SCHED_SCHED_H

#include <stdint.h>

/*
 * Starts the thread if it does not run. Step mode has none. Returns 0 or -errno. The caller must
 * not hold the mutex (see sys/thread.h).
 */
int sched_start(void);

/* Must be called in a forked child. Forgets the thread, which the child does not have. */
void sched_forget(void);

/*
 * To be called after a store to a page behind @door has trapped and was executed: may wake the
 * thread, so that it spins. Signal safe.
 */
void sched_rung(uint32_t door);

/* Locks the fabric and serves the timers that are due. */
void sched_serve(void);

#endif
