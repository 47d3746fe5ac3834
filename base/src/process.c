/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/tcp.h"

#define CHUNK 65536

/* Makes @to, which may be @fd itself, a copy of @fd that stays open in the command. */
static bool give(int fd, int to)
{
	return fd == to ? !fcntl(fd, F_SETFD, 0) : dup2(fd, to) == to;
}

static void in_child(pid_t parent, const char *const *argv, bool quiet, int out)
{
	int null = quiet ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

	setpgid(0, 0); /* so that signals of the terminal do not reach it */
	if (!child_ends_with(parent) || !give(out, 1))
		_exit(126);
	if (quiet && (null < 0 || !give(null, 0) || !give(null, 2)))
		_exit(126);
	execvp(argv[0], (char **)argv);
	_exit(127);
}

void process_start(struct process *p, const char *const *argv, bool quiet)
{
	pid_t parent = getpid();
	int out[2];

	*p = (struct process){.fd = -1};
	if (pipe2(out, O_CLOEXEC)) {
		p->err = -errno;
		return;
	}
	p->pid = fork();
	if (!p->pid)
		in_child(parent, argv, quiet, out[1]);
	if (p->pid > 0)
		setpgid(p->pid, p->pid); /* here as well, because the child may not have run yet */
	p->err = p->pid < 0 ? -errno : 0;
	close(out[1]);
	if (p->err)
		close(out[0]);
	else
		p->fd = out[0];
}

static void finish(struct process *p, int err)
{
	close(p->fd);
	p->fd = -1;
	p->err = err;
	if (err) {
		kill(-p->pid, SIGKILL); /* ends the processes that it started as well */
		kill(p->pid, SIGKILL);
	}
	while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
		;
}

/* A process may run on after it has closed its standard output, so its end is waited for by poll(),
 * too. Without a descriptor for that, waits here. */
static void await_end(struct process *p)
{
	int fd = pidfd_open(p->pid, 0);

	if (fd < 0) {
		finish(p, 0);
		return;
	}
	close(p->fd);
	p->fd = fd;
	p->at_end = true;
}

static void read_some(struct process *p, size_t max)
{
	char *out = realloc(p->out, p->len + CHUNK);
	ssize_t n;

	if (!out) {
		finish(p, -ENOMEM);
		return;
	}
	p->out = out;
	n = read(p->fd, out + p->len, CHUNK);
	if (n < 0 && errno == EINTR)
		return;
	p->len += n > 0 ? (size_t)n : 0;
	if (p->len > max)
		finish(p, -EMSGSIZE);
	else if (n <= 0)
		await_end(p);
}

/* Ends the processes that have not ended. */
static void abandon(struct process *p, size_t n, int err)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i].fd >= 0)
			finish(&p[i], err);
	}
}

void process_wait(struct process *p, size_t n, size_t max, uint64_t deadline_ns)
{
	struct pollfd polled[PROCESSES_MAX];

	for (;;) {
		int left_ms = tcp_left_ms(deadline_ns);
		bool open = false;

		for (size_t i = 0; i < n; i++) {
			polled[i] = (struct pollfd){.fd = p[i].fd, .events = POLLIN};
			open = open || p[i].fd >= 0;
		}
		if (!open)
			return;
		if (poll(polled, n, left_ms) < 0) {
			if (errno != EINTR)
				abandon(p, n, -errno);
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			if (p[i].fd >= 0 && polled[i].revents && p[i].at_end)
				finish(&p[i], 0);
			else if (p[i].fd >= 0 && polled[i].revents)
				read_some(&p[i], max);
			else if (p[i].fd >= 0 && !left_ms)
				finish(&p[i], -ETIMEDOUT);
		}
	}
}

bool process_is_good(const struct process *p)
{
	return !p->err && !p->status;
}
