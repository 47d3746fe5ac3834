/* SPDX-License-Identifier: MIT */
/*
 * Interposes ioctl(), read(), write(), close(), close_range(), closefrom(), dup(), fcntl() and their
 * variants, and socket().
 */
/* This macro makes the headers rename fcntl() and others to their 64-bit variants. */
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "shim/owner.h"
#include "shim/real.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "ucma/ucma.h"
#include "uverbs/reads.h"
#include "uverbs/uverbs.h"

static int fail(int error)
{
	errno = error;
	return -1;
}

/*
 * Returns the kind of @fd. In a child for which owner_is_self() is false, every descriptor is
 * FD_OTHER.
 */
static enum fd_kind kind_of(int fd)
{
	enum fd_kind kind = fds_get(fd).kind;

	return kind == FD_OTHER || owner_is_self() ? kind : FD_OTHER;
}

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
	struct uctx *u = kind_of(fd) == FD_DEVICE ? uverbs_of_fd(fd) : NULL;
	va_list ap;
	void *arg;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!u)
		return REAL(ioctl)(fd, request, arg);
	r = uverbs_ioctl(u, request, arg);
	return r ? fail(-r) : 0;
}

/* libibverbs reads completion events from channels. The HCA counts them; see uverbs/reads.h. */
EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	bool counted = kind_of(fd) == FD_CHANNEL;
	ssize_t n = REAL(read)(fd, buf, len);

	if (counted && n > 0)
		reads_add(buf, (size_t)n);
	return n;
}

/* librdmacm writes commands to its event channels; all other descriptors are written as usual. */
EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	ssize_t r;

	if (kind_of(fd) != FD_CM)
		return REAL(write)(fd, buf, len);
	r = ucma_write(fd, buf, len);
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/*
 * Must be called before close(), or after dup2() has replaced @fd: no other thread may get the
 * number in between. Closes the descriptor's object if @fd was its last duplicate.
 */
static void closing(int fd)
{
	struct fd_entry e;

	if (kind_of(fd) == FD_OTHER || !fds_drop(fd, &e) || !fabric_self.arena)
		return;
	if (e.kind == FD_CM)
		ucma_close(&e);
	else
		uverbs_close(&e);
}

/* The program has not opened the library's own descriptors, so for the program they are closed. */
EXPORT int close(int fd)
{
	if (kind_of(fd) == FD_OWN)
		return 0;
	closing(fd);
	return REAL(close)(fd);
}

/*
 * Closes the descriptors from @first to @last except the library's own. If close_range() is missing
 * (before Linux 5.9) or forbidden, the objects of the descriptors up to the first call that fails are
 * closed nevertheless, but the program will close the descriptors one by one.
 * @objects: the objects of the descriptors are closed, too.
 */
static int close_each(unsigned first, unsigned last, int flags, bool objects)
{
	for (int fd = fds_next(first); fd >= 0 && (unsigned)fd <= last;
		fd = fds_next((unsigned)fd + 1)) {
		if (objects)
			closing(fd);
		if (kind_of(fd) != FD_OWN)
			continue;
		if ((unsigned)fd > first && REAL(close_range)(first, (unsigned)fd - 1, flags))
			return -1;
		first = (unsigned)fd + 1;
	}
	return first <= last ? REAL(close_range)(first, last, flags) : 0;
}

/* Returns true if the program has several threads. The library's own threads do not count. */
static bool has_threads(void)
{
	uint32_t own = thread_count();
	struct stat st;

	/* Two links, and one for each thread's directory. */
	return SYS(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) || st.st_nlink > 3 + own;
}

/*
 * Other flags are wrong, or only mark the descriptors: CLOSE_RANGE_CLOEXEC. With CLOSE_RANGE_UNSHARE
 * only the calling thread loses the descriptors, so the objects are kept if the program has other
 * threads. Then the calling thread's next file with an object's number is taken for the object.
 */
EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (first > last || flags & ~CLOSE_RANGE_UNSHARE)
		return REAL(close_range)(first, last, flags);
	if (!has_threads())
		flags = 0; /* nothing of the program shares the descriptors */
	return close_each(first, last, flags, !flags);
}

/*
 * Closes the descriptors from @first on that @dir lists, except @dir and the library's own. Returns
 * true if there were any: the kernel may leave some out of a list that becomes shorter meanwhile.
 */
static bool close_listed(int dir, int first)
{
	char list[1024] __attribute__((aligned(8)));
	bool any = false;
	long n;

	SYS(SYS_lseek, dir, 0, SEEK_SET);
	while ((n = SYS(SYS_getdents64, dir, list, sizeof(list))) > 0)
		for (long at = 0; at < n;) {
			const struct dirent64 *e = (const struct dirent64 *)(list + at);
			int fd = atoi(e->d_name);

			at += e->d_reclen;
			if (*e->d_name == '.' || fd < first || fd == dir || kind_of(fd) == FD_OWN)
				continue;
			any |= !close(fd);
		}
	return any;
}

/*
 * Does the same as libc's closefrom() without close_range(), which would close the library's own
 * descriptors. Without /proc it tries all numbers below RLIMIT_NOFILE.
 */
static void close_one_by_one(int first)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int dir = sys_open("/proc/self/fd", flags, 0);

	for (; dir < 0 && first < getdtablesize(); first++) {
		close(first);
		dir = sys_open("/proc/self/fd", flags, 0);
	}
	while (dir >= 0 && close_listed(dir, first))
		;
	sys_close(dir);
}

EXPORT void closefrom(int first)
{
	if (first < 0)
		first = 0;
	if (close_each((unsigned)first, UINT_MAX, 0, true))
		close_one_by_one(first);
}

/*
 * Records that @fd is a duplicate of @from, unless @fd is -1. Returns the result for the program.
 */
static int duplicated(int from, int fd)
{
	bool others = kind_of(from) == FD_OTHER && kind_of(fd) == FD_OTHER;
	int r = fd < 0 || others ? 0 : fds_duplicate(from, fd);

	if (!r)
		return fd;
	REAL(close)(fd);
	return fail(-r);
}

/* Calls dup3(), or dup2() if @flags is NULL. */
static int real_dup(int from, int to, const int *flags)
{
	return flags ? REAL(dup3)(from, to, *flags) : REAL(dup2)(from, to);
}

/* Calls real_dup() after it has moved the library's own descriptor away from @to. */
static int replace_own(int from, int to, const int *flags)
{
	int moved, fd;

	fds_hold();
	moved = fds_move(to);
	fd = moved < 0 ? fail(-moved) : real_dup(from, to, flags);
	if (fd < 0 && moved > 0)
		sys_close(to);
	fds_release();
	return fd;
}

/* Does the same as duplicated() for dup3(), or for dup2() if @flags is NULL. These close @to. */
static int replace(int from, int to, const int *flags)
{
	int fd;

	if (from == to)
		return real_dup(from, to, flags);
	if (kind_of(to) == FD_OWN)
		fd = replace_own(from, to, flags);
	else
		fd = real_dup(from, to, flags);
	if (fd < 0)
		return fd;
	closing(to);
	return duplicated(from, fd);
}

EXPORT int dup(int fd)
{
	return duplicated(fd, REAL(dup)(fd));
}

EXPORT int dup2(int fd, int to)
{
	return replace(fd, to, NULL);
}

EXPORT int dup3(int fd, int to, int flags)
{
	return replace(fd, to, &flags);
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
