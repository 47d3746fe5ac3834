/* SPDX-License-Identifier: MIT */
/*
 * The file of a capture. Bytes after `end` (struct capture) belong to a group of packets
 * (capture/capture.h) that is being written, was cancelled, or whose writer was killed. The next
 * writer overwrites them. The file is truncated to `end` when a member leaves or a dead one is
 * found, when the capture ends, and when a fabric without members is removed.
 */
#ifndef SOFTHCA_FABRIC_CAPTURE_FILE_H
#define SOFTHCA_FABRIC_CAPTURE_FILE_H

#include "fabric/arena.h"

/*
 * Opens the file for writing. Returns its descriptor, or -errno; -ESTALE: another file has its
 * name.
 */
int capture_file_open(const struct capture *c);

/* Truncates the file to the valid bytes. */
void capture_file_trim(const struct capture *c);

/*
 * Does the same as capture_file_trim() for the capture of a fabric without members. @dir: the
 * fabric's directory.
 */
void capture_file_trim_dead(const char *dir);

#endif
