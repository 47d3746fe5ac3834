/* SPDX-License-Identifier: MIT */
/* Timers of this process's QPs; sched.h has the thread that serves them. */
#ifndef SOFTHCA_HCA_TIMER_H
#define SOFTHCA_HCA_TIMER_H

#include <stdint.h>

#include "fabric/fabric.h"

/* Bitmap of the QPs that have a timer. The mutex is held. */
extern uint64_t timer_waiting[MAX_QPS / 64];

/* The futex on which a process's thread sleeps. It counts timers set and calls by others. */
static inline uint32_t *timer_bell(uint32_t slot)
{
	return &arena()->procs[slot].bell;
}

/* CLOCK_MONOTONIC, ns. */
uint64_t timer_now(void);

/* Sets a timer: the thread calls xport_send() for an own QP at @when. Mutex held; signal safe. */
void timer_wait(struct qp *qp, uint64_t when);

/* Wakes the thread of the process of @slot. The mutex is held; signal safe. */
void timer_ring(uint32_t slot);

/* Chaos mode: wakes that thread if it does not know yet that work is pending. Likewise. */
void timer_pump(uint32_t slot);

#endif
