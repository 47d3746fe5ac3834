/* SPDX-License-Identifier: MIT */
/* Timers of this process's QPs; sched.h has the thread that serves them. */
#ifndef SOFTHCA_HCA_TIMER_H
#define SOFTHCA_HCA_TIMER_H

#include <stdint.h>

#include "fabric/fabric.h"

/* QPs with a timer, a bit each. The mutex is held. */
extern uint64_t timer_waiting[MAX_QPS / 64];

/* The word that a process's thread sleeps on. It counts new timers and calls of others. */
static inline uint32_t *timer_bell(uint32_t slot)
{
	return &arena()->procs[slot].bell;
}

/* CLOCK_MONOTONIC, ns. */
uint64_t timer_now(void);

/* Has xport_send() called for an own QP at @when. The mutex is held; signal safe. */
void timer_wait(struct qp *qp, uint64_t when);

/* Wakes the thread of the process of @slot. The mutex is held; signal safe. */
void timer_ring(uint32_t slot);

#endif
