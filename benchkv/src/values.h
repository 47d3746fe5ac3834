/* SPDX-License-Identifier: MIT */
/* Values of options that only benchkv has; they return what the functions of base/args.h do. */
#ifndef BENCHKV_VALUES_H
#define BENCHKV_VALUES_H

#include "base/oldargs.h"

/* uniform (0) or zipf:THETA. */
int value_distribution(const struct arg *a, double *theta_p);
/* auto (0) or a power of two. */
int value_ring_size(const struct arg *a, uint32_t *size_p);

#endif
