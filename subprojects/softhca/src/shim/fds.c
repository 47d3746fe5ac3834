/* SPDX-License-Identifier: MIT */
/* libc's functions that take a descriptor, and socket(), in front of libc. */
/* The 64-bit names below are functions of their own, not other names of the short ones. */
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/path.h"
#include "shim/real.h"
#include "uverbs/uverbs.h"

/*
 * libibverbs asks the kernel for its devices by netlink first, and looks into sysfs
 * only where that is not supported.
 */
EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return REAL(socket)(domain, type, protocol);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct uctx *u = uverbs_of_fd(fd);
	va_list ap;
	void *arg;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!u)
		return REAL(ioctl)(fd, request, arg);
	r = uverbs_ioctl(u, request, arg);
	if (!r)
		return 0;
	errno = -r;
	return -1;
}

EXPORT int close(int fd)
{
	uverbs_closing(fd);
	return REAL(close)(fd);
}

#define DEFINE_FSTAT(name, type)                                                                   \
	EXPORT int name(int fd, struct type *st)                                                   \
	{                                                                                          \
		struct uctx *u = uverbs_of_fd(fd);                                                 \
                                                                                                   \
		if (!u)                                                                            \
			return REAL(name)(fd, st);                                                 \
		path_device_stat((int)u->rail, (struct stat *)st);                                 \
		return 0;                                                                          \
	}

DEFINE_FSTAT(fstat, stat)
DEFINE_FSTAT(fstat64, stat64)
