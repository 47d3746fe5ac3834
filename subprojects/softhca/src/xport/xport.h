/* SPDX-License-Identifier: MIT */
/*
 * The transport: executes send queues. The fabric's mutex is held.
 *
 * The process that owns a QP executes its work requests, both the requester's half
 * and the responder's at the peer: a message is done, payload, completions and all,
 * or waits for a timer, when xport_send() returns.
 */
#ifndef SOFTHCA_XPORT_XPORT_H
#define SOFTHCA_XPORT_XPORT_H

#include "fabric/arena.h"

/*
 * Executes what the doorbell record of an own QP says is posted, unless it waits for a
 * timer. The mutex is released while a long payload is copied and while such a copy is
 * waited for, so anything may have changed when it returns.
 */
void xport_send(struct qp *qp);

/* Flushes both queues of a QP, anybody's, that is in ERR. */
void xport_flush(struct qp *qp);

#endif
