/* SPDX-License-Identifier: MIT */
/* The end of a program that prints: what is buffered may still fail to be written. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * The status to end with: 1, and a line on standard error, where standard output did not take all; a
 * program that has failed has said why.
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
