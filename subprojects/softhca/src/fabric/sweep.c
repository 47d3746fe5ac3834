/* SPDX-License-Identifier: MIT */
#include "fabric/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fabric/capture_file.h"
#include "fabric/fabric.h"
#include "fabric/lockfile.h"
#include "sys/sys.h"
#include "sys/tree.h"

static bool no_members(int fd)
{
	return fabric_byte_lock(fd, F_OFD_GETLK, F_RDLCK, 1, MAX_PROCS) == 0;
}

static bool still_named(int fd)
{
	struct stat st;

	return !sys_fstat(fd, &st) && st.st_nlink;
}

/*
 * Locks byte 0. A process that only inspects the fabric holds the lock for a short time. A process
 * that holds the lock longer is removing the fabric already, or is joining it: the fabric must then
 * not be removed.
 */
static bool lock_soon(int fd, int tries)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	while (fabric_byte_lock(fd, F_OFD_SETLK, F_WRLCK, 0, 1)) {
		if (!--tries)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* No process can join while byte 0 is locked; see fabric.h. */
static void remove_unused(const char *dir, int fd, int tries)
{
	if (lock_soon(fd, tries) && no_members(fd) && still_named(fd)) {
		capture_file_trim_dead(dir);
		tree_remove(dir);
	}
	fabric_byte_lock(fd, F_OFD_SETLK, F_UNLCK, 0, 1);
}

static int open_lock(const char *dir)
{
	char path[320];

	snprintf(path, sizeof(path), "%s/lock", dir);
	return sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
}

static int sweep_one(const char *name, void *arg)
{
	char dir[300];
	int fd;

	snprintf(dir, sizeof(dir), "/dev/shm/softhca-%u-%s", (unsigned)geteuid(), name);
	fd = open_lock(dir);
	if (fd < 0)
		return 0;
	remove_unused(dir, fd, 20);
	sys_close(fd);
	return 0;
}

int fabric_each(int (*each)(const char *name, void *arg), void *arg)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *e;
	char prefix[32];
	size_t n;
	int r = 0;

	if (!d)
		return -errno;
	n = (size_t)snprintf(prefix, sizeof(prefix), "softhca-%u-", (unsigned)geteuid());
	while (!r && (e = readdir(d)))
		if (!strncmp(e->d_name, prefix, n))
			r = each(e->d_name + n, arg);
	closedir(d);
	return r;
}

/*
 * Unlocks explicitly: a forked process shares the locks, so closing the descriptor would not
 * release them.
 */
void fabric_let_go(void)
{
	int fd = fabric_self.lock_fd;

	fabric_byte_lock(fd, F_OFD_SETLK, F_UNLCK, 1, MAX_PROCS);
	remove_unused(fabric_self.dir, fd, 400);
	sys_close(fd);
	fabric_self.lock_fd = -1;
}

/*
 * Waits until no process is a member: the kernel grants the lock of a slot when the member leaves or
 * its process ends, or immediately if the slot is free.
 */
static void await_members(int fd)
{
	for (off_t byte = 1; byte <= MAX_PROCS; byte++) {
		if (fabric_byte_lock(fd, F_OFD_SETLKW, F_RDLCK, byte, 1))
			return;
		fabric_byte_lock(fd, F_OFD_SETLK, F_UNLCK, byte, 1);
	}
}

void fabric_outlast(void)
{
	int fd = open_lock(fabric_self.dir);

	if (fd < 0)
		return;
	while (still_named(fd)) {
		await_members(fd);
		remove_unused(fabric_self.dir, fd, 20);
	}
	sys_close(fd);
}

void fabric_sweep(void)
{
	fabric_each(sweep_one, NULL);
}
