/* SPDX-License-Identifier: MIT */
/*
 * Interposes the stat() family, by path and by descriptor, including the names that programs
 * used before glibc 2.33.
 */
/* This macro makes the headers rename stat() and others to their 64-bit variants. */
#undef _FILE_OFFSET_BITS

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "shim/owner.h"
#include "shim/path.h"
#include "shim/real.h"
#include "ucma/ucma.h"
#include "uverbs/uverbs.h"

/* Headers no longer declare these. @version: version of struct stat; there is only one. */
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

/* Returns the number of the emulated device that @fd has open, or -1. */
static int device_of_fd(int fd)
{
	struct uctx *u = uverbs_of_fd(fd);

	if (!u && !ucma_is_channel(fd))
		return -1;
	if (!owner_is_self())
		return -1;
	return u ? (int)u->rail : PATH_CM;
}

/* Returns the number of the emulated device that the arguments of an "at" function name, or -1. */
static int device_at(int dir, const char *path, int flags)
{
	if (path && *path)
		return path_device(path);
	return flags & AT_EMPTY_PATH ? device_of_fd(dir) : -1;
}

#define DEFINE_STAT(name, type)                                                                    \
	EXPORT int name(const char *path, struct type *st)                                         \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		int n = path_device(path);                                                         \
                                                                                                   \
		if (n < 0)                                                                         \
			return REAL(name)(path_map(path, buf), st);                                \
		path_device_stat(n, (struct stat *)st);                                            \
		return 0;                                                                          \
	}

#define DEFINE_FSTAT(name, type)                                                                   \
	EXPORT int name(int fd, struct type *st)                                                   \
	{                                                                                          \
		int n = device_of_fd(fd);                                                          \
                                                                                                   \
		if (n < 0)                                                                         \
			return REAL(name)(fd, st);                                                 \
		path_device_stat(n, (struct stat *)st);                                            \
		return 0;                                                                          \
	}

#define DEFINE_FSTATAT(name, type)                                                                 \
	EXPORT int name(int dir, const char *path, struct type *st, int flags)                     \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		int n = device_at(dir, path, flags);                                               \
                                                                                                   \
		if (n < 0)                                                                         \
			return REAL(name)(dir, path_map(path, buf), st, flags);                    \
		path_device_stat(n, (struct stat *)st);                                            \
		return 0;                                                                          \
	}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on 64-bit machines");

DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)
DEFINE_STAT(lstat, stat)
DEFINE_STAT(lstat64, stat64)
DEFINE_FSTAT(fstat, stat)
DEFINE_FSTAT(fstat64, stat64)
DEFINE_FSTATAT(fstatat, stat)
DEFINE_FSTATAT(fstatat64, stat64)

/* libc keeps these for old programs, and does not link new ones with them. */
#define DEFINE_XSTAT(name, type, now)                                                              \
	EXPORT int name(int version, const char *path, struct type *st)                            \
	{                                                                                          \
		return now(path, st);                                                              \
	}

DEFINE_XSTAT(__xstat, stat, stat)
DEFINE_XSTAT(__xstat64, stat64, stat64)
DEFINE_XSTAT(__lxstat, stat, lstat)
DEFINE_XSTAT(__lxstat64, stat64, lstat64)

EXPORT int __fxstat(int version, int fd, struct stat *st)
{
	return fstat(fd, st);
}

EXPORT int __fxstat64(int version, int fd, struct stat64 *st)
{
	return fstat64(fd, st);
}

EXPORT int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	return fstatat(dir, path, st, flags);
}

EXPORT int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
	return fstatat64(dir, path, st, flags);
}

EXPORT int statx(int dir, const char *restrict path, int flags, unsigned mask,
	struct statx *restrict stx)
{
	int n = device_at(dir, path, flags);
	char buf[PATH_MAX];

	if (n < 0)
		return REAL(statx)(dir, path_map(path, buf), flags, mask, stx);
	path_device_statx(n, stx);
	return 0;
}
