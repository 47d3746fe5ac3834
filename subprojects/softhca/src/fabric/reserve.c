/* SPDX-License-Identifier: MIT */
#include "fabric/reserve.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "fabric/fabric.h"
#include "sys/sys.h"

static_assert(sizeof(struct arena) <= (size_t)ARENA_BLOCKS * ARENA_BLOCK, "blocks of the arena");

static int allocate(int fd, size_t from, size_t to)
{
	int r;

	do
		r = (int)SYS(SYS_fallocate, fd, 0, from, to - from);
	while (r == -EINTR);
	return r;
}

int reserve_first(int fd)
{
	return allocate(fd, 0, offsetof(struct arena, ctxs));
}

static int allocate_block(uint32_t block)
{
	size_t from = (size_t)block * ARENA_BLOCK, to = from + ARENA_BLOCK;
	char path[192];
	int fd, r;

	if (to > sizeof(struct arena))
		to = sizeof(struct arena);
	snprintf(path, sizeof(path), "%s/arena", fabric_self.dir);
	fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	r = allocate(fd, from, to);
	sys_close(fd);
	return r;
}

int reserve(const void *p, size_t len)
{
	size_t from = (size_t)((const char *)p - (const char *)arena());
	uint64_t *map = arena()->blocks;
	int r;

	for (uint32_t b = (uint32_t)(from / ARENA_BLOCK); b <= (from + len - 1) / ARENA_BLOCK;
		b++) {
		if (map[b / 64] >> (b % 64) & 1)
			continue;
		r = allocate_block(b);
		if (r)
			return r;
		map[b / 64] |= 1ull << (b % 64);
	}
	return 0;
}

int reserve_object(const void *p, size_t len)
{
	int r = reserve(p, len);

	return r == -ENOSPC ? -ENOMEM : r;
}
