/* SPDX-License-Identifier: MIT */
/*
 * System calls that bypass libc's functions, because this library interposes some of
 * them, and other tools (UCX's memory hooks, sanitizers) patch more. They are safe in a
 * signal handler, return a value or -errno as the kernel does, and do not change errno.
 */
#ifndef SOFTHCA_SYS_SYS_H
#define SOFTHCA_SYS_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long sys_result(long r, int saved)
{
	long e = r < 0 ? -errno : r;

	errno = saved;
	return e;
}

#define SYS(...)                                                                                   \
	({                                                                                         \
		int saved_errno_ = errno;                                                          \
		sys_result(syscall(__VA_ARGS__), saved_errno_);                                    \
	})

static inline int sys_open(const char *path, int flags, mode_t mode)
{
	return (int)SYS(SYS_openat, AT_FDCWD, path, flags, mode);
}

static inline int sys_close(int fd)
{
	return (int)SYS(SYS_close, fd);
}

static inline long sys_read(int fd, void *buf, size_t n)
{
	return SYS(SYS_read, fd, buf, n);
}

static inline long sys_write(int fd, const void *buf, size_t n)
{
	return SYS(SYS_write, fd, buf, n);
}

/* Reads the beginning of a file as a text. Returns false if the file is empty or cannot be read. */
static inline bool sys_read_text(const char *path, char *text, size_t size)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	long n;

	if (fd < 0)
		return false;
	n = sys_read(fd, text, size - 1);
	sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static inline int sys_fstat(int fd, struct stat *st)
{
	return (int)SYS(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
}

/*
 * Returns true if this process may make a file of @bytes. Making a larger one would end the process
 * (SIGXFSZ).
 */
static inline bool sys_may_make(uint64_t bytes)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && bytes <= limit.rlim_cur;
}

/* Returns a clock's time in nanoseconds. Asks libc, which usually needs no system call for it. */
static inline uint64_t sys_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int sys_fcntl(int fd, int cmd, void *arg)
{
	return (int)SYS(SYS_fcntl, fd, cmd, arg);
}

#define DESCRIPTORS_OF_PROGRAMS 64 /* programs may expect low numbers for their own files */

/*
 * Duplicates @fd for this library. Returns the new descriptor, with a high number if one is free.
 */
static inline int sys_duplicate(int fd)
{
	int copy = (int)SYS(SYS_fcntl, fd, F_DUPFD_CLOEXEC, DESCRIPTORS_OF_PROGRAMS);

	return copy < 0 ? (int)SYS(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0) : copy;
}

#endif
