/* SPDX-License-Identifier: MIT */
/* The files that tentbench writes. "-" is standard output, whose errors main() reports. */
#ifndef TENTBENCH_OUT_H
#define TENTBENCH_OUT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Prints why a file cannot be written. Returns the exit status. */
static inline int out_failed(const char *name, int err)
{
	fprintf(stderr, "tentbench: %s: %s\n", name,
		err ? strerror(err) : "not all could be written");
	return 1;
}

/* Opens a file for writing. *f_p is NULL if @name is. Returns the exit status. */
static inline int out_open(const char *name, FILE **f_p)
{
	*f_p = NULL;
	if (!name)
		return 0;
	*f_p = strcmp(name, "-") ? fopen(name, "we") : stdout;
	return *f_p ? 0 : out_failed(name, errno);
}

/* Closes a file, which may be NULL. Returns @status, or 1 if not all could be written. */
static inline int out_close(const char *name, FILE *f, int status)
{
	bool bad;
	int err;

	if (!f || f == stdout)
		return status;
	bad = ferror(f);
	err = fclose(f) ? errno : 0;
	return bad || err ? out_failed(name, err) : status;
}

#endif
