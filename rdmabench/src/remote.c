/* SPDX-License-Identifier: MIT */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define CHUNK 65536

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

static void in_child(const struct remote *r, const char *command, uint32_t timeout_s, int out)
{
	char timeout[40];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(timeout, sizeof(timeout), "-oConnectTimeout=%u", timeout_s);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	setpgid(0, 0);
	execlp("ssh", "ssh", "-oBatchMode=yes", timeout, "--", r->host, command, (char *)NULL);
	_exit(127);
}

static void start(struct remote *r, const char *command, uint32_t timeout_s)
{
	int pipe_fd[2];

	r->fd = -1;
	r->out = NULL;
	r->len = 0;
	r->why[0] = 0;
	if (pipe2(pipe_fd, O_CLOEXEC)) {
		snprintf(r->why, sizeof(r->why), "%s", strerror(errno));
		return;
	}
	r->pid = fork();
	if (!r->pid)
		in_child(r, command, timeout_s, pipe_fd[1]);
	close(pipe_fd[1]);
	if (r->pid < 0) {
		snprintf(r->why, sizeof(r->why), "%s", strerror(errno));
		close(pipe_fd[0]);
		return;
	}
	r->fd = pipe_fd[0];
}

static void finish(struct remote *r, bool stop)
{
	int status = 0;

	close(r->fd);
	r->fd = -1;
	if (stop) {
		kill(-r->pid, SIGKILL); /* ends the processes that ssh started as well */
		kill(r->pid, SIGKILL);
	}
	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r->why[0] || !status)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		snprintf(r->why, sizeof(r->why), "there is no ssh, or not what it should run");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 255)
		snprintf(r->why, sizeof(r->why), "ssh does not reach it");
	else
		snprintf(r->why, sizeof(r->why), "ssh ended with status %d",
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void read_some(struct remote *r)
{
	char *out = realloc(r->out, r->len + CHUNK);
	ssize_t n = -1;

	if (out) {
		r->out = out;
		n = read(r->fd, r->out + r->len, CHUNK);
	}
	if (n > 0)
		r->len += (size_t)n;
	if (n < 0 && out && errno == EINTR)
		return;
	if (r->len > REMOTE_OUTPUT_MAX || !out)
		snprintf(r->why, sizeof(r->why), "it sends too much");
	if (n <= 0 || r->why[0])
		finish(r, r->why[0]);
}

/* Returns the milliseconds that are left; 0: none. */
static int left_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_ns();

	return now < deadline_ns ? (int)((deadline_ns - now) / NSEC_PER_MSEC) + 1 : 0;
}

/* Waits for output. False when all commands have ended. */
static bool wait_for_output(struct remote *r, size_t n, struct pollfd *p, uint64_t deadline_ns)
{
	bool open = false;

	for (size_t i = 0; i < n; i++) {
		p[i] = (struct pollfd){.fd = r[i].fd, .events = POLLIN};
		open = open || r[i].fd >= 0;
	}
	if (!open)
		return false;
	if (poll(p, n, left_ms(deadline_ns)) < 0)
		memset(p, 0, n * sizeof(*p));
	return true;
}

void remote_run(struct remote *r, size_t n, const char *command, uint32_t timeout_s)
{
	uint64_t deadline = clock_ns() + timeout_s * NSEC_PER_SEC;
	struct pollfd *p = calloc(n, sizeof(*p));

	for (size_t i = 0; p && i < n; i++)
		start(&r[i], command, timeout_s);
	while (p && wait_for_output(r, n, p, deadline)) {
		bool late = !left_ms(deadline);

		for (size_t i = 0; i < n; i++) {
			if (r[i].fd >= 0 && p[i].revents) {
				read_some(&r[i]);
			} else if (r[i].fd >= 0 && late) {
				snprintf(r[i].why, sizeof(r[i].why), "it does not answer");
				finish(&r[i], true);
			}
		}
	}
	free(p);
}
