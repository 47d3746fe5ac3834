/* SPDX-License-Identifier: MIT */
/* The functions of flux.h that are compiled into their callers, as functions of the library. */
#define FLUX_INLINE
#pragma GCC visibility push(default)
#include "flux.h"
#pragma GCC visibility pop
