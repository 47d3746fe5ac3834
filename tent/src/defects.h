/* SPDX-License-Identifier: MIT */
/*
 * Defects of the published scheduler that this one does not have: empty slices from rounding, a
 * charge that differs from the release, bandwidth that includes the time in the scheduler's own
 * queue, failures that count as samples, no probe for a single slice. One test of the simulator
 * is built with TENT_DEFECTS, to show that the cases detect these defects.
 */
#ifndef TENT_DEFECTS_H
#define TENT_DEFECTS_H

#ifdef TENT_DEFECTS
#define DEFECTS 1
#else
#define DEFECTS 0
#endif

#endif
