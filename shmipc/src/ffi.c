/* SPDX-License-Identifier: MIT */
/* The functions of shmipc.h that are compiled into their callers, as functions of the library. */
#define SHMIPC_INLINE
#pragma GCC visibility push(default)
#include "shmipc.h"
#pragma GCC visibility pop
