/* SPDX-License-Identifier: MIT */
/*
 * Distinguishes the library's process from children that run in its memory (vfork()) or in a copy of
 * it of which the library was not told (the bare system call fork). Descriptors and signal handlers
 * of such a child are its own, but the library's tables are the parent's. So calls on its
 * descriptors and signals are passed on to libc without a change of the tables; paths are handled as
 * in the parent.
 */
#ifndef SOFTHCA_SHIM_OWNER_H
#define SOFTHCA_SHIM_OWNER_H

#include <stdbool.h>

/* Must be called when the library starts, and in the child of fork(). */
void owner_set(void);

/* Returns false in a child for which owner_set() was not called. */
bool owner_is_self(void);

#endif
