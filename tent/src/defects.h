/* SPDX-License-Identifier: MIT */
/*
 * The defects of the published scheduler that this one does not have. The simulator's
 * test builds the same code with TENT_DEFECTS, to show that its cases tell the difference:
 * empty slices from rounding, a charge that is not what is released, bandwidth that
 * includes the time in the own queue, failures learned as samples, no probe for a single
 * slice. Nothing else is built so.
 */
#ifndef TENT_DEFECTS_H
#define TENT_DEFECTS_H

#ifdef TENT_DEFECTS
#define DEFECTS 1
#else
#define DEFECTS 0
#endif

#endif
