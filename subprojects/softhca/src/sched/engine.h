/* SPDX-License-Identifier: MIT */
/*
 * Polling and step modes: finds doorbells that did not trap. A pass of the polling thread takes the
 * same time however many queues the process has. A pass reads the doorbell registers of two pages:
 * the page that was rung last, and the next one in the list of all pages. A register names the
 * queue that rang it last. Two queues may ring the same register between two passes, so a pass also
 * reads the doorbell record of the next queue in the list of all queues. Step mode reads all
 * doorbell records, and so does the thread before it sleeps.
 */
#ifndef SOFTHCA_SCHED_ENGINE_H
#define SOFTHCA_SCHED_ENGINE_H

#include <stdint.h>

#include "fabric/arena.h"

/*
 * Adds a QP or CQ of this process. @page: the page with its doorbell, behind door @door; NULL in
 * step mode. The caller must hold the mutex. Does nothing in trap mode.
 */
void engine_watch(enum obj_kind kind, uint32_t index, const uint8_t *page, uint32_t door);

/*
 * Makes one pass and serves the doorbells that it finds. Returns the number of queues that had
 * work.
 */
uint32_t engine_pass(void);

/*
 * Checks all queues once and serves those with new work. Returns the number of queues that had
 * work.
 */
uint32_t engine_sweep(void);

/* Returns the number of passes that check each queue once. */
uint32_t engine_round(void);

/* Must be called in a forked child, which has no queues. */
void engine_forget(void);

#endif
