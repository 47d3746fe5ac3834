/* SPDX-License-Identifier: MIT */
#include "sys/maps.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "sys/sys.h"

static int parse(const char *line, struct mapping *m)
{
	unsigned long start, end, offset, ino;
	unsigned int major, minor;
	char perms[5];

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, perms, &offset, &major, &minor,
		    &ino) != 7)
		return -1;
	*m = (struct mapping){
		.start = start,
		.end = end,
		.prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
			(perms[2] == 'x' ? PROT_EXEC : 0),
		.dev = makedev(major, minor),
		.ino = ino,
	};
	return 0;
}

int maps_each(int (*each)(const struct mapping *m, void *arg), void *arg)
{
	int r = 0, fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	struct mapping m;
	char buf[8192];
	size_t have = 0;
	long n = 0;

	if (fd < 0)
		return fd;
	while (!r && (n = sys_read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		char *line = buf, *nl;

		have += (size_t)n;
		buf[have] = '\0';
		while (!r && (nl = strchr(line, '\n'))) {
			*nl = '\0';
			if (!parse(line, &m))
				r = each(&m, arg);
			line = nl + 1;
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
	}
	sys_close(fd);
	return r || n >= 0 ? r : (int)n;
}
