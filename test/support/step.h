/* SPDX-License-Identifier: MIT */
/* For tests that kill a process between two chosen instructions, by ptrace(2). */
#ifndef SUPPORT_STEP_H
#define SUPPORT_STEP_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

/* Must be called by the victim: lets its parent trace it, and stops it. */
static inline void step_trace_me(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(90);
	raise(SIGSTOP);
}

/*
 * Waits until the victim stops and returns the signal: SIGSTOP if the victim stopped itself,
 * SIGTRAP after a step. Returns 0 if the victim has exited with status 0. While it waits, it calls
 * idle(arg) repeatedly, unless idle is NULL.
 */
static inline int step_wait(pid_t pid, void (*idle)(void *arg), void *arg)
{
	int status = 0;
	pid_t got;

	while (!(got = waitpid(pid, &status, idle ? WNOHANG | __WALL : __WALL))) {
		idle(arg);
		sched_yield();
	}
	CHECK_EQ(got, pid);
	if (WIFEXITED(status)) {
		CHECK_EQ(WEXITSTATUS(status), 0);
		return 0;
	}
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

/* Continues the victim by @request (PTRACE_SINGLESTEP, ...). Returns step_wait()'s result. */
static inline int step_next(pid_t pid, int request, void (*idle)(void *arg), void *arg)
{
	CHECK_EQ(ptrace(request, pid, NULL, NULL), 0);
	return step_wait(pid, idle, arg);
}

/* Kills the victim, which must not have exited before, and waits for its end. */
static inline void step_kill(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	do
		CHECK_EQ(waitpid(pid, &status, __WALL), pid);
	while (WIFSTOPPED(status));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
