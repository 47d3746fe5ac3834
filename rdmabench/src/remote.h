/* SPDX-License-Identifier: MIT */
/* Runs commands on other machines with ssh(1), all at the same time. */
#ifndef RDMABENCH_REMOTE_H
#define RDMABENCH_REMOTE_H

#include "base/process.h"

#define REMOTE_OUTPUT_MAX (64u << 20) /* longest accepted output of one host, bytes */

/* Returns false for an empty name, and for a name that ssh would take for an option. */
bool remote_is_host(const char *host);

#define REMOTE_WORDS 6

/*
 * Writes the words of an ssh command, which runs @command in a shell on the host. The host must
 * answer within @timeout_s seconds. The words point to @timeout, which receives the text of an
 * option.
 */
void remote_words(const char *words[REMOTE_WORDS + 1], char timeout[40], const char *host,
	const char *command, uint32_t timeout_s);

/*
 * Runs the command in a shell on each of the hosts ([USER@]HOST, which no shell of this machine
 * interprets), and waits at most timeout_s seconds.
 */
void remote_run(struct process *p, const char *const *hosts, size_t n, const char *command,
	uint32_t timeout_s);

/* Writes the reason of a failure, or "". */
void remote_explain(const struct process *p, char *why, size_t size);

/* Appends a word to @text, quoted so that a shell takes it literally. Returns false if it does not
 * fit. */
bool remote_quote(char *text, size_t size, const char *word);

#endif
