/* SPDX-License-Identifier: MIT */
/*
 * Completion queues: room, writing, events. The caller must hold the fabric's mutex, or a lane and
 * the CQ's latch.
 *
 * An event is requested by cq_arm() and sent once: by cq_notify(), by cq_arm() itself if the
 * completion has been written already, or by cq_serve(): with moderation, or if the process that
 * wrote the completion had no descriptor. CQ_UNARMED -> CQ_ARMED_NEXT or CQ_ARMED_SOLICITED ->
 * CQ_UNARMED. An overrun queue stays overrun until it is destroyed.
 */
#ifndef SOFTHCA_HCA_CQ_H
#define SOFTHCA_HCA_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/*
 * Returns true if @n more completions fit. If they do not fit, the queue is overrun: its owner gets
 * one async event, and nothing is written to the queue any more.
 */
bool cq_room(struct cq *cq, uint32_t n);

/* Writes one completion at producer index @index and advances the producer. */
void cq_write(struct cq *cq, uint32_t index, const void *bytes);

/*
 * Writes out the runs of compressed completions of a lane, and removes them from its @list. The
 * caller must hold the mutex, or the lane and no latch. If another thread holds a CQ's latch for
 * too long, this CQ and those before it stay in the list.
 */
void cq_flush_runs(uint32_t *list);

/*
 * Must be called after the completion @bytes is written. Sends an event if the queue is armed for
 * it. With moderation the event may wait.
 */
void cq_notify(struct cq *cq, const void *bytes);

/*
 * Sends the events of this process's queues that are due, and the late async events. Returns the
 * time at which the next event is due, or an earlier time; 0: no event waits.
 */
uint64_t cq_serve(uint64_t now);

/*
 * Must be called when the queue is destroyed: removes its unread events, and sets comp_events to the
 * number of events that the program has read. @read: this number as counted by the reads
 * (uverbs/reads.h). It is used only if a process was killed while it wrote an event. Returns 0 or the
 * error of fifo_drop().
 */
int cq_withdraw(struct cq *cq, uint32_t read);

/* Arms the queue: @word is the first word of a store to its doorbell register. */
void cq_arm(struct cq *cq, uint32_t word);

#endif
