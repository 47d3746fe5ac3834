/* SPDX-License-Identifier: MIT */
#include "sys/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/sys.h"

static void empty_at(int fd, const char *keep)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int sub;

	if (!d) {
		sys_close(fd);
		return;
	}
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
			(keep && !strcmp(e->d_name, keep)))
			continue;
		if (!unlinkat(fd, e->d_name, 0))
			continue;
		sub = (int)SYS(SYS_openat, fd, e->d_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			continue;
		empty_at(sub, NULL);
		unlinkat(fd, e->d_name, AT_REMOVEDIR);
	}
	closedir(d);
}

void tree_empty(const char *dir, const char *keep)
{
	int fd = sys_open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd >= 0)
		empty_at(fd, keep);
}

void tree_remove(const char *dir)
{
	char path[192];

	/*
	 * The lock is removed last, because a process that waits for it must not find a half-empty
	 * directory.
	 */
	tree_empty(dir, "lock");
	snprintf(path, sizeof(path), "%s/lock", dir);
	unlink(path);
	rmdir(dir);
}
