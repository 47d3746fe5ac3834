/* SPDX-License-Identifier: MIT */
/* The prototypes of the driver's functions that cuda.h lists, and of those that only tests use. */
#ifndef TENT_SOFTGPU_DRIVER_H
#define TENT_SOFTGPU_DRIVER_H

#include "priv.h"

#pragma GCC visibility push(default)
#define X(member, name, ...) int name(__VA_ARGS__);
CUDA_FUNCTIONS(X)
#undef X
#define X(result, name, ...) result name(__VA_ARGS__);
GPU_FUNCTIONS(X)
#undef X
int cuMemGetHandleForAddressRange(void *handle_p, uint64_t at, size_t len, int type,
	unsigned long long flags);

#pragma GCC visibility pop

#endif
