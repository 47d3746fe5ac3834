/* SPDX-License-Identifier: MIT */
/*
 * The link model: a message completes at max(link idle, now) + size / rate + latency, with the rate
 * and latency of the sender's rail. In real time the message is executed at that time. In virtual
 * time it is executed immediately, and the fabric's clock advances instead. If service_ns is set, a
 * message also occupies the sender's context for that time before it is on the link, and, if its QP
 * is connected, the receiver's context before it is executed. A context serves one message that it
 * sends and one that it receives at a time. READs use the other direction of the link and twice the
 * latency. Pauses (pause.h) are added to size / rate. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_LINK_H
#define SOFTHCA_XPORT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/* Returns the mode that SOFTHCA_LINK (off, real, virtual) sets for a new fabric, or -EINVAL. */
int link_mode_from_env(void);

/* Computes the completion times of the WQEs that are posted, up to block @pi. */
void link_schedule(struct qp *qp, uint32_t pi);

/*
 * Returns true if link_schedule() has WQEs up to @pi to schedule. The result is a hint; the mutex
 * is not needed.
 */
bool link_awaits(const struct qp *qp, uint32_t pi);

/* Returns the completion time of the WQE at sq_done, or 0 if it is not in the future. */
uint64_t link_due(struct qp *qp);

/* Must be called when the WQE at sq_done has completed. */
void link_done(struct qp *qp);

/* Drops the completion times of a QP that is reset or in ERR. */
void link_clear(struct qp *qp);

/*
 * Returns the time that completion times refer to, in ns: the virtual clock, or CLOCK_MONOTONIC. A
 * lane is enough for this function.
 */
uint64_t link_clock(void);

/*
 * Delays the message at sq_done in virtual time: the clock advances. Returns false in other modes,
 * in which the caller has to wait.
 */
bool link_delay(const struct qp *qp, uint64_t ns);

#endif
