/* SPDX-License-Identifier: MIT */
/* Runs commands at the same time, and collects their outputs. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESSES_MAX 256

struct process {
	int pid;
	int fd; /* pipe of its standard output, then its pidfd; < 0: it has ended */
	bool at_end; /* its standard output is closed; fd is the pidfd */
	char *out; /* its standard output, len bytes; the caller frees it */
	size_t len;
	int err; /* why it was not started, or was killed: -errno; see process_wait() */
	int status; /* as waitpid(2) returns it */
};

/*
 * Starts a command in its own process group; argv[0] is searched for in PATH. With @quiet its
 * standard input and standard error are /dev/null. The kernel sends it SIGTERM when this thread
 * ends.
 */
void process_start(struct process *p, const char *const *argv, bool quiet);

/*
 * Waits until @n processes, at most PROCESSES_MAX, have closed their standard outputs and ended. A
 * process that has not done so at the deadline, a time of clock_ns(), is killed with its group
 * (-ETIMEDOUT). The same happens to a process that prints more than @max bytes (-EMSGSIZE),
 * or for whose output there is no memory (-ENOMEM), and to all of them if poll() fails (its -errno).
 */
void process_wait(struct process *p, size_t n, size_t max, uint64_t deadline_ns);

/* Returns true if the command was run and ended with status 0. */
bool process_is_good(const struct process *p);

#endif
