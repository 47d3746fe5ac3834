/* SPDX-License-Identifier: MIT */
/* Commands on other machines, by ssh(1), all at the same time. */
#ifndef RDMABENCH_REMOTE_H
#define RDMABENCH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTE_OUTPUT_MAX (64u << 20) /* most bytes that are taken of one host's output */

struct remote {
	const char *host; /* [USER@]HOST; no shell of this machine sees it */
	int pid, fd; /* fd < 0: the command has ended */
	char *out; /* its output, len bytes; the caller frees it */
	size_t len;
	char why[120]; /* "" or the reason of a failure */
};

/* Returns false for an empty name, and for one that ssh would take for an option. */
bool remote_is_host(const char *host);

/* Runs the command in a shell on each of the hosts, and waits at most timeout_s seconds. */
void remote_run(struct remote *r, size_t n, const char *command, uint32_t timeout_s);

/* Appends a word to text, quoted so that a shell takes it literally. False: it does not fit. */
bool remote_quote(char *text, size_t size, const char *word);

#endif
