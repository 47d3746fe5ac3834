/* SPDX-License-Identifier: MIT */
/*
 * Owed completions: those that are still to be written. Without chaos mode, a completion is written
 * in the step that causes it. In chaos mode it waits in the arena, behind the earlier completions
 * of the same work queue, until owed_release() writes it. The process that owns the QP calls
 * owed_release() (chaos_pump()), because this process exists as long as the QP. Other processes may
 * call it earlier. The caller must hold the fabric's mutex. Without chaos mode, a lane with the
 * latches of the message is enough.
 */
#ifndef SOFTHCA_HCA_OWED_H
#define SOFTHCA_HCA_OWED_H

#include <stdbool.h>

#include "abi/wire.h"
#include "fabric/arena.h"

/* Initialises a new QP, which has no owed completions. */
void owed_init(struct qp *qp);

/*
 * Must be called before the journal_begin() of a step with owed_add(): releases the oldest
 * completion if there is no room for another one.
 */
void owed_room(struct qp *qp, enum owed_side side);

/*
 * Adds a completion to the step that the journal describes. @end: for a send queue, the index of
 * the block (WQEBB) after the WQE.
 */
void owed_add(struct qp *qp, enum owed_side side, const struct cqe64 *cqe, uint32_t end);

/* Returns true if the work queue has owed completions. */
bool owed_any(const struct qp *qp, enum owed_side side);

/*
 * Writes the oldest owed completion of the work queue, in a step of its own. The queue must have an
 * owed completion (owed_any()).
 */
void owed_release(struct qp *qp, enum owed_side side);

/* Writes all owed completions of the QP. */
void owed_release_all(struct qp *qp);

#endif
