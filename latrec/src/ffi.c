/* SPDX-License-Identifier: MIT */
/* The functions of latrec.h that are compiled into their callers, as functions of the library. */
#define LATREC_INLINE
#pragma GCC visibility push(default)
#include "latrec.h"
#pragma GCC visibility pop
