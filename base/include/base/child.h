/* SPDX-License-Identifier: MIT */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * In a child, which gets SIGTERM when the thread that has made it ends, however that comes. False:
 * the parent has ended already, or the kernel refuses.
 */
static inline bool child_ends_with(pid_t parent)
{
	return !prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent;
}

#endif
