/* SPDX-License-Identifier: MIT */
/* The functions of delegrpc.h that are compiled into their callers, as functions of the library. */
#define DELEGRPC_INLINE
#include "delegrpc.h"
