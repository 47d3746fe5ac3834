/* SPDX-License-Identifier: MIT */
/* Linked to the phone book: its second fork() fails. */
#include <errno.h>
#include <unistd.h>

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
	static int calls;

	if (++calls != 2)
		return __real_fork();
	errno = EAGAIN;
	return -1;
}
