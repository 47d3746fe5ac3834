/* SPDX-License-Identifier: MIT */
/*
 * Stands in for a sandbox: each sendto(2) of the process fails with nosend_errno, unless that is 0.
 * Only one file of a program may include this header; link with -Wl,--wrap=sendto.
 */
#ifndef SUPPORT_NOSEND_H
#define SUPPORT_NOSEND_H

#include <errno.h>
#include <sys/socket.h>

static int nosend_errno;

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n);

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *sa,
	socklen_t n)
{
	int err = __atomic_load_n(&nosend_errno, __ATOMIC_RELAXED);

	if (!err)
		return __real_sendto(fd, buf, len, flags, sa, n);
	errno = err;
	return -1;
}

#endif
