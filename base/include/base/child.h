/* SPDX-License-Identifier: MIT */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * A child must call this function if it is to get SIGTERM when the thread that made it ends for any
 * reason. Returns false if the parent has ended already, or the kernel refuses.
 */
static inline bool child_ends_with(pid_t parent)
{
	return !prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent;
}

#endif
