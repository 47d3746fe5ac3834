/* SPDX-License-Identifier: MIT */
/* Interposes ioctl(), write(), close(), dup(), fcntl() and their variants, and socket(). */
/* This macro makes the headers rename fcntl() and others to their 64-bit variants. */
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "shim/owner.h"
#include "shim/real.h"
#include "sys/fds.h"
#include "ucma/ucma.h"
#include "uverbs/uverbs.h"

/*
 * libibverbs searches devices by netlink first and reads sysfs only if netlink is not supported, so
 * the netlink socket is refused.
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

/* librdmacm writes commands to its event channels; all other descriptors are written as usual. */
EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	ssize_t r;

	if (!ucma_is_channel(fd))
		return REAL(write)(fd, buf, len);
	r = ucma_write(fd, buf, len);
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* Returns true if @fd is one of the descriptors that this library has opened for this process. */
static bool is_known(int fd)
{
	return fds_get(fd).kind != FD_OTHER && owner_is_self();
}

/*
 * Must be called before close(), or after dup2() has replaced @fd: no other thread may get the
 * number in between. Closes the descriptor's object if @fd was its last duplicate.
 */
static void closing(int fd)
{
	struct fd_entry e;

	if (!is_known(fd) || !fds_drop(fd, &e) || !fabric_self.arena)
		return;
	if (e.kind == FD_CM)
		ucma_close(&e);
	else
		uverbs_close(&e);
}

EXPORT int close(int fd)
{
	closing(fd);
	return REAL(close)(fd);
}

/*
 * Records that @fd is a duplicate of @from, unless @fd is -1. Returns the result for the program.
 */
static int duplicated(int from, int fd)
{
	int r = fd < 0 || !is_known(from) ? 0 : fds_duplicate(from, fd);

	if (!r)
		return fd;
	REAL(close)(fd);
	errno = -r;
	return -1;
}

/* Does the same after dup2() or dup3() from @from to @to, which close @to if it is open. */
static int replaced(int from, int to, int fd)
{
	if (fd < 0)
		return fd;
	if (from != to)
		closing(to);
	return duplicated(from, fd);
}

EXPORT int dup(int fd)
{
	return duplicated(fd, REAL(dup)(fd));
}

EXPORT int dup2(int fd, int to)
{
	return replaced(fd, to, REAL(dup2)(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	return replaced(fd, to, REAL(dup3)(fd, to, flags));
}

/* Every kind of argument fits into a pointer. */
#define DEFINE_FCNTL(name)                                                                         \
	EXPORT int name(int fd, int cmd, ...)                                                      \
	{                                                                                          \
		va_list ap;                                                                        \
		void *arg;                                                                         \
		int r;                                                                             \
                                                                                                   \
		va_start(ap, cmd);                                                                 \
		arg = va_arg(ap, void *);                                                          \
		va_end(ap);                                                                        \
		r = REAL(name)(fd, cmd, arg);                                                      \
		return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? duplicated(fd, r) : r;           \
	}

DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)
