/* SPDX-License-Identifier: MIT */
/*
 * Completions on their way to the program. Without chaos mode each is written in the step that
 * causes it. In chaos mode it waits in the arena, behind the earlier ones of the same work queue,
 * until owed_release() writes it; the owner of the QP is responsible for that, because it lives
 * as long as the queue does. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_HCA_OWED_H
#define SOFTHCA_HCA_OWED_H

#include <stdbool.h>

#include "abi/wire.h"
#include "fabric/arena.h"

/* A new QP has no owed completions. */
void owed_init(struct qp *qp);

/* Before a step with owed_add() begins: makes sure that there is a place. */
void owed_room(struct qp *qp, enum owed_side side);

/* Adds a completion to the journal's step. @end: for a send queue, the block after the WQE. */
void owed_add(struct qp *qp, enum owed_side side, const struct cqe64 *cqe, uint32_t end);

/* Returns true if the work queue has owed completions. */
bool owed_any(const struct qp *qp, enum owed_side side);

/* Writes the oldest owed completion of the work queue, which has one, in a step of its own. */
void owed_release(struct qp *qp, enum owed_side side);

/* Writes all owed completions of the QP. */
void owed_release_all(struct qp *qp);

#endif
