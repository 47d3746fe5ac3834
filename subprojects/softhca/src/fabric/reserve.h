/* SPDX-License-Identifier: MIT */
/*
 * Allocation of the arena's memory. The arena's file is sparse, because the whole file would take
 * 128 MB of /dev/shm. Access to a page for which /dev/shm has no room raises SIGBUS, so every block
 * is allocated before its first use.
 */
#ifndef SOFTHCA_FABRIC_RESERVE_H
#define SOFTHCA_FABRIC_RESERVE_H

#include <stddef.h>

/* Allocates the fixed part of a new arena with descriptor @fd. Returns 0 or -errno. */
int reserve_first(int fd);

/* Allocates @len bytes of the arena at @p. Returns 0 or -errno. The caller must hold the mutex. */
int reserve(const void *p, size_t len);

/*
 * Does the same for an object of a program, but without room in /dev/shm returns -ENOMEM, as
 * softhca(7) says.
 */
int reserve_object(const void *p, size_t len);

#endif
