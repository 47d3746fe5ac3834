/* SPDX-License-Identifier: MIT */
#include "dma/window.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dma/view.h"
#include "fabric/fabric.h"
#include "sys/maps.h"
#include "sys/sys.h"

#define WINDOWS 1024u

/* The window of region @index is windows[index % WINDOWS]. */
static struct window {
	uint64_t serial; /* of the region; 0: the entry has never been used */
	uint32_t index;
	uint64_t start, length; /* of the region, in its owner */
	uint8_t *at; /* of the region, here; NULL: it could not be mapped */
} windows[WINDOWS];

static uint64_t before_page(uint64_t offset)
{
	return offset % POOL_PAGE;
}

/* Returns true if @fd is open on the mapped file. */
static bool is_of(int fd, const struct mapping *m)
{
	struct stat st;

	return !sys_fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == m->ino &&
	       st.st_dev == m->dev;
}

/*
 * Tries the descriptor of the last call first, because programs usually register parts of one
 * file.
 */
static int find_descriptor(const struct mapping *m)
{
	static int latest = -1; /* may be of any file: it is checked */
	int fd = __atomic_load_n(&latest, __ATOMIC_RELAXED);
	struct dirent *e;
	DIR *d;

	if (fd >= 0 && is_of(fd, m))
		return fd;
	d = opendir("/proc/self/fd");
	fd = -1;
	while (d && fd < 0 && (e = readdir(d)))
		if (e->d_name[0] != '.' && is_of(atoi(e->d_name), m))
			fd = atoi(e->d_name);
	if (d)
		closedir(d);
	__atomic_store_n(&latest, fd, __ATOMIC_RELAXED);
	return fd;
}

struct region_file window_describe(const struct mapping *m, uint64_t addr)
{
	int fd = m->shared && m->ino ? find_descriptor(m) : -1;

	if (fd < 0)
		return (struct region_file){0};
	return (struct region_file){m->ino, m->offset + (addr - m->start), fd};
}

/* Returns true if the window's region still exists. */
static bool in_use(const struct window *w)
{
	const struct mr *mr = &arena()->mrs[w->index];

	return w->serial && mr->obj.used && mr->serial == w->serial;
}

/* The order is that of close_view() in view.c. */
static void close_window(struct window *w)
{
	const struct window old = *w;
	uint64_t before = before_page((uintptr_t)old.at);

	*w = (struct window){0};
	atomic_signal_fence(memory_order_seq_cst);
	if (old.at)
		SYS(SYS_munmap, old.at - before, before + old.length);
}

void window_close_all(void)
{
	for (uint32_t i = 0; i < WINDOWS; i++)
		close_window(&windows[i]);
}

static void close_unused(void)
{
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i].serial && !in_use(&windows[i]))
			close_window(&windows[i]);
}

static void open_window(struct window *w, uint32_t index)
{
	const struct mr *mr = &arena()->mrs[index];
	const struct proc *p = &arena()->procs[mr->obj.owner];
	uint64_t before = before_page(mr->file_offset);
	uint8_t *at = NULL;
	int fd;

	close_unused();
	*w = (struct window){mr->serial, index, mr->start, mr->length, NULL};
	fd = fabric_alive(mr->obj.owner) ? view_open_file(p->pid, mr->file_fd) : -1;
	if (fd < 0)
		return;
	if (view_is_file(fd, mr->file_ino, mr->file_offset + mr->length))
		at = view_map(fd, mr->file_offset - before, before + mr->length);
	sys_close(fd);
	if (at)
		w->at = at + before;
}

int window_find(uint32_t index, uint64_t addr, uint64_t len, uint8_t **at_p)
{
	const struct mr *mr = &arena()->mrs[index];
	struct window *w = &windows[index % WINDOWS];

	if (!mr->serial)
		return -ENOENT;
	if (w->serial != mr->serial) {
		if (in_use(w))
			return -ENOENT; /* the entry is used by another region */
		if (!fabric_whole())
			return -EAGAIN;
		open_window(w, index);
	}
	if (!w->at || addr - w->start > w->length || len > w->length - (addr - w->start))
		return -ENOENT;
	*at_p = w->at + (addr - w->start);
	return 0;
}

void window_forget(void)
{
	memset(windows, 0, sizeof(windows));
}
