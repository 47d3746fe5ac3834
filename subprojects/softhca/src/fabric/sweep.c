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

#include "fabric/fabric.h"
#include "fabric/tree.h"
#include "shim/sys.h"

/* Whether the lock could be had at once, or (F_OFD_GETLK) whether nobody has it. */
static bool lock_free(int fd, int cmd, off_t start, off_t len)
{
	struct flock fl = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len,
	};

	return !sys_fcntl(fd, cmd, &fl) && (cmd != F_OFD_GETLK || fl.l_type == F_UNLCK);
}

/*
 * Locks byte 0, which others have for a moment when they look at the fabric. Who has it
 * longer is joining: then the fabric is not left to be removed.
 */
static bool lock_soon(int fd, int tries)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	while (!lock_free(fd, F_OFD_SETLK, 0, 1)) {
		if (!--tries)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Byte 0 keeps those out who would join; see fabric.h. */
static int sweep_one(const char *name, void *arg)
{
	char dir[300], path[320];
	struct stat st;
	int fd;

	snprintf(dir, sizeof(dir), "/dev/shm/softhca-%u-%s", (unsigned)geteuid(), name);
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return 0;
	if (lock_soon(fd, 20) && lock_free(fd, F_OFD_GETLK, 1, MAX_PROCS) && !sys_fstat(fd, &st) &&
		st.st_nlink)
		tree_remove(dir);
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

static void unlock(int fd, off_t start)
{
	struct flock fl = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = start};

	sys_fcntl(fd, F_OFD_SETLK, &fl);
}

/* A forked process shares the locks, so closing the file would not give them up. */
void fabric_let_go(void)
{
	int fd = fabric_self.lock_fd;
	struct stat st;

	unlock(fd, 1);
	if (lock_soon(fd, 400) && lock_free(fd, F_OFD_GETLK, 1, MAX_PROCS) && !sys_fstat(fd, &st) &&
		st.st_nlink)
		tree_remove(fabric_self.dir);
	unlock(fd, 0);
	sys_close(fd);
	fabric_self.lock_fd = -1;
}

void fabric_sweep(void)
{
	fabric_each(sweep_one, NULL);
}
