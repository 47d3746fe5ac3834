/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: what an adapter would execute all the same, or lose without a word, is
 * an error that names the QP and the work request. The fabric's mutex is held.
 */
#ifndef SOFTHCA_HCA_STRICT_H
#define SOFTHCA_HCA_STRICT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "hca/wqe.h"

/* Says what is wrong, on standard error, and counts it. */
void strict_violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The record of @qp says @pi. False: that posts nothing new, or overruns the ring. */
bool strict_ring(struct qp *qp, uint32_t pi);

/* The entry at sq_done says that it stands where it stands. */
bool strict_wqe(const struct qp *qp, const struct wqe *w);

/* A signaled entry has completed: its blocks are the program's again once it polls. */
void strict_completed(struct qp *qp, uint32_t cqe_index, uint32_t blocks_end);

/* A QP is destroyed: entries that were posted, but whose doorbell never rang. */
void strict_destroyed(const struct qp *qp);

#endif
