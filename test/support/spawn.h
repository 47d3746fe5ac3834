/* SPDX-License-Identifier: MIT */
/* For tests with a process that dies: a child that stays until it is killed. */
#ifndef SUPPORT_SPAWN_H
#define SUPPORT_SPAWN_H

#include <unistd.h>

#include "support/test.h"

/*
 * Starts a child, which runs fn (unless that is NULL) and then stays until it is killed. Returns
 * the child's pid when fn has returned.
 */
static inline pid_t spawn(void (*fn)(void))
{
	pid_t pid;
	int p[2];
	char c;

	CHECK_EQ(pipe(p), 0);
	pid = test_fork();
	if (!pid) {
		if (fn)
			fn();
		if (write(p[1], "x", 1) != 1)
			_exit(3);
		for (;;)
			pause();
	}
	close(p[1]);
	CHECK_EQ(read(p[0], &c, 1), 1);
	close(p[0]);
	return pid;
}

#endif
