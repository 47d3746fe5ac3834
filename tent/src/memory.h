/* SPDX-License-Identifier: MIT */
/* The error messages of registrations. */
#ifndef TENT_MEMORY_H
#define TENT_MEMORY_H

#include <sys/resource.h>

#include "tent.h"

/* Explains an error of a registration. Returns @err. @locked: the limit of locked memory. */
int memory_why(int err, const struct rlimit *locked, uint64_t len, struct tent_why *why);

#endif
