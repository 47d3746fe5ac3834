/* SPDX-License-Identifier: MIT */
/* Files of comma-separated values, FILE.RANK, that each rank writes at the end on request. */
#ifndef BENCHKV_CSV_H
#define BENCHKV_CSV_H

#include <stdint.h>
#include <stdio.h>

#include "options.h"

enum csv_file {
	CSV_TRACE, /* trace.h */
	CSV_DECISIONS, /* decision.h */
	CSV_FILES,
};

#define CSV_NAME_MAX 4096

/* The option that asks for the file, and its value; NULL: it was not given. */
const char *csv_option(enum csv_file f);
const char *csv_value(const struct options *o, enum csv_file f);

/* <file>.<rank>, cut off if it is too long. */
void csv_name(const char *file, uint32_t rank, char name[CSV_NAME_MAX]);

/* Opens that file for writing. 0 or -errno. */
int csv_open(const char *file, uint32_t rank, FILE **out_p);

/*
 * Closes the file. 0, or the -errno of this or an earlier write; errno must have been 0 before the
 * first write.
 */
int csv_close(FILE *out);

#endif
