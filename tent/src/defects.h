/* SPDX-License-Identifier: MIT */
/*
 * Defects of the published scheduler that this one does not have:
 *
 * - Rounding makes empty slices.
 * - The bytes that a slice adds to the ledger (see sched_priv.h) differ from those that its end
 *   subtracts.
 * - The measured time of a slice includes its time in the scheduler's own queue.
 * - Failures count as samples.
 * - A decision for a single slice never tries a rail whose score is bad.
 *
 * One test of the simulator is built with TENT_DEFECTS, to show that the cases detect these
 * defects.
 */
#ifndef TENT_DEFECTS_H
#define TENT_DEFECTS_H

#ifdef TENT_DEFECTS
#define DEFECTS 1
#else
#define DEFECTS 0
#endif

#endif
