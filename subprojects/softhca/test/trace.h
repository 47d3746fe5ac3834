/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_TRACE_H
#define SOFTHCA_TEST_TRACE_H

/* Threads of children that a test traces with ptrace. A failure ends the test. */

#include <signal.h>
#include <sys/ptrace.h>

#include "child.h"

/*
 * Returns the signal that a thread gets when it is continued after a stop with @sig. SIGSEGV and
 * SIGBUS are passed on, because a thread raises them when it rings a doorbell.
 */
static inline int trace_signal(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS ? sig : 0;
}

/*
 * Runs a stopped thread to the entry of its next system call @nr. @sig: the signal that it gets
 * first. The tracer must have set PTRACE_O_TRACESYSGOOD.
 */
static inline void trace_to_entry(pid_t tid, int sig, long nr)
{
	struct __ptrace_syscall_info info;

	for (;;) {
		CHECK(!ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(intptr_t)sig));
		sig = test_stopped(tid);
		if (sig != (SIGTRAP | 0x80)) {
			sig = trace_signal(sig);
			continue;
		}
		sig = 0;
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY && (long)info.entry.nr == nr)
			return;
	}
}

/*
 * Kills a child with a traced thread. The end of a thread other than the main one must be waited for
 * before that of the child.
 */
static inline void trace_kill(pid_t pid, pid_t tid)
{
	int status;

	CHECK(!kill(pid, SIGKILL));
	if (tid != pid)
		CHECK_EQ(waitpid(tid, &status, __WALL), tid);
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
}

#endif
