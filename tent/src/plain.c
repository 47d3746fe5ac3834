/* SPDX-License-Identifier: MIT */
/* Links, ports and memory of simple transports: see transport.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "transport.h"
#include "why.h"

void link_free(struct link *l)
{
	free(l);
}

void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

int port_new(const char *kind, const char *name, struct port **p_p)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct port){.id.kind = kind, .max_region = UINT64_MAX, .fd = -1};
	strcpy(p->id.name, name);
	*p_p = p;
	return 0;
}

void port_free(struct port *p)
{
	free(p);
}

/*
 * Checks that the first and the last byte are mapped and readable: the kernel copies them to this
 * process's stack.
 */
static int touch(uint64_t addr, uint64_t len)
{
	const uint64_t ends[] = {addr, addr + len - 1};
	char byte;

	for (int i = 0; i < 2; i++) {
		struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)ends[i], 1};

		if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
			return errno == EFAULT ? -EFAULT : -errno;
	}
	return 0;
}

/*
 * @line: a line of /proc/self/maps. If the mapping that it describes contains @at and is readable
 * and writable, returns the end of the mapping, else @at.
 */
static uint64_t mapped_to(const char *line, uint64_t at)
{
	uint64_t low, high;
	char r, w;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c", &low, &high, &r, &w) != 4 || at < low ||
		at >= high)
		return at;
	return r == 'r' && w == 'w' ? high : at;
}

/* Reads /proc/self/maps, and only the first and the last byte of the memory. */
int memory_check(uint64_t addr, uint64_t len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t at = addr;
	char *line = NULL;
	size_t size = 0;

	if (!maps)
		return -errno;
	while (at < addr + len && getline(&line, &size, maps) > 0)
		at = mapped_to(line, at);
	free(line);
	fclose(maps);
	return at < addr + len ? -EFAULT : touch(addr, len);
}

int memory_copy(uint64_t to, uint64_t from, uint64_t len)
{
	while (len) {
		struct iovec source = {(void *)(uintptr_t)from, len};
		struct iovec target = {(void *)(uintptr_t)to, len};
		ssize_t n = process_vm_writev(getpid(), &source, 1, &target, 1, 0);

		if (n <= 0)
			return n ? -errno : -EFAULT;
		from += (uint64_t)n;
		to += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/*
 * True if no access to the bytes can raise SIGBUS: the file has @len bytes or more, cannot shrink,
 * and has no huge pages. (A peer can free huge pages that are mapped, and there may be none left
 * for the next access.)
 */
static bool is_lasting(int fd, uint64_t len)
{
	int seals = fcntl(fd, F_GET_SEALS); /* fails if it is no memfd */
	struct statfs fs;
	struct stat st;

	if (fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC)
		return false;
	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) &&
	       (uint64_t)st.st_size >= len;
}

/*
 * Does not check that process peer->pid is the exporter. The probes of shm.c check that; those of
 * gpu.c do not.
 */
void *memory_map(const struct desc *peer, const struct desc_buffer *b)
{
	int process = pidfd_open(peer->pid, 0), fd = -1;
	void *at = MAP_FAILED;

	if (process >= 0 && b->fd >= 0)
		fd = pidfd_getfd(process, b->fd, 0);
	if (fd >= 0 && is_lasting(fd, b->len))
		at = mmap(NULL, b->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (process >= 0)
		close(process);
	return at == MAP_FAILED ? NULL : at;
}

void memory_unmap(void *at, const struct desc_buffer *b)
{
	munmap(at, b->len);
}

int host_reach(const struct desc *peer, struct tent_why *why)
{
	char boot[sizeof(peer->boot)];

	boot_id(boot);
	return strcmp(boot, peer->boot) ?
		       why_say(why, -EREMOTE,
			       "segment: of another host, which rails of %s do not reach",
			       peer->transport->rails) :
		       0;
}
