/* SPDX-License-Identifier: MIT */
/* Runs commands on other machines with ssh(1), all at the same time. */
#ifndef RDMABENCH_REMOTE_H
#define RDMABENCH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTE_OUTPUT_MAX (64u << 20) /* longest accepted output of one host, bytes */

struct remote {
	const char *host; /* [USER@]HOST; it is not passed to a shell of this machine */
	int pid, fd; /* fd < 0: the command has ended */
	char *out; /* its output, len bytes; the caller frees it */
	size_t len;
	char why[120]; /* "" or the reason of a failure */
};

/* Returns false for an empty name, and for a name that ssh would take for an option. */
bool remote_is_host(const char *host);

/* Runs the command in a shell on each of the hosts, and waits at most timeout_s seconds. */
void remote_run(struct remote *r, size_t n, const char *command, uint32_t timeout_s);

/* Appends a word to @text, quoted so that a shell takes it literally. Returns false if it does not
 * fit. */
bool remote_quote(char *text, size_t size, const char *word);

#endif
