/* SPDX-License-Identifier: MIT */
/* The files that a program writes. Buffered output may fail as late as when the file is closed. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Prints why a file cannot be written (@err: errno; 0: not known). Returns 1, the exit status. */
static inline int output_failed(const char *program, const char *name, int err)
{
	fprintf(stderr, "%s: %s: %s\n", program, name,
		err ? strerror(err) : "not all could be written");
	return 1;
}

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
	return output_failed(program, "standard output", err);
}

/* Opens the file with this mode of fopen(). The name "-" means standard output. If @name is NULL,
 * *f_p becomes NULL. Returns 0, or 1 if the file cannot be opened. */
static inline int output_open(const char *program, const char *name, const char *mode, FILE **f_p)
{
	*f_p = !name ? NULL : strcmp(name, "-") ? fopen(name, mode) : stdout;
	return *f_p || !name ? 0 : output_failed(program, name, errno);
}

/* Closes the file, unless it is NULL or standard output, whose errors output_end() reports. Returns
 * @status, or 1 if not all could be written. */
static inline int output_close(const char *program, const char *name, FILE *f, int status)
{
	bool bad;
	int err;

	if (!f || f == stdout)
		return status;
	bad = ferror(f);
	err = fclose(f) ? errno : 0;
	return bad || err ? output_failed(program, name, err) : status;
}

/*
 * Checks that the file of an option can be written, before a program begins long work. Creates the
 * file if there is none; does not change its contents.
 */
static inline bool output_try(const char *program, const char *option, const char *name)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "ae") : stdout;

	if (!f)
		fprintf(stderr, "%s: %s '%s': %s: give a file that can be written\n", program,
			option, name, strerror(errno));
	else if (f != stdout)
		fclose(f);
	return f;
}

#endif
