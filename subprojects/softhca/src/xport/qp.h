/* SPDX-License-Identifier: MIT */
/*
 * The state machine of queue pairs. The caller must hold the fabric's mutex.
 *
 *	RESET -> INIT -> RTR -> RTS <-> SQD; every state -> RESET and -> ERR; SQE is not used
 *
 * qp_modify() makes the transitions that a program requests. qp_to_error() makes the transitions to
 * ERR that a failure causes. qp_stop() makes the first half of a transition to RESET. No other
 * function writes `state`, except qp_fail_remotely(), which marks a QP whose owner must flush it.
 *
 * In ERR, `flushing` is set until both queues have been flushed. It is set before the state, and
 * before the event or the error completion of a receive that tells of the failure. The flush is
 * delayed while a copy involves the QP (copy.h), or until the QP's owner wakes up. If the process
 * that flushes dies or is stopped, the next holder of the mutex finishes the flush (qp_recover()).
 *
 * In RTS a QP is idle, waits for a timer (`wait_until`), or copies (`copy_to`).
 */
#ifndef SOFTHCA_XPORT_QP_H
#define SOFTHCA_XPORT_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

struct ib_uverbs_modify_qp;

/*
 * Applies a modify command. Returns 0; -EINVAL if the transition does not exist, an attribute is
 * missing or not allowed, or a value is out of range; or another -errno. The mutex is released for
 * a while if a copy involves the QP.
 */
int qp_modify(struct qp *qp, const struct ib_uverbs_modify_qp *m);

/* Makes the first half of a reset: from then on, the QP does not send, receive or flush. */
void qp_stop(struct qp *qp);

/*
 * Begins a failure that qp_to_error() ends. If this process dies between the two, the next holder
 * of the mutex moves the QP to ERR.
 */
void qp_begin_error(struct qp *qp);

/*
 * Moves the QP to ERR, and flushes both its queues as soon as no copy involves it.
 * Idempotent.
 */
void qp_to_error(struct qp *qp);

/*
 * Does the same for a QP of another process whose memory cannot be accessed from here: wakes that
 * process, which flushes the QP.
 */
void qp_fail_remotely(struct qp *qp);

/*
 * Ends the message that the QP is receiving, if any, because the rest of the message will not
 * arrive. The receive of the SRQ that the QP holds is completed as flushed if @completes is true,
 * else it is lost.
 */
void qp_end_receive(struct qp *qp, bool completes);

/*
 * Must be called after a thread of the process of @slot has lost a claim. @lost: a claim's word
 * that names this thread. Ends the copy that the thread may have been about to begin or to end, and
 * moves all working QPs of the process to ERR.
 */
void qp_fail_owned(uint32_t slot, uint64_t lost);

/* Flushes the QPs of this process that other processes have marked by qp_fail_remotely(). */
void qp_serve_failed(void);

/* Finishes the transitions to ERR that a dead or stopped holder of the mutex has begun. */
void qp_recover(void);

/* Returns true if the QP accepts messages from its peer. */
static inline bool qp_receives(const struct qp *qp)
{
	return qp->state == QPS_RTR || qp->state == QPS_RTS || qp->state == QPS_SQD;
}

#endif
