/* SPDX-License-Identifier: MIT */
/*
 * Strict mode reports mistakes of programs that an adapter does not report: an adapter executes or
 * loses the request. A report names the object and, if there is one, the work request. The caller
 * must hold the fabric's mutex.
 */
#ifndef SOFTHCA_HCA_STRICT_H
#define SOFTHCA_HCA_STRICT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "hca/wqe.h"

/* Prints the violation on standard error and counts it. SOFTHCA_STRICT=abort: ends the process. */
void strict_violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Returns true if the producer index @pi of the doorbell record announces new WQEs, and these do
 * not overwrite WQEs whose completion was not polled. Otherwise reports the violation, as do
 * the functions below that return false.
 */
bool strict_ring(struct qp *qp, uint32_t pi);

/*
 * Returns true if the WQE at block @at names its own index and its own QP, and has no more than the
 * @posted blocks from there on.
 */
bool strict_wqe(const struct qp *qp, const struct wqe *w, uint32_t at, uint32_t posted);

/*
 * Records that a signaled WQE has completed: the program may reuse its blocks after it has polled
 * the CQE.
 */
void strict_completed(struct qp *qp, uint32_t cqe_index, uint32_t blocks_end);

/* Called when a QP is destroyed: reports WQEs that were posted without a doorbell. */
void strict_destroyed(const struct qp *qp);

/* Returns true if the process may register this region in addition to its other regions. */
bool strict_memlock(uint64_t start, uint64_t length);

/* Reports that registered memory of the QP's owner is not mapped. */
void strict_unmapped(const struct qp *qp);

/*
 * Reports, once for each SRQ, if more receives are posted than the SRQ has room for. @posted: the
 * value of the SRQ's doorbell record.
 */
void strict_srq(struct srq *srq, uint32_t posted);

/* Checks an arm of the CQ. @word: the first word of the store to its doorbell register. */
void strict_arm(const struct cq *cq, uint32_t word);

#endif
