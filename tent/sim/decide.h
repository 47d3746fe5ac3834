/* SPDX-License-Identifier: MIT */
/* Measures the real time of scheduling a slice, with rails that move no data. */
#ifndef TENT_DECIDE_H
#define TENT_DECIDE_H

#include "config.h"

/*
 * Writes the real time in ns that the scheduler takes for a slice, from its submission to its
 * completion. Returns 0, or the error of the scheduler.
 */
int decide_measure(const struct tent_config *config, double *ns_p);

#endif
