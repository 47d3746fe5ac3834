/* SPDX-License-Identifier: MIT */
/*
 * Pauses of a link, which the key "pauses" of the topology enables. They simulate an adapter that
 * handles some traffic badly, for programs that search for such traffic. A message has five
 * properties. The larger they are, the more of the link's time is lost to pauses. Each property has
 * a number of steps:
 *
 *	its length		32 bytes to 128 KiB, a step for each doubling
 *	segments of its payload	1 to 4
 *	requests of a doorbell	1 to 64, a step for each doubling
 *	requests outstanding	1 to 1024, a step for each doubling
 *	QPs with such requests	1 to 4, on the adapter
 *
 * The value of "pauses" is the maximum percentage of the link's time that is lost to pauses. Half
 * of this value is multiplied by the mean of the five properties (each from 0 to 1). The other half
 * is added if all five are in the upper three tenths of their steps. The caller must hold the
 * fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_PAUSE_H
#define SOFTHCA_XPORT_PAUSE_H

#include "hca/wqe.h"

/*
 * Must be called when the QP's requests up to @pi are announced; determines the number of requests
 * of the doorbell.
 */
void pause_announced(struct qp *qp, uint32_t pi);

/*
 * Returns the time for which the link is paused for @w, which occupies it for @busy_ns after it was
 * idle for @idle_ns. The pause is a share of the sum of these two times and the pause itself, so
 * that traffic that does not fill the link is slowed by the same share. The pause is counted at
 * both ports.
 */
uint64_t pause_for(const struct qp *qp, const struct wqe *w, uint64_t busy_ns, uint64_t idle_ns);

#endif
