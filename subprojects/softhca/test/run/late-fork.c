/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: a process that has made its second child executes nothing any more. On a busy machine
 * softhca-run may come to nothing before it is killed.
 */
#include <sys/syscall.h>
#include <unistd.h>

pid_t fork(void)
{
	static int children;
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (pid > 0 && ++children == 2)
		pause();
	return pid;
}
