/* SPDX-License-Identifier: MIT */
#include "sys/maps.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "sys/sys.h"

/* PROCMAP_QUERY of <linux/fs.h>, from Linux 6.11 on. */
struct query {
	uint64_t size, flags, address;
	uint64_t start, end, access, page_size, offset, ino;
	uint32_t major, minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};

#define QUERY _IOWR('f', 17, struct query)
#define QUERY_READABLE 0x1u
#define QUERY_WRITABLE 0x2u
#define QUERY_EXECUTABLE 0x4u
#define QUERY_SHARED 0x8u
#define QUERY_COVERING_OR_NEXT 0x10u
#define QUERY_FILE 0x20u /* only mappings of files; the first four are filters, too */

_Static_assert(sizeof(struct query) == 104, "as the kernel has it");

/* Reads a number and skips the character after it, which is written to @end_p. */
static uint64_t number(const char **at, unsigned base, char *end_p)
{
	uint64_t n = 0;

	for (;; (*at)++) {
		char c = **at;
		unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') :
				 c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 :
							base;

		if (digit >= base)
			break;
		n = n * base + digit;
	}
	*end_p = **at;
	*at += **at != '\0';
	return n;
}

/*
 * Parses "start-end rwxp offset major:minor inode ...". It does not use sscanf(), which would take
 * most of the time of creating an object in a process with thousands of mappings.
 */
static int parse(const char *line, struct mapping *m)
{
	unsigned major, minor;
	const char *perms;
	char end[6];

	m->start = number(&line, 16, &end[0]);
	m->end = number(&line, 16, &end[1]);
	perms = line;
	if (end[0] != '-' || end[1] != ' ' || strnlen(perms, 5) < 5 || perms[4] != ' ')
		return -1;
	line += 5;
	m->offset = number(&line, 16, &end[2]);
	major = (unsigned)number(&line, 16, &end[3]);
	minor = (unsigned)number(&line, 16, &end[4]);
	m->ino = number(&line, 10, &end[5]);
	if (end[2] != ' ' || end[3] != ':' || end[4] != ' ' || (end[5] != ' ' && end[5] != '\0'))
		return -1;
	m->prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
		  (perms[2] == 'x' ? PROT_EXEC : 0);
	m->shared = perms[3] == 's';
	m->dev = makedev(major, minor);
	return 0;
}

int maps_each_line(uint64_t from, maps_fn *each, void *arg)
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
			if (!parse(line, &m) && m.end > from)
				r = each(&m, arg);
			line = nl + 1;
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
	}
	sys_close(fd);
	return r || n >= 0 ? r : (int)n;
}

/*
 * Finds the first mapping that ends after @from and has all attributes of @filter. Returns 0 or
 * -errno; -ENOENT: there is none.
 */
static int ask(int fd, uint64_t from, uint64_t filter, struct mapping *m)
{
	struct query q = {.size = sizeof(q),
		.flags = QUERY_COVERING_OR_NEXT | filter,
		.address = from};
	int r = (int)SYS(SYS_ioctl, fd, QUERY, &q);

	if (r < 0)
		return r;
	*m = (struct mapping){
		.start = q.start,
		.end = q.end,
		.offset = q.offset,
		.prot = (q.access & QUERY_READABLE ? PROT_READ : 0) |
			(q.access & QUERY_WRITABLE ? PROT_WRITE : 0) |
			(q.access & QUERY_EXECUTABLE ? PROT_EXEC : 0),
		.shared = !!(q.access & QUERY_SHARED),
		.dev = makedev(q.major, q.minor),
		.ino = q.ino,
	};
	return 0;
}

/*
 * A PROCMAP_QUERY takes less time than reading a line of the file, because the kernel does not have
 * to write the mapping's name.
 */
static int each_with(uint64_t filter, uint64_t from, maps_fn *each, void *arg)
{
	int r = 0, asked = 0, fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	struct mapping m;

	if (fd < 0)
		return fd;
	while (!r && !(asked = ask(fd, from, filter, &m))) {
		r = each(&m, arg);
		from = m.end;
	}
	sys_close(fd);
	return r || asked == -ENOENT ? r : maps_each_line(from, each, arg);
}

int maps_each(uint64_t from, maps_fn *each, void *arg)
{
	return each_with(0, from, each, arg);
}

int maps_each_shared(maps_fn *each, void *arg)
{
	return each_with(QUERY_SHARED | QUERY_WRITABLE | QUERY_FILE, 0, each, arg);
}
