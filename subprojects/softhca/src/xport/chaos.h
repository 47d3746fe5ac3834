/* SPDX-License-Identifier: MIT */
/*
 * Chaos mode: effects come later than the doorbell, in any order that the specification permits.
 *
 *	doorbell -> announced -> executed, piece by piece -> completion is owed -> written
 *
 * A doorbell only announces (chaos_announce()). Each step of chaos_pump() then picks one work
 * queue at random and either places the next piece of the message at its head, read from the
 * source at that moment, or writes its oldest owed completion (hca/owed.h). So
 * - the messages of a QP are executed in order, those of different QPs in any order;
 * - the payload of a message is placed in pieces of random sizes in random order;
 * - the completions of a message follow all of its payload, those of a work queue are in order,
 *   and there is no order between work queues;
 * - one QP at a time is neglected for a while, even if no other one has anything to do, so that
 *   others get far ahead: also those that the program uses only when it has seen an effect.
 * Each process pumps the work queues of its own QPs: its thread (sched/), or softhca_step().
 *
 * The random numbers are the process's own and follow from the seed and its slot, so in step mode
 * the same program sees the same order again. The fabric's mutex is held in each call.
 */
#ifndef SOFTHCA_XPORT_CHAOS_H
#define SOFTHCA_XPORT_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include "xport/copy.h"

/*
 * The seed that SOFTHCA_CHAOS gives a new fabric; 0, chaos mode is off, without it. Returns 0,
 * or -EINVAL if it is no number from 1.
 */
int chaos_from_env(uint64_t *seed_p);

/* Requests of an own QP may be executed from now on. */
void chaos_announce(struct qp *qp);

/* Returns true if requests of the own QP are announced. */
bool chaos_announced(const struct qp *qp);

/*
 * Places the next piece of the payload of the message at the head of c->qp. Returns 0 if it was
 * the last one, -EINPROGRESS if it was not, else as copy_whole().
 */
int chaos_copy(const struct copy *c, bool *fault_to);

/* Makes up to @most steps; waiting for others is one. Returns how many: 0 if nothing is pending. */
uint32_t chaos_pump(uint32_t most);

/* A random number from 1 to @most. */
uint32_t chaos_some(uint32_t most);

/* Finishes the message of which pieces are placed, because the QP stops after it. */
void chaos_finish(struct qp *qp);

/* In a forked child: nothing is announced. */
void chaos_forget(void);

#endif
