/* SPDX-License-Identifier: MIT */
/*
 * Completions on their way to the program. Without chaos mode each is written in the step that
 * causes it. In chaos mode it waits in the arena, behind the earlier ones of the same work queue,
 * until late_release() writes it; the owner of the QP is responsible for that, because it lives
 * as long as the queue does. The fabric's mutex is held.
 */
#ifndef SOFTHCA_HCA_LATE_H
#define SOFTHCA_HCA_LATE_H

#include <stdbool.h>

#include "abi/wire.h"
#include "fabric/arena.h"

/* A new QP has no late completions. */
void late_init(struct qp *qp);

/* Before a step with late_add() begins: makes sure that there is a place. */
void late_room(struct qp *qp, enum late_side side);

/* Adds to the journal's step: a completion. @end: of a send queue, the block after the WQE. */
void late_add(struct qp *qp, enum late_side side, const struct cqe64 *cqe, uint32_t end);

/* Whether the work queue has late completions. */
bool late_any(const struct qp *qp, enum late_side side);

/* Writes the oldest late completion of the work queue, which has one, in a step of its own. */
void late_release(struct qp *qp, enum late_side side);

/* Writes all late completions of the QP. */
void late_release_all(struct qp *qp);

#endif
