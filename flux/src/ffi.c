/* SPDX-License-Identifier: MIT */
/* Defines the functions of flux.h that are otherwise inlined, as functions of the library. */
#define FLUX_INLINE
#pragma GCC visibility push(default)
#include "flux.h"
#pragma GCC visibility pop
