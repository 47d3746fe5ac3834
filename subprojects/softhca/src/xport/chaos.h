/* SPDX-License-Identifier: MIT */
/*
 * Chaos mode: effects come later than the doorbell, in any order that the specification permits.
 *
 *	doorbell -> announced -> executed, piece by piece -> completion is owed -> written
 *
 * A doorbell only announces requests (chaos_announce()). Each step of chaos_pump() then picks one
 * work queue at random and either places the next piece of the message at its head, read from the
 * source at that moment, or writes its oldest owed completion (hca/owed.h). So
 * - the messages of a QP are executed in order, those of different QPs in any order;
 * - the payload of a message is placed in pieces of random sizes in random order;
 * - the completions of a message follow all of its payload, those of a work queue are in order,
 *   and there is no order between work queues;
 * - one QP at a time is not served for a while, even if no other QP has work. So other QPs get far
 *   ahead, even QPs that the program uses only after it has seen the effect of a message.
 * Each process serves the work queues of its own QPs: by its thread (sched/), or by softhca_step().
 *
 * Each process has its own random numbers, which follow from the seed and its slot. So in step mode
 * the same single-threaded program sees the same order in each run. The caller must hold the
 * fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_CHAOS_H
#define SOFTHCA_XPORT_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include "xport/copy.h"

/*
 * Reads the seed for a new fabric from SOFTHCA_CHAOS; 0 (chaos mode is off) if the variable is not
 * set. Returns 0, or -EINVAL if it is not a number of at least 1.
 */
int chaos_from_env(uint64_t *seed_p);

/* Allows the execution of the posted requests of @qp, a QP of this process. */
void chaos_announce(struct qp *qp);

/*
 * Returns true if requests of @qp, a QP of this process, are announced. Without the mutex, the
 * result is a hint.
 */
bool chaos_announced(const struct qp *qp);

/*
 * Places the next piece of the payload of the message at the head of c->qp. Returns 0 if it was the
 * last piece, -EINPROGRESS if it was not, or an error of copy_whole().
 */
int chaos_copy(const struct copy *c, bool *fault_to);

/*
 * Makes at most @most steps; waiting counts as a step. Returns the number of steps, which is 0 if
 * nothing is pending.
 */
uint32_t chaos_pump(uint32_t most);

/* Returns a random number from 1 to @most. */
uint32_t chaos_some(uint32_t most);

/* Completes the message whose pieces are being placed, because the QP stops after it. */
void chaos_finish(struct qp *qp);

/* Must be called in a forked child, which has no announced requests. */
void chaos_forget(void);

#endif
