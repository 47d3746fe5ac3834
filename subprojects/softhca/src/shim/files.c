/* SPDX-License-Identifier: MIT */
/*
 * Interposes libc's functions that take a path. Emulated devices are handled here. Paths of the
 * emulated sysfs are replaced by paths in the fabric's directory. All other calls are passed on to
 * libc unchanged. fopen(), opendir() and scandir() are interposed too, because their calls of
 * open() are internal to libc and cannot be interposed.
 */
/* This macro makes the headers rename open() and others to their 64-bit variants. */
#undef _FILE_OFFSET_BITS
/*
 * With _FORTIFY_SOURCE the headers define inline functions with the names of the functions below.
 */
#undef _FORTIFY_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shim/path.h"
#include "shim/real.h"
#include "ucma/ucma.h"
#include "uverbs/uverbs.h"

/* glibc calls these for fortified and large-file programs; no header declares them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
char *__realpath_chk(const char *path, char *resolved, size_t size);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);

static mode_t open_mode(int flags, va_list ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

/* Returns true if @path is an emulated device. *fd is then the result of open(). */
static bool open_device(const char *path, int flags, int *fd)
{
	int n = path_device(path);

	if (n < 0)
		return false;
	*fd = n == PATH_CM ? ucma_open(flags) : uverbs_open((uint32_t)n, flags);
	if (*fd < 0) {
		errno = -*fd;
		*fd = -1;
	}
	return true;
}

#define DEFINE_OPEN(name)                                                                          \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		va_list ap;                                                                        \
		mode_t mode;                                                                       \
		int fd;                                                                            \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = open_mode(flags, ap);                                                       \
		va_end(ap);                                                                        \
		if (open_device(path, flags, &fd))                                                 \
			return fd;                                                                 \
		return REAL(name)(path_open(AT_FDCWD, path, buf), flags, mode);                    \
	}

#define DEFINE_OPENAT(name)                                                                        \
	EXPORT int name(int dir, const char *path, int flags, ...)                                 \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		va_list ap;                                                                        \
		mode_t mode;                                                                       \
		int fd;                                                                            \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = open_mode(flags, ap);                                                       \
		va_end(ap);                                                                        \
		if (open_device(path, flags, &fd))                                                 \
			return fd;                                                                 \
		return REAL(name)(dir, path_open(dir, path, buf), flags, mode);                    \
	}

#define DEFINE_OPEN_2(name)                                                                        \
	EXPORT int name(const char *path, int flags)                                               \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		int fd;                                                                            \
                                                                                                   \
		if (open_device(path, flags, &fd))                                                 \
			return fd;                                                                 \
		return REAL(name)(path_open(AT_FDCWD, path, buf), flags);                          \
	}

#define DEFINE_FOPEN(name)                                                                         \
	EXPORT FILE *name(const char *path, const char *mode)                                      \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
                                                                                                   \
		return REAL(name)(path_open(AT_FDCWD, path, buf), mode);                           \
	}

#define DEFINE_OPENAT_2(name)                                                                      \
	EXPORT int name(int dir, const char *path, int flags)                                      \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		int fd;                                                                            \
                                                                                                   \
		if (open_device(path, flags, &fd))                                                 \
			return fd;                                                                 \
		return REAL(name)(dir, path_open(dir, path, buf), flags);                          \
	}

#define DEFINE_SCANDIR(name, type)                                                                 \
	EXPORT int name(const char *path, struct type ***list, int (*wanted)(const struct type *), \
		int (*order)(const struct type **, const struct type **))                          \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
                                                                                                   \
		return REAL(name)(path_map(path, buf), list, wanted, order);                       \
	}

/* "ls -l" reads extended attributes. A device has none. */
#define DEFINE_GETXATTR(name)                                                                      \
	EXPORT ssize_t name(const char *path, const char *attr, void *value, size_t size)          \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
                                                                                                   \
		if (path_device(path) < 0)                                                         \
			return REAL(name)(path_map(path, buf), attr, value, size);                 \
		errno = ENODATA;                                                                   \
		return -1;                                                                         \
	}

#define DEFINE_LISTXATTR(name)                                                                     \
	EXPORT ssize_t name(const char *path, char *list, size_t size)                             \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
                                                                                                   \
		if (path_device(path) < 0)                                                         \
			return REAL(name)(path_map(path, buf), list, size);                        \
		return 0;                                                                          \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)
DEFINE_SCANDIR(scandir, dirent)
DEFINE_SCANDIR(scandir64, dirent64)
DEFINE_GETXATTR(getxattr)
DEFINE_GETXATTR(lgetxattr)
DEFINE_LISTXATTR(listxattr)
DEFINE_LISTXATTR(llistxattr)

EXPORT DIR *opendir(const char *path)
{
	char buf[PATH_MAX];

	return REAL(opendir)(path_map(path, buf));
}

EXPORT int access(const char *path, int mode)
{
	char buf[PATH_MAX];

	if (path_device(path) >= 0)
		return 0;
	return REAL(access)(path_map(path, buf), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	char buf[PATH_MAX];

	if (path_device(path) >= 0)
		return 0;
	return REAL(faccessat)(dir, path_map(path, buf), mode, flags);
}

EXPORT int euidaccess(const char *path, int mode)
{
	char buf[PATH_MAX];

	if (path_device(path) >= 0)
		return 0;
	return REAL(euidaccess)(path_map(path, buf), mode);
}

EXPORT int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

/* If @path is an emulated directory, relative paths are in the fabric's tree from then on. */
EXPORT int chdir(const char *path)
{
	char buf[PATH_MAX];

	return REAL(chdir)(path_map(path, buf));
}

EXPORT ssize_t readlink(const char *path, char *out, size_t len)
{
	char buf[PATH_MAX];

	return REAL(readlink)(path_map(path, buf), out, len);
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *out, size_t len)
{
	char buf[PATH_MAX];

	return REAL(readlinkat)(dir, path_map(path, buf), out, len);
}

EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t size)
{
	char buf[PATH_MAX];

	return REAL(__readlink_chk)(path_map(path, buf), out, len, size);
}

EXPORT char *realpath(const char *path, char *resolved)
{
	char buf[PATH_MAX];

	return REAL(realpath)(path_map(path, buf), resolved);
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	char buf[PATH_MAX];

	return REAL(__realpath_chk)(path_map(path, buf), resolved, size);
}
