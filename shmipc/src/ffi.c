/* SPDX-License-Identifier: MIT */
/* Defines the functions of shmipc.h that are otherwise inlined, as functions of the library. */
#define SHMIPC_INLINE
#pragma GCC visibility push(default)
#include "shmipc.h"
#pragma GCC visibility pop
