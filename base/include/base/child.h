/* SPDX-License-Identifier: MIT */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * Makes the kernel send SIGTERM to the calling process when the thread that forked it ends. @parent
 * is the process of that thread. Returns false if @parent has ended already, or the kernel refuses.
 */
static inline bool child_ends_with(pid_t parent)
{
	return !prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent;
}

#endif
