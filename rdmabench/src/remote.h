/* SPDX-License-Identifier: MIT */
/* Commands on other machines, by ssh(1), all at the same time. */
#ifndef RDMABENCH_REMOTE_H
#define RDMABENCH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTE_OUTPUT_MAX (64u << 20) /* bytes that are taken of one host's output */

struct remote {
	const char *host; /* [USER@]HOST; no shell of this machine sees it */
	int pid, fd; /* fd < 0: it is over */
	char *out; /* what it wrote, len bytes; the caller frees it */
	size_t len;
	char why[120]; /* "" all went well; else what did not */
};

/* A host that ssh would take for an option, or that is empty, is none. */
bool remote_is_host(const char *host);

/* Runs the command, which the shells there read, on all hosts; waits, at most so long. */
void remote_run(struct remote *r, size_t n, const char *command, uint32_t timeout_s);

/*
 * Appends a word for a shell to text: it stands for itself, whatever is in it. False: it does
 * not fit.
 */
bool remote_quote(char *text, size_t size, const char *word);

#endif
