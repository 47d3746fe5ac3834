/* SPDX-License-Identifier: MIT */
/* Exports the inline functions of latrec.h as functions of the library. */
#define LATREC_INLINE
#pragma GCC visibility push(default)
#include "latrec.h"
#pragma GCC visibility pop
