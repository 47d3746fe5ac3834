/* SPDX-License-Identifier: MIT */
/* The state machine of queue pairs. The fabric's mutex is held. */
#ifndef SOFTHCA_HCA_QP_H
#define SOFTHCA_HCA_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

struct ib_uverbs_modify_qp;

/*
 * Releases the mutex for a while if a copy involves the QP. Applies a modify command: 0; -EINVAL when the transition does not exist, an
 * attribute that it needs is missing, or a value is out of range.
 */
int qp_modify(struct qp *qp, const struct ib_uverbs_modify_qp *m);

/* The first half of a reset: it neither sends nor receives, nor is it flushed. */
void qp_stop(struct qp *qp);

/*
 * Moves the QP to ERR and flushes both its queues, as soon as no copy
 * involves it. Idempotent.
 */
void qp_to_error(struct qp *qp);

/*
 * The same for a QP of another process whose memory cannot be reached: that process is
 * woken and flushes it.
 */
void qp_fail_remotely(struct qp *qp);

/*
 * The QP has begun to receive a message, if anything, whose rest does not come: the receive
 * that it holds of its SRQ is given back, flushed, or if not @completes is lost.
 */
void qp_end_receive(struct qp *qp, bool completes);

/* Flushes the own QPs that others have marked so. */
void qp_serve_failed(void);

/* Goes on with the moves to ERR that a dead process left half done. */
void qp_recover(void);

/* Whether it takes messages from its peer. */
static inline bool qp_receives(const struct qp *qp)
{
	return qp->state == QPS_RTR || qp->state == QPS_RTS || qp->state == QPS_SQD;
}

#endif
