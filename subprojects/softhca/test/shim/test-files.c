/* SPDX-License-Identifier: MIT */
/*
 * Every function by which programs access files finds the emulated adapters: by absolute path,
 * relative to one of their directories, and by descriptor. A child of fork() finds them, too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

#define CLASS "/sys/class/infiniband"
#define GUID CLASS "/mlx5_1/node_guid"
#define LINK CLASS "/mlx5_0"
#define DEVICE "/dev/infiniband/uverbs1"
#define NO_DEVICE "/dev/infiniband/uverbs2"

/*
 * Older programs call the first eight instead of stat() and its kind. Programs compiled with
 * _FORTIFY_SOURCE call the last two instead of openat(). The headers do not declare them here.
 */
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

static bool is_device(mode_t mode, dev_t dev)
{
	return S_ISCHR(mode) && dev == makedev(231, 193);
}

/* Checks the result of a function of the stat() family. */
#define SAYS(call, s, want, device)                                                                \
	do {                                                                                       \
		CHECK_EQ(call, 0);                                                                 \
		CHECK_EQ((s).st_mode &S_IFMT, want);                                               \
		CHECK_EQ(is_device((s).st_mode, (s).st_rdev), device);                             \
	} while (0)

/* Calls each function of the stat() and access() families with @path. */
static void by_path(const char *path, bool device, mode_t type, mode_t link_type)
{
	struct stat64 st64;
	struct statx stx;
	struct stat st;

	SAYS(stat(path, &st), st, type, device);
	SAYS(stat64(path, &st64), st64, type, device);
	SAYS(lstat(path, &st), st, link_type, device);
	SAYS(lstat64(path, &st64), st64, link_type, device);
	SAYS(fstatat(AT_FDCWD, path, &st, 0), st, type, device);
	SAYS(fstatat64(AT_FDCWD, path, &st64, AT_SYMLINK_NOFOLLOW), st64, link_type, device);
	SAYS(__xstat(1, path, &st), st, type, device);
	SAYS(__xstat64(1, path, &st64), st64, type, device);
	SAYS(__lxstat(1, path, &st), st, link_type, device);
	SAYS(__lxstat64(1, path, &st64), st64, link_type, device);
	SAYS(__fxstatat(1, AT_FDCWD, path, &st, 0), st, type, device);
	SAYS(__fxstatat64(1, AT_FDCWD, path, &st64, 0), st64, type, device);
	CHECK_EQ(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stx), 0);
	CHECK_EQ(stx.stx_mode & S_IFMT, link_type);
	CHECK_EQ(is_device(stx.stx_mode, makedev(stx.stx_rdev_major, stx.stx_rdev_minor)), device);
	CHECK(!access(path, R_OK));
	CHECK(!faccessat(AT_FDCWD, path, R_OK, 0));
	CHECK(!euidaccess(path, R_OK));
	CHECK(!eaccess(path, R_OK));
}

TEST_WITH(by_path_of_device, by_path, DEVICE, true, S_IFCHR, S_IFCHR);
TEST_WITH(by_path_of_file, by_path, GUID, false, S_IFREG, S_IFREG);
TEST_WITH(by_path_of_link, by_path, LINK, false, S_IFDIR, S_IFLNK);
TEST_WITH(by_path_of_directory, by_path, CLASS, false, S_IFDIR, S_IFDIR);

TEST(by_descriptor)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	struct stat64 st64;
	struct statx stx;
	struct stat st;

	CHECK(fd >= 0);
	SAYS(fstat(fd, &st), st, S_IFCHR, true);
	SAYS(fstat64(fd, &st64), st64, S_IFCHR, true);
	SAYS(fstatat(fd, "", &st, AT_EMPTY_PATH), st, S_IFCHR, true);
	SAYS(__fxstat(1, fd, &st), st, S_IFCHR, true);
	SAYS(__fxstat64(1, fd, &st64), st64, S_IFCHR, true);
	CHECK_EQ(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx), 0);
	CHECK(is_device(stx.stx_mode, makedev(stx.stx_rdev_major, stx.stx_rdev_minor)));
	CHECK(!close(fd));
}

/* A device that does not exist, and files that do not belong to the adapters. */
TEST(others)
{
	struct statx stx;
	struct stat st;

	CHECK(statx(AT_FDCWD, NO_DEVICE, 0, STATX_BASIC_STATS, &stx) && errno == ENOENT);
	CHECK(stat(NO_DEVICE, &st) && errno == ENOENT);
	CHECK(faccessat(AT_FDCWD, NO_DEVICE, R_OK, 0) && errno == ENOENT);
	CHECK(!statx(AT_FDCWD, "/dev/null", 0, STATX_BASIC_STATS, &stx));
	CHECK_EQ(makedev(stx.stx_rdev_major, stx.stx_rdev_minor), makedev(1, 3));
	CHECK(!__xstat(1, "/dev/null", &st));
	CHECK_EQ(st.st_rdev, makedev(1, 3));
	CHECK(statx(-1, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) && errno == EBADF);
}

static int adapters(const struct dirent *e)
{
	return !strncmp(e->d_name, "mlx5_", 5);
}

static int adapters64(const struct dirent64 *e)
{
	return !strncmp(e->d_name, "mlx5_", 5);
}

TEST(directories)
{
	struct dirent64 **list64;
	struct dirent **list;

	CHECK_EQ(scandir(CLASS, &list, adapters, alphasort), 2);
	CHECK_EQ(scandir64(CLASS, &list64, adapters64, alphasort64), 2);
	for (int i = 0; i < 2; i++) {
		CHECK_STR(list[i]->d_name, i ? "mlx5_1" : "mlx5_0");
		CHECK_STR(list64[i]->d_name, i ? "mlx5_1" : "mlx5_0");
		free(list[i]);
		free(list64[i]);
	}
	free(list);
	free(list64);
}

static void read_guid(int fd)
{
	char text[32] = "";

	CHECK(fd >= 0);
	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	CHECK_STR(text, "025f:48ff:fe00:0001\n");
	CHECK(!close(fd));
}

TEST(links_and_contents)
{
	char direct[PATH_MAX] = "", at[PATH_MAX] = "";
	int dir;

	CHECK(readlink(LINK, direct, sizeof(direct) - 1) > 0);
	CHECK(readlinkat(AT_FDCWD, LINK, at, sizeof(at) - 1) > 0);
	CHECK_STR(direct, at);
	CHECK(!strncmp(at, "../../devices/pci", 17));
	CHECK(lgetxattr(LINK, "user.none", at, sizeof(at)) < 0 && errno != ENOENT);
	CHECK(getxattr(GUID, "user.none", at, sizeof(at)) < 0 && errno != ENOENT);
	CHECK(getxattr(DEVICE, "user.none", at, sizeof(at)) < 0 && errno == ENODATA);
	CHECK(listxattr(GUID, at, sizeof(at)) >= 0 || errno == ENOTSUP);
	CHECK_EQ(llistxattr(DEVICE, at, sizeof(at)), 0);
	read_guid(openat(AT_FDCWD, GUID, O_RDONLY | O_CLOEXEC));
	read_guid(__openat_2(AT_FDCWD, GUID, O_RDONLY | O_CLOEXEC));
	read_guid(__openat64_2(AT_FDCWD, GUID, O_RDONLY | O_CLOEXEC));
	dir = open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_guid(openat(dir, "mlx5_1/node_guid", O_RDONLY | O_CLOEXEC));
	CHECK(!close(dir));
	CHECK(!chdir(CLASS));
	read_guid(open("mlx5_1/node_guid", O_RDONLY | O_CLOEXEC));
	CHECK(!chdir("/"));
}

/* A path that is too long in the fabric's directory is refused, not cut. */
TEST(long_path)
{
	char path[PATH_MAX] = CLASS;
	size_t n = strlen(path);

	while (n + 2 < sizeof(path))
		n += (size_t)sprintf(path + n, "/.");
	CHECK(open(path, O_RDONLY | O_CLOEXEC) < 0);
	CHECK_EQ(errno, ENAMETOOLONG);
	CHECK(access(path, R_OK) && errno == ENAMETOOLONG);
	CHECK(!opendir(path) && errno == ENAMETOOLONG);
	CHECK(!realpath(path, NULL) && errno == ENAMETOOLONG);
}

static bool raises; /* this process gets a signal while it joins the fabric */
static bool joins; /* a thread of this process is about to join the fabric */
static uint32_t joining, forking, forked;

static bool main_waits(void)
{
	return test_thread_waits(getpid());
}

/*
 * Replaces libc's mkdir(), which the library calls when a process makes a fabric, after it has
 * opened the lock file. Here the thread that joins gets a signal, or lets the main thread fork. It
 * continues when the main thread has forked, or waits.
 */
int mkdir(const char *path, mode_t mode)
{
	if (raises && strstr(path, "/fifo"))
		CHECK(!raise(SIGUSR1));
	if (joins && strstr(path, "/fifo")) {
		joins = false;
		test_store(&joining, 1);
		while (!test_load(&forking) || !(test_load(&forked) || main_waits()))
			sched_yield();
		CHECK(!test_load(&forked)); /* the fork waits */
	}
	return (int)syscall(SYS_mkdir, path, mode);
}

static bool has_lock_file(void)
{
	return test_descriptor("/lock", -1) >= 0;
}

static void open_device(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(!close(fd));
}

static void *join(void *arg)
{
	open_device();
	return arg;
}

/*
 * A process forks while another thread of it joins a fabric. The child does not keep the parent's
 * locks, and can use devices.
 */
TEST(fork_during_join)
{
	pthread_t t;
	pid_t pid;

	if (!test_in_child()) /* the child has not joined yet */
		return;
	test_fabric("join");
	joins = true;
	CHECK(!pthread_create(&t, NULL, join, NULL));
	while (!test_load(&joining))
		sched_yield();
	test_store(&forking, 1);
	pid = test_fork();
	if (!pid) {
		alarm(20); /* ends a child that waits for ever */
		CHECK(!has_lock_file());
		open_device();
		exit(0);
	}
	test_store(&forked, 1);
	CHECK(!pthread_join(t, NULL));
	CHECK_EQ(test_reap(pid), 0);
	exit(0);
}

static int lock = -1; /* the lock file, if this process has opened it itself */

static void fork_once(int sig)
{
	(void)sig;
	if (test_in_child()) {
		close(lock);
		CHECK(!has_lock_file());
		_exit(0);
	}
	test_store(&forked, 1);
}

/* A handler of a signal forks in the thread that joins. */
TEST(fork_in_handler_during_join)
{
	if (!test_in_child()) /* the child has not joined yet */
		return;
	test_fabric("join");
	alarm(20); /* ends a process that waits for ever */
	CHECK(signal(SIGUSR1, fork_once) != SIG_ERR);
	raises = true;
	open_device();
	exit(0);
}

/* With the thread sanitizer, a handler runs only after the library's system call has ended. */
#ifndef __SANITIZE_THREAD__

/* Locks byte 0 of the lock file, as a process does that joins or leaves. */
static void hold_lock_file(void)
{
	struct flock fl = {.l_type = F_WRLCK, .l_len = 1};
	char path[128];
	int n = snprintf(path, sizeof(path), "/dev/shm/softhca-%u-%s", (unsigned)geteuid(),
		getenv("SOFTHCA_FABRIC"));

	CHECK(!mkdir(path, 0700));
	snprintf(path + n, sizeof(path) - (size_t)n, "/lock");
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(lock >= 0);
	CHECK(!fcntl(lock, F_OFD_SETLK, &fl));
}

static void *interrupt(void *arg)
{
	while (!test_load(&joining) || !main_waits())
		sched_yield();
	CHECK(!pthread_kill(*(pthread_t *)arg, SIGUSR1));
	while (!test_load(&forked))
		sched_yield();
	CHECK(!close(lock));
	return NULL;
}

/* The same while that thread waits for another process that joins or leaves. */
TEST(fork_in_handler_during_wait)
{
	pthread_t self = pthread_self(), t;

	if (!test_in_child()) /* the child has not joined yet */
		return;
	test_fabric("join");
	alarm(20); /* ends a process that waits for ever */
	hold_lock_file();
	CHECK(signal(SIGUSR1, fork_once) != SIG_ERR);
	CHECK(!pthread_create(&t, NULL, interrupt, &self));
	test_store(&joining, 1);
	open_device();
	CHECK(!pthread_join(t, NULL));
	exit(0);
}
#endif

FABRIC_MAIN("files", "SOFTHCA_RAILS=2");
