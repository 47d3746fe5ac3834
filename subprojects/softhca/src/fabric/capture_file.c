/* SPDX-License-Identifier: MIT */
#include "fabric/capture_file.h"

#include <stddef.h>
#include <stdio.h>

#include "sys/sys.h"

int capture_file_open(const struct capture *c)
{
	int fd = sys_open(c->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0), r;
	struct stat st;

	if (fd < 0)
		return fd;
	r = sys_fstat(fd, &st);
	if (!r && (st.st_dev != c->device || st.st_ino != c->inode))
		r = -ESTALE;
	if (!r)
		return fd;
	sys_close(fd);
	return r;
}

void capture_file_trim(const struct capture *c)
{
	struct stat st;
	int fd;

	if (!c->path[0])
		return;
	fd = capture_file_open(c);
	if (fd < 0)
		return;
	if (!sys_fstat(fd, &st) && (uint64_t)st.st_size > c->end)
		SYS(SYS_ftruncate, fd, (off_t)c->end);
	sys_close(fd);
}

void capture_file_trim_dead(const char *dir)
{
	struct capture c;
	uint64_t magic;
	uint32_t version;
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/arena", dir);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return;
	if (SYS(SYS_pread64, fd, &magic, sizeof(magic), (off_t)offsetof(struct arena, magic)) ==
			(long)sizeof(magic) &&
		SYS(SYS_pread64, fd, &version, sizeof(version),
			(off_t)offsetof(struct arena, version)) == (long)sizeof(version) &&
		SYS(SYS_pread64, fd, &c, sizeof(c), (off_t)offsetof(struct arena, capture)) ==
			(long)sizeof(c) &&
		magic == ARENA_MAGIC && version == ARENA_VERSION) {
		c.path[CAPTURE_PATH - 1] = '\0';
		capture_file_trim(&c);
	}
	sys_close(fd);
}
