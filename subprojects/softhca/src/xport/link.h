/* SPDX-License-Identifier: MIT */
/*
 * The link model: a message completes at max(link idle, now) + size / rate + latency, with
 * the rate and latency of the sender's rail. In real time the message is executed at that
 * time. In virtual time it is executed at once, and the fabric's clock advances instead.
 * With service_ns, a message takes that long in the sender's context before it is on the link, and
 * in the receiver's, if it has a connection, before it is executed; a context serves one at a time.
 * Reads use the other direction of the link and twice the latency. Pauses (pause.h) add
 * to the size's part. The fabric's mutex is
 * held.
 */
#ifndef SOFTHCA_XPORT_LINK_H
#define SOFTHCA_XPORT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/* The mode that SOFTHCA_LINK (off, real, virtual) gives a new fabric, or -EINVAL. */
int link_mode_from_env(void);

/* Computes the completion times of the WQEs that are posted, up to @pi. */
void link_schedule(struct qp *qp, uint32_t pi);

/* Are there WQEs up to @pi for link_schedule() to take? A hint without the mutex. */
bool link_awaits(const struct qp *qp, uint32_t pi);

/* Completion time of the WQE at sq_done; 0 if it is not in the future. */
uint64_t link_due(struct qp *qp);

/* The WQE at sq_done has completed. */
void link_done(struct qp *qp);

/* The QP is reset or in ERR: drops the completion times of its WQEs. */
void link_clear(struct qp *qp);

/* The time for completions, in ns: virtual, or CLOCK_MONOTONIC. */
uint64_t link_clock(void);

#endif
