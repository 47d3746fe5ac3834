/* SPDX-License-Identifier: MIT */
/* Sentences that say in one line why something failed. Each function returns err. */
#ifndef BENCHKV_WHY_H
#define BENCHKV_WHY_H

/* The sentence, then the text of the -errno. */
__attribute__((format(printf, 4, 5))) int why_failed(char *why, int size, int err, const char *fmt,
	...);

/* A region of shared memory cannot be made; a client cannot connect to one. */
int why_no_region(char *why, int size, int err, const char *name);
int why_no_daemon(char *why, int size, int err);

#endif
