/* SPDX-License-Identifier: MIT */
/* The processes of a test. */
#ifndef COPYRPC_TEST_PROCESS_H
#define COPYRPC_TEST_PROCESS_H

#include <stdlib.h>
#include <sys/wait.h>

#include "base/child.h"
#include "support/test.h"

/* Calls @run in a child, which ends with status 0 when it returns, and with SIGALRM after
 * @guard_s. */
static inline pid_t start_process(void (*run)(uint32_t arg), uint32_t arg, unsigned guard_s)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK(child_ends_with(getppid()));
	alarm(guard_s);
	run(arg);
	exit(0);
}

/* Waits for the end of the process: by the signal, or with status 0 if @signal is 0. */
static inline void end_process(pid_t pid, int signal)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status), signal);
}

#endif
