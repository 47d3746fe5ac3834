/* SPDX-License-Identifier: MIT */
/*
 * Steps that a kill -9 cannot split.
 *
 * Whoever holds the fabric's mutex may be killed between any two instructions. Each
 * step that must be seen whole (a receive is taken, its completion is written and the
 * sender moves on) is first described in the arena's journal, then marked active, then
 * applied. The next holder of the mutex, told by the robust mutex, applies an active
 * journal once more. Values are absolute and a completion is always written to the
 * same place with the same bytes, so doing it twice changes nothing.
 */
#ifndef SOFTHCA_HCA_JOURNAL_H
#define SOFTHCA_HCA_JOURNAL_H

#include <stdint.h>

/* Starts the description of a step. The mutex is held for the whole of a step. */
void journal_begin(void);

/* Adds: the 32-bit word @field of the arena becomes @value. */
void journal_store(uint32_t *field, uint32_t value);

/* Adds: a completion for CQ index @cq. @bytes: 64 bytes but for the owner bit. */
void journal_cqe(uint32_t cq, const void *bytes);

/* Makes it happen. */
void journal_commit(void);

/* Applies what a dead holder left. */
void journal_replay(void);

#endif
