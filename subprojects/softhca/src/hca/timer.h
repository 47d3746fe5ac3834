/* SPDX-License-Identifier: MIT */
/*
 * Timers of this process's QPs, one each; sched.h has the thread that serves them. The fabric's
 * mutex is held in each call that follows timer_now(), and all are signal safe.
 *
 * Among timers that have run out, the one whose message has waited longest is served first, so that
 * nobody starves where several QPs wait for the receives of one queue: not in the order of the
 * QPs, nor of the timers, which would stay the same for ever.
 */
#ifndef SOFTHCA_HCA_TIMER_H
#define SOFTHCA_HCA_TIMER_H

#include <stdint.h>

#include "fabric/fabric.h"

/* The futex on which a process's thread sleeps. It counts timers set and calls by others. */
static inline uint32_t *timer_bell(uint32_t slot)
{
	return &arena()->procs[slot].bell;
}

/* CLOCK_MONOTONIC, ns. */
uint64_t timer_now(void);

/* Sets the timer of an own QP: xport_send() is called for it at @when. */
void timer_wait(struct qp *qp, uint64_t when);

/* An own QP whose timer has run out by @now, which is then no longer set, or NULL. */
struct qp *timer_take(uint64_t now);

/* When the next timer runs out, or 0. Call it when timer_take() has returned NULL. */
uint64_t timer_next(void);

/* Wakes the thread of the process of @slot. */
void timer_ring(uint32_t slot);

/* Chaos mode: wakes that thread if it does not know yet that work is pending. */
void timer_pump(uint32_t slot);

/* In a forked child: no QP is its own. */
void timer_forget(void);

#endif
