/* SPDX-License-Identifier: MIT */
/*
 * Timers of this process's QPs, one each. The adapter's thread (sched/sched.h) serves them. The
 * caller of each function below timer_now(), except timer_ring() and timer_forget(), must hold the
 * fabric's mutex. All functions are signal safe.
 *
 * Among expired timers, the one whose message has waited longest is served first, so that no QP
 * starves if several QPs wait for the receives of one queue. If the order were that of the QPs or
 * of the expiry times, the same QP could always be the first.
 */
#ifndef SOFTHCA_HCA_TIMER_H
#define SOFTHCA_HCA_TIMER_H

#include <stdint.h>

#include "fabric/fabric.h"

/*
 * Returns the futex on which a process's thread sleeps. It counts the calls of timer_ring(), which
 * timer_wait() calls, too.
 */
static inline uint32_t *timer_bell(uint32_t slot)
{
	return &arena()->procs[slot].bell;
}

/* Returns the time of CLOCK_MONOTONIC in ns. */
uint64_t timer_now(void);

/* Sets the timer of @qp, a QP of this process: xport_send() is called for it at @when. */
void timer_wait(struct qp *qp, uint64_t when);

/*
 * Finds a QP of this process whose timer has expired at @now, and clears the timer. Returns NULL if
 * there is none.
 */
struct qp *timer_take(uint64_t now);

/*
 * Returns the time at which the next timer expires, or 0. Must be called after timer_take() has
 * returned NULL.
 */
uint64_t timer_next(void);

/* Wakes the thread of the process of @slot. */
void timer_ring(uint32_t slot);

/*
 * Chaos mode: wakes the thread of the process of @slot, unless it has already been woken for
 * pending work (`pumping` of struct proc).
 */
void timer_pump(uint32_t slot);

/* Must be called in a forked child, which has no QPs. */
void timer_forget(void);

#endif
