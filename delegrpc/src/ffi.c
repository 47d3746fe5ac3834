/* SPDX-License-Identifier: MIT */
/* Defines the functions of delegrpc.h that are otherwise inlined, as functions of the library. */
#define DELEGRPC_INLINE
#include "delegrpc.h"
