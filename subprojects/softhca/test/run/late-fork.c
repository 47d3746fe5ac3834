/* SPDX-License-Identifier: MIT */
/*
 * This library is preloaded into softhca-run. The process pauses after it has made its second
 * child. So the test can kill softhca-run before it executes anything after that fork, as may
 * happen on a busy machine.
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
