/* SPDX-License-Identifier: MIT */
/*
 * The link model: a message is through at max(link idle, now) + size / rate + latency,
 * with the rail's own rate and latency. In real time it is executed then; in virtual
 * time it is executed at once, and the fabric's clock moves instead. Reads take the
 * other direction of the link, and the latency twice. The fabric's mutex is held.
 */
#ifndef SOFTHCA_XPORT_LINK_H
#define SOFTHCA_XPORT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

enum link_mode { LINK_OFF, LINK_REAL, LINK_VIRTUAL };

/* What SOFTHCA_LINK (off, real, virtual) asks for, for a new fabric; -EINVAL: none of them. */
int link_mode_from_env(void);

/* Puts what is posted up to @pi onto the link. */
void link_schedule(struct qp *qp, uint32_t pi);

/* When the entry at sq_done is through; 0 if that is now. */
uint64_t link_due(const struct qp *qp);

/* It is done with. */
void link_done(struct qp *qp);

/* Forgets what was on the link: the QP is reset or in error. */
void link_clear(struct qp *qp);

/* The fabric's time for completions: virtual, or CLOCK_MONOTONIC; ns. */
uint64_t link_clock(void);

#endif
