/* SPDX-License-Identifier: MIT */
/*
 * The link model: a message completes at max(link idle, now) + size / rate + latency, with
 * the rate and latency of the sender's rail. In real time the message is executed at that
 * time. In virtual time it is executed immediately, and the fabric's clock advances instead.
 * With service_ns, a message takes that long in the sender's context before it is on the link, and,
 * if it has a connection, in the receiver's context before it is executed; a context serves one
 * message at a time. READs use the other direction of the link and twice the latency. Pauses
 * (pause.h) are added to size / rate. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_LINK_H
#define SOFTHCA_XPORT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/* The mode of a new fabric by SOFTHCA_LINK (off, real, virtual), or -EINVAL. */
int link_mode_from_env(void);

/* Computes the completion times of the WQEs that are posted, up to block @pi. */
void link_schedule(struct qp *qp, uint32_t pi);

/* Returns true if link_schedule() has WQEs up to @pi to schedule. A hint, without the mutex. */
bool link_awaits(const struct qp *qp, uint32_t pi);

/* Completion time of the WQE at sq_done; 0 if it is not in the future. */
uint64_t link_due(struct qp *qp);

/* Must be called when the WQE at sq_done has completed. */
void link_done(struct qp *qp);

/* Drops the completion times of a QP that is reset or in ERR. */
void link_clear(struct qp *qp);

/* The time of completions, in ns: the virtual clock, or CLOCK_MONOTONIC. */
uint64_t link_clock(void);

/*
 * Delays the message at sq_done in virtual time: the clock advances. Returns false in other modes, in
 * which the caller has to wait.
 */
bool link_delay(const struct qp *qp, uint64_t ns);

#endif
