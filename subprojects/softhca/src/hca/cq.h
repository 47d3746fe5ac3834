/* SPDX-License-Identifier: MIT */
/* Completion queues: room, writing, events. The fabric's mutex is held. */
#ifndef SOFTHCA_HCA_CQ_H
#define SOFTHCA_HCA_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/*
 * Whether @n more completions fit. If not, the queue is overrun: its owner gets the
 * async event, once, and nothing is ever written to it again.
 */
bool cq_room(struct cq *cq, uint32_t n);

/* Looks how far the program has polled. */
void cq_read_consumer(struct cq *cq);

/* Writes one completion at producer index @index and moves the producer behind it. */
void cq_write(struct cq *cq, uint32_t index, const void *bytes);

/* Writes out the compressed runs that are being collected: before the mutex is released. */
void cq_flush_runs(void);

/* After a completion is written: sends the event if one was asked for. */
void cq_notify(struct cq *cq, const void *bytes);

/* A store to the queue's doorbell register: the two words of the store. */
void cq_arm(struct cq *cq, uint32_t word);

#endif
