/* SPDX-License-Identifier: MIT */
/* These functions write an error message of one line to @why, and return @err. */
#ifndef BENCHKV_WHY_H
#define BENCHKV_WHY_H

/* Writes the formatted sentence, then the text of the -errno. */
__attribute__((format(printf, 4, 5))) int why_failed(char *why, int size, int err, const char *fmt,
	...);

/* Errors: a region of shared memory cannot be created; a client cannot connect to a daemon. */
int why_no_region(char *why, int size, int err, const char *name);
int why_no_daemon(char *why, int size, int err);

#endif
