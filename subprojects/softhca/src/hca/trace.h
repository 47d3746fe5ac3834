/* SPDX-License-Identifier: MIT */
/* The record of what QPs executed and CQs were given. The fabric's mutex is held. */
#ifndef SOFTHCA_HCA_TRACE_H
#define SOFTHCA_HCA_TRACE_H

#include "fabric/arena.h"
#include "hca/wqe.h"

/* 1 + a ring if the environment asks for records and one is free, else 0. */
uint32_t trace_alloc(void);
void trace_free(uint32_t ring);

void trace_wqe(struct qp *qp, const struct wqe *w, enum syndrome s);
void trace_cqe(struct cq *cq, uint32_t index, const struct cqe64 *cqe);

#endif
