/* SPDX-License-Identifier: MIT */
/*
 * Room for the arena. Its file is sparse: all of it would take 50 MB of /dev/shm, and a
 * touch of a page for which there is no room is a SIGBUS. So blocks are allocated before
 * they are touched first.
 */
#ifndef SOFTHCA_FABRIC_RESERVE_H
#define SOFTHCA_FABRIC_RESERVE_H

#include <stddef.h>

/* What is there from the beginning, of a new arena with descriptor @fd. 0 or -errno. */
int reserve_first(int fd);

/* Allocates @len bytes of the arena at @p. 0 or -errno. The mutex is held. */
int reserve(const void *p, size_t len);

#endif
