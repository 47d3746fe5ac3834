/* SPDX-License-Identifier: MIT */
/*
 * The file of a capture. Bytes behind `end` were written by a process that was killed meanwhile. The
 * next writer overwrites them, and a process that finds a capture without writers cuts them off.
 */
#ifndef SOFTHCA_FABRIC_CAPTURE_FILE_H
#define SOFTHCA_FABRIC_CAPTURE_FILE_H

#include "fabric/arena.h"

/* Opens the file for writing. Returns its descriptor, or -errno; -ESTALE: it is another one. */
int capture_file_open(const struct capture *c);

/* Cuts off what is behind the end. */
void capture_file_trim(const struct capture *c);

/* The same for a fabric without members, whose directory is @dir. */
void capture_file_trim_dead(const char *dir);

#endif
