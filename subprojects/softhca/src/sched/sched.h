/* SPDX-License-Identifier: MIT */
/*
 * Timers of this process's QPs, and the one thread that waits for them. It sleeps
 * unless a QP backs off (RNR, transport timeouts) or another process rings: then a QP is
 * to be flushed that nobody else can flush.
 */
#ifndef SOFTHCA_SCHED_SCHED_H
#define SOFTHCA_SCHED_SCHED_H

#include <stdint.h>

#include "fabric/arena.h"

/* Starts the thread if it does not run, but not in step mode. 0 or -errno. */
int sched_start(void);

/* In a forked child: there is no thread. */
void sched_forget(void);

/* Serves the timers that are due. */
void sched_serve(void);

/* Wakes the thread of the process of @slot. The mutex is held; signal safe. */
void sched_ring(uint32_t slot);

/* CLOCK_MONOTONIC, ns. */
uint64_t sched_now(void);

/* Has xport_send() called for an own QP at @when. The mutex is held; signal safe. */
void sched_wait(struct qp *qp, uint64_t when);

#endif
