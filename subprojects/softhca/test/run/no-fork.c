/* SPDX-License-Identifier: MIT */
/* Preloaded: simulates a machine on which no process can be made. */
#include <errno.h>
#include <unistd.h>

pid_t fork(void)
{
	errno = EAGAIN;
	return -1;
}
