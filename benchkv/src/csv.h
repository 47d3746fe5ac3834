/* SPDX-License-Identifier: MIT */
/* Files of comma-separated values that each rank writes at the end, if it was asked to: FILE.RANK. */
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

/* The option that asks for it, and what it was given; NULL: it was not. */
const char *csv_option(enum csv_file f);
const char *csv_value(const struct options *o, enum csv_file f);

/* <file>.<rank>, cut off if it is too long. */
void csv_name(const char *file, uint32_t rank, char name[CSV_NAME_MAX]);

/* Opens that file for writing. 0 or -errno. */
int csv_open(const char *file, uint32_t rank, FILE **out_p);

/* The end: 0, or -errno of this or of an earlier write. errno must have been 0 before the first one. */
int csv_close(FILE *out);

#endif
