/* SPDX-License-Identifier: MIT */
/* The processes of a test. */
#ifndef COPYRPC_TEST_PROCESS_H
#define COPYRPC_TEST_PROCESS_H

#include <stdlib.h>
#include <sys/wait.h>

#include "support/test.h"

/* Calls @run in a child. The child ends with status 0 when @run returns, or by SIGALRM after
 * @guard_s seconds. */
static inline pid_t start_process(void (*run)(uint32_t arg), uint32_t arg, unsigned guard_s)
{
	pid_t pid = test_fork();

	if (pid)
		return pid;
	alarm(guard_s);
	run(arg);
	exit(0);
}

/* Waits for the ends of @n children, in any order, so that the first failure ends the test, and
 * with it the children that wait for the one that has failed. */
static inline void reap_processes(uint32_t n)
{
	int status;

	for (; n; n--) {
		CHECK(wait(&status) > 0);
		CHECK_EQ(status, 0);
	}
}

#endif
