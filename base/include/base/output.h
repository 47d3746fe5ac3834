/* SPDX-License-Identifier: MIT */
/* The end of a program that prints: buffered output may still fail to be written. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * Returns the exit status of the program: `status` if it is not 0; otherwise 1, with a line on
 * standard error, if standard output could not be written; otherwise 0.
 */
static inline int output_end(const char *program, int status)
{
	bool bad = ferror(stdout);
	int err = fflush(stdout) ? errno : 0;

	if (status || (!bad && !err))
		return status;
	fprintf(stderr, "%s: standard output: %s\n", program,
		err ? strerror(err) : "not all could be written");
	return 1;
}

#endif
