/* SPDX-License-Identifier: MIT */
/*
 * Records the WQEs that QPs have executed and the CQEs that were written to CQs. The caller must
 * hold the fabric's mutex. For trace_wqe() and trace_cqe(), a lane with the latch of the QP or CQ
 * is enough.
 */
#ifndef SOFTHCA_HCA_TRACE_H
#define SOFTHCA_HCA_TRACE_H

#include "fabric/arena.h"
#include "hca/wqe.h"

/* Takes a ring if recording is on and one is free. Returns 1 + its index, else 0. */
uint32_t trace_alloc(void);
void trace_free(uint32_t ring);

void trace_wqe(struct qp *qp, const struct wqe *w, enum syndrome s);
void trace_cqe(struct cq *cq, uint32_t index, const struct cqe64 *cqe);

#endif
