/* SPDX-License-Identifier: MIT */
/*
 * Steps that SIGKILL cannot split.
 *
 * The holder of a lane, or of the fabric's mutex, may be killed between any two instructions.
 * Each step that must be atomic (a receive is taken, its completion is written and the send
 * queue advances) is first described in the lane's journal, then marked active, then applied.
 * When a holder has died or is stopped, the next holder of the mutex applies an active
 * journal again. Values are absolute, and a completion is always written to the same place with
 * the same bytes, so a step may be applied twice. Only the CQ's count of completions (`cqes`) may
 * then be too high, and an event may be sent twice.
 *
 * States of the journal:
 * - described: active is 0. If the holder dies now, the next journal_begin() discards the step;
 * - active: journal_commit() has begun;
 * - applied: active is 0 again.
 */
#ifndef SOFTHCA_HCA_JOURNAL_H
#define SOFTHCA_HCA_JOURNAL_H

#include <stdint.h>

#include "fabric/arena.h"

/*
 * Begins the description of a step. The caller must hold its lane, or the mutex, for the whole
 * step.
 */
void journal_begin(void);

/* Adds a store to the step: the 32-bit word @field of the arena becomes @value. */
void journal_store(uint32_t *field, uint32_t value);

/* Does the same for a word of 64 bits, which takes two of the JOURNAL_STORES. */
void journal_store64(uint64_t *field, uint64_t value);

/*
 * Adds a completion for the CQ with the index @cq. A caller with a lane must hold the CQ's latch.
 * @bytes: 64 bytes; the owner bit is set later.
 */
void journal_cqe(uint32_t cq, const void *bytes);

/* Marks the step active and applies it. */
void journal_commit(void);

/*
 * Applies the active step of a dead or stopped holder, if there is one. The caller must hold the
 * mutex.
 */
void journal_replay(struct journal *j);

#endif
