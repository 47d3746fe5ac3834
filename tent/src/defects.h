/* SPDX-License-Identifier: MIT */
/*
 * The defects of the published scheduler, which this one does not have. A test of the simulator
 * builds the same code with TENT_DEFECTS, to show that the cases find them: empty slices from
 * rounding, a charge that differs from the release, bandwidth that includes the time in the own
 * queue, failures learned as samples, no probe for a single slice. Nothing else is built with them.
 */
#ifndef TENT_DEFECTS_H
#define TENT_DEFECTS_H

#ifdef TENT_DEFECTS
#define DEFECTS 1
#else
#define DEFECTS 0
#endif

#endif
