/* SPDX-License-Identifier: MIT */
/* The fabric's directory and the locks on its lock file; see fabric.h. */
#ifndef SOFTHCA_FABRIC_LOCKFILE_H
#define SOFTHCA_FABRIC_LOCKFILE_H

#include <stddef.h>
#include <sys/types.h>

/* Writes the directory of the fabric of fabric_name() to @dir. */
void fabric_dir(char *dir, size_t size);

/*
 * Locks or unlocks bytes of the lock file, or tests them (F_OFD_GETLK). Returns 0 or -errno;
 * F_OFD_GETLK: 1 if another file description has a lock there that excludes a lock of @type.
 */
int fabric_byte_lock(int fd, int cmd, short type, off_t start, off_t len);

#endif
