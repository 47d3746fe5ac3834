/* SPDX-License-Identifier: MIT */
/* The files that a job writes on request. */
#ifndef BENCHKV_FILES_H
#define BENCHKV_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"

#define FILE_NAME_MAX 4096

extern const struct file_kind {
	const char *option; /* requests the file */
	bool of_each_rank; /* each rank writes FILE.RANK; otherwise rank 0 writes FILE */
} file_kinds[FILES];

/* The name of a rank's file, cut off if it is too long. */
void file_name(const struct options *o, enum file f, uint32_t rank, char name[FILE_NAME_MAX]);

/* Opens the file for writing if it was requested. 0 or -errno. */
int file_open(const struct options *o, enum file f, uint32_t rank, FILE **out_p);

/*
 * Closes a file, but not standard output, and sets *out_p to NULL; if *out_p is NULL, does nothing.
 * 0, or the -errno of this or an earlier write. The caller must have set errno to 0 before the
 * first write.
 */
int file_close(FILE **out_p);

#endif
