/* SPDX-License-Identifier: MIT */
/* Measures the real time of a decision: the scheduler runs over rails that do nothing. */
#ifndef TENT_DECIDE_H
#define TENT_DECIDE_H

#include "config.h"

/* Nanoseconds per slice, from submit to done; 0, or the error of the scheduler. */
int decide_measure(const struct tent_config *config, double *ns_p);

#endif
