/* SPDX-License-Identifier: MIT */
#include "dma/view.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/sys.h"

#define STEP (512u * POOL_PAGE) /* views grow in large steps, so they seldom have to grow */

struct view views[MAX_PROCS + 1];

/*
 * Forgets the view before it unmaps the memory. A thread that is stopped in munmap() may lose the
 * mutex and then never returns to this function; a view that is still known would lead to an
 * address where the program may have mapped something else.
 */
static void close_view(struct view *v)
{
	const struct view old = *v;

	memset(v, 0, sizeof(*v));
	atomic_signal_fence(memory_order_seq_cst);
	if (old.at)
		SYS(SYS_munmap, old.at, old.size);
}

void view_close_all(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++)
		close_view(&views[slot]);
}

static void close_ended(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		const struct proc *p = &arena()->procs[slot];

		if (views[slot].life && (!p->used || !p->pid || p->life != views[slot].life))
			close_view(&views[slot]);
	}
}

int view_open_file(int32_t pid, int32_t fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	/*
	 * The descriptor may refer to any kind of file by now. The flags keep the call from
	 * blocking, and from making a terminal the controlling one.
	 */
	return sys_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

bool view_is_file(int fd, uint64_t ino, uint64_t size)
{
	struct stat st;

	return !sys_fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == ino &&
	       (uint64_t)st.st_size >= size;
}

/* Returns true if the file is the one that its owner has announced, and cannot shrink. */
static bool is_pool(int fd, const struct proc *p, uint64_t size)
{
	long seals = SYS(SYS_fcntl, fd, F_GET_SEALS);

	return seals > 0 && (seals & F_SEAL_SHRINK) && view_is_file(fd, p->pool_ino, size);
}

/*
 * Maps the file without access at first: if the program locks all its memory, an accessible mapping
 * would allocate pages that the owner has not allocated.
 */
uint8_t *view_map(int fd, uint64_t offset, uint64_t size)
{
	long at = SYS(SYS_mmap, NULL, size, PROT_NONE, MAP_SHARED, fd, offset);

	if (at < 0 && at > -(long)POOL_PAGE)
		return NULL;
	SYS(SYS_munlock, at, size);
	if (!SYS(SYS_madvise, at, size, MADV_DONTFORK) &&
		!SYS(SYS_madvise, at, size, MADV_DONTDUMP) &&
		!SYS(SYS_mprotect, at, size, PROT_READ | PROT_WRITE))
		return (uint8_t *)at;
	SYS(SYS_munmap, at, size);
	return NULL;
}

static uint8_t *map_pool(const struct proc *p, uint64_t size)
{
	int fd = view_open_file(p->pid, p->pool_fd);
	uint8_t *at = NULL;

	if (fd < 0)
		return NULL;
	if (is_pool(fd, p, size))
		at = view_map(fd, 0, size);
	sys_close(fd);
	return at;
}

void view_open(uint32_t slot)
{
	const struct proc *p = &arena()->procs[slot];
	struct view *v = &views[slot];
	/* Relaxed: the owner raises the number before it makes an object with these pages. */
	uint32_t pages = __atomic_load_n(&p->pool_pages, __ATOMIC_RELAXED);
	uint64_t size = ((uint64_t)pages * POOL_PAGE + STEP - 1) / STEP * STEP;
	uint8_t *at;

	assert(fabric_whole());
	close_ended();
	if (slot == fabric_self.slot || !pages || pages > POOL_PAGES || v->size >= size ||
		!p->pid || !fabric_alive(slot))
		return;
	at = map_pool(p, size);
	if (!at) {
		v->refused = pages + 1;
		v->life = p->life;
		return;
	}
	close_view(v);
	v->life = p->life;
	v->at = at;
	/*
	 * Last: if this thread loses the mutex before, the next call maps the pool again, and this
	 * mapping stays.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	v->size = size;
}

uint8_t *view_late(uint32_t slot, uint64_t offset, size_t len)
{
	const struct proc *p = &arena()->procs[slot];

	if (!fabric_whole() ||
		(views[slot].life == p->life && views[slot].refused == p->pool_pages + 1))
		return NULL;
	view_open(slot);
	return view_mapped(slot, offset, len);
}

void view_forget(void)
{
	memset(views, 0, sizeof(views));
}
