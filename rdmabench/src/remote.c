/* SPDX-License-Identifier: MIT */
#include "remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"

bool remote_is_host(const char *host)
{
	return *host && *host != '-';
}

bool remote_quote(char *text, size_t size, const char *word)
{
	size_t at = strlen(text);

	if (at + 2 * strlen(word) * 2 + 4 > size)
		return false;
	text[at++] = ' ';
	text[at++] = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(text + at, "'\\''", 4);
			at += 4;
		} else {
			text[at++] = *word;
		}
	}
	text[at++] = '\'';
	text[at] = 0;
	return true;
}

void remote_explain(const struct process *p, char *why, size_t size)
{
	int status = WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);

	if (process_is_good(p))
		snprintf(why, size, "%s", "");
	else if (p->err == -ETIMEDOUT)
		snprintf(why, size, "it does not answer");
	else if (p->err)
		snprintf(why, size, "%s",
			p->err == -EMSGSIZE ? "it sends too much" : strerror(-p->err));
	else if (status == 127)
		snprintf(why, size, "there is no ssh, or no such program");
	else if (status == 255)
		snprintf(why, size, "ssh does not reach it");
	else
		snprintf(why, size, "ssh ended with status %d", status);
}

void remote_words(const char *words[REMOTE_WORDS + 1], char timeout[40], const char *host,
	const char *command, uint32_t timeout_s)
{
	const char *const all[REMOTE_WORDS + 1] = {"ssh", "-oBatchMode=yes", timeout, "--", host,
		command};

	snprintf(timeout, 40, "-oConnectTimeout=%u", timeout_s);
	memcpy(words, all, sizeof(all));
}

void remote_run(struct process *p, const char *const *hosts, size_t n, const char *command,
	uint32_t timeout_s)
{
	uint64_t deadline = clock_ns() + timeout_s * NSEC_PER_SEC;
	const char *argv[REMOTE_WORDS + 1];
	char timeout[40];

	for (size_t i = 0; i < n; i++) {
		remote_words(argv, timeout, hosts[i], command, timeout_s);
		process_start(&p[i], argv, true);
	}
	process_wait(p, n, REMOTE_OUTPUT_MAX, deadline);
}
