/* SPDX-License-Identifier: MIT */
/* Registered memory of this engine. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine.h"
#include "memory.h"
#include "search.h"
#include "why.h"

static uint64_t addr_of(const void *buffers, uint32_t i)
{
	return ((struct buffer *const *)buffers)[i]->addr;
}

/* The index of the first buffer that begins after @addr. */
static uint32_t place_behind(const struct tent *t, uint64_t addr)
{
	return search_behind(t->buffers, t->n_buffers, addr_of, addr);
}

struct buffer *buffer_find(struct tent *t, uint64_t addr, uint64_t len)
{
	uint32_t i = place_behind(t, addr);
	struct buffer *b = i ? t->buffers[i - 1] : NULL;

	if (!b || addr - b->addr >= b->len || len > b->len - (addr - b->addr))
		return NULL;
	return b->state == BUFFER_READY ? b : NULL;
}

int memory_why(int err, const struct rlimit *locked, uint64_t len, struct tent_why *why)
{
	if (err == -EFAULT)
		return why_say(why, err,
			"registration: the memory is not mapped, or not writable, or, for adapters, a "
			"shared mapping of a file on a disk");
	if (err == -ENOMEM && locked->rlim_cur != RLIM_INFINITY)
		return why_say(why, err,
			"registration of %llu bytes: the limit of locked memory is %llu bytes: raise "
			"it (ulimit -l, LimitMEMLOCK=, RLIMIT_MEMLOCK)",
			(unsigned long long)len, (unsigned long long)locked->rlim_cur);
	if (err == -ENOMEM)
		return why_say(why, err,
			"registration of %llu bytes: the adapter or the kernel has no room: register "
			"less, or raise vm.max_map_count and the adapter's log_num_mtt",
			(unsigned long long)len);
	return why_say(why, err, "registration of %llu bytes: %s", (unsigned long long)len,
		strerror(-err));
}

static void free_regions(struct tent *t, struct buffer *b)
{
	for (uint32_t i = 0; b->regions && i < t->n_ports * b->n_parts; i++) {
		if (b->regions[i].own)
			t->ports[i / b->n_parts]->transport->remove(&b->regions[i]);
	}
	free(b->regions);
	b->regions = NULL;
}

/* Frees a buffer, which may be NULL. */
static void buffer_free(struct tent *t, struct buffer *b)
{
	if (!b)
		return;
	free_regions(t, b);
	if (b->pinned)
		gpu_memory_unpin((void *)(uintptr_t)b->addr);
	if (b->fd >= 0) {
		munmap((void *)(uintptr_t)b->addr, b->len);
		close(b->fd);
	}
	free(b);
}

void buffers_free(struct tent *t)
{
	for (uint32_t i = 0; i < t->n_buffers; i++)
		buffer_free(t, t->buffers[i]);
	t->n_buffers = 0;
	buffer_free(t, t->stage_in);
	buffer_free(t, t->stage_out);
}

static uint64_t part_of(const struct buffer *b, uint32_t i)
{
	uint64_t at = i * b->part_len;

	return b->len - at < b->part_len ? b->len - at : b->part_len;
}

/* @dmabuf: descriptor of memory of a GPU, in which the buffer begins at @offset; -1: none. */
static int register_part(struct tent *t, struct buffer *b, uint32_t r, uint32_t i, int dmabuf,
	uint64_t offset)
{
	struct port *p = t->ports[r];
	struct region *region = &b->regions[r * b->n_parts + i];
	uint64_t at = i * b->part_len;

	if (dmabuf >= 0)
		return p->transport->add_dmabuf(p, dmabuf, offset + at, b->addr + at, part_of(b, i),
			region);
	return p->transport->add(p, b->addr + at, part_of(b, i), region);
}

static int register_parts(struct tent *t, struct buffer *b, int dmabuf, uint64_t offset)
{
	int err = 0;

	b->regions = calloc((size_t)t->n_ports * b->n_parts, sizeof(*b->regions));
	if (!b->regions)
		return -ENOMEM;
	for (uint32_t r = 0; r < t->n_ports; r++) {
		for (uint32_t i = 0; i < b->n_parts && !err; i++)
			err = register_part(t, b, r, i, dmabuf, offset);
	}
	return err;
}

/*
 * Registers memory of a GPU with the rails. If one rail cannot, the memory is registered with none,
 * and @why contains the reason.
 */
static int register_dmabuf(struct tent *t, struct buffer *b, struct tent_why *why)
{
	uint64_t offset;
	int fd, err;

	for (uint32_t r = 0; r < t->n_ports; r++) {
		if (!t->ports[r]->transport->add_dmabuf)
			return why_say(why, -EOPNOTSUPP,
				"staged: rails of %s do not reach memory of a GPU",
				t->ports[r]->transport->rails);
	}
	fd = gpu_memory_dmabuf(&b->gpu, b->addr, b->len, &offset);
	if (fd < 0)
		return why_say(why, fd, "staged: no dma-buf of the memory: %s", strerror(-fd));
	err = register_parts(t, b, fd, offset);
	close(fd);
	if (!err)
		return 0;
	free_regions(t, b);
	return why_say(why, err, "staged: an adapter does not register the dma-buf: %s",
		strerror(-err));
}

static int check(struct tent *t, uint64_t addr, uint64_t len, int location, struct tent_why *why)
{
	uint32_t at;

	if (!len || addr + len < addr || addr + len > INT64_MAX)
		return why_say(why, -EINVAL,
			"registration: give 1 byte or more, and a range that does not wrap");
	if (location < 0)
		return why_say(why, -EINVAL,
			"registration: the topology has no such location: give \"cpu:N\", \"cuda:N\" or \"*\"");
	if ((len - 1) / t->part_len >= DESC_MAX_PARTS)
		return why_say(why, -ENOSPC,
			"registration: more than %d parts of %llu bytes: raise max_registration",
			DESC_MAX_PARTS, (unsigned long long)t->part_len);
	at = place_behind(t, addr);
	if ((at && addr - t->buffers[at - 1]->addr < t->buffers[at - 1]->len) ||
		(at < t->n_buffers && t->buffers[at]->addr - addr < len))
		return why_say(why, -EEXIST, "registration: it overlaps memory that is registered");
	if (t->n_buffers == DESC_MAX_BUFFERS)
		return why_say(why, -ENOSPC, "registration: there are %d already",
			DESC_MAX_BUFFERS);
	/*
	 * Registrations in BUFFER_COMING, fewer than DESC_MAX_BUFFERS, get ids later; UINT32_MAX is
	 * the stage's.
	 */
	if (t->version >= UINT32_MAX - DESC_MAX_BUFFERS)
		return why_say(why, -ENOSPC,
			"registration: this engine has made %u, and has no number for one more: "
			"create another engine",
			t->version);
	return 0;
}

/*
 * @gpu: NULL: memory of the host. @fd: descriptor of memory that map() has mapped; -1: none.
 * Returns NULL if no memory is left.
 */
static struct buffer *new_buffer(struct tent *t, uint64_t addr, uint64_t len, uint32_t location,
	const struct gpu_memory *gpu, int fd)
{
	const struct transport *tr = t->transport;
	struct buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->state = BUFFER_COMING;
	b->addr = addr;
	b->len = len;
	b->part_len = t->part_len;
	b->n_parts = (uint32_t)((len - 1) / t->part_len + 1);
	b->location = location;
	b->fd = fd;
	b->of_gpu = gpu;
	b->staged = gpu ? !tr->gpus || !gpu->shared : tr->mapped && fd < 0;
	if (gpu)
		b->gpu = *gpu;
	return b;
}

/* Inserts the buffer before its registration, so that no other thread registers a part of it. */
static void enter(struct tent *t, struct buffer *b)
{
	uint32_t at = place_behind(t, b->addr);

	memmove(&t->buffers[at + 1], &t->buffers[at], (t->n_buffers - at) * sizeof(b));
	t->buffers[at] = b;
	t->n_buffers++;
}

static void leave(struct tent *t, const struct buffer *b)
{
	uint32_t at = place_behind(t, b->addr), by_id = buffers_behind(t, b->id);

	memmove(&t->buffers[at - 1], &t->buffers[at], (t->n_buffers - at) * sizeof(b));
	t->n_buffers--;
	if (!b->id)
		return; /* it has never been ready */
	memmove(&t->by_id[by_id - 1], &t->by_id[by_id], (t->n_by_id - by_id) * sizeof(b));
	t->n_by_id--;
}

/* The registration has succeeded: peers may use it from now on. */
static void make_ready(struct tent *t, struct buffer *b)
{
	b->state = BUFFER_READY;
	b->id = ++t->version;
	t->by_id[t->n_by_id++] = b;
	grow_announce(t);
}

static int register_buffer(struct tent *t, struct buffer *b)
{
	const struct transport *tr = t->transport;
	int err = t->check && !b->of_gpu ? t->check(b->addr, b->len) : 0;

	if (!err && tr->regions && !(b->of_gpu && !tr->gpus))
		err = register_parts(t, b, -1, 0);
	return err;
}

/* ---- the stage ---- */

/* Maps memory whose size cannot change, so that peers can map it as well. 0 or -errno. */
static int map(size_t len, int *fd_p, void **addr_p)
{
	int fd = memfd_create("tent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *addr = MAP_FAILED;
	int err;

	if (fd >= 0 && !ftruncate(fd, (off_t)len) &&
		!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr != MAP_FAILED) {
		*fd_p = fd;
		*addr_p = addr;
		return 0;
	}
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * Allocates, pins and registers the slots for one direction of the stage, see stage.c. 0 or -errno.
 */
static int make_slots(struct tent *t, struct buffer **b_p)
{
	const uint64_t len = STAGE_SLOTS * STAGE_SLOT_LEN;
	struct buffer *b;
	void *at;
	int fd, err = map(len, &fd, &at);

	if (err)
		return err;
	pthread_mutex_lock(&t->lock);
	b = new_buffer(t, (uintptr_t)at, len, 0, NULL, fd);
	pthread_mutex_unlock(&t->lock);
	if (!b) {
		munmap(at, len);
		close(fd);
		return -ENOMEM;
	}
	b->state = BUFFER_READY;
	b->id = UINT32_MAX; /* the stage is no registration */
	err = gpu_memory_pin(at, len);
	b->pinned = !err;
	if (!err)
		err = register_buffer(t, b);
	if (err)
		buffer_free(t, b);
	else
		*b_p = b;
	return err;
}

/* Makes the stage, if there is none yet. 0 or -errno. */
static int make_stage(struct tent *t)
{
	struct buffer *in = NULL, *out = NULL;
	struct gpu_copies *copies = NULL;
	bool has;
	int err;

	pthread_mutex_lock(&t->lock);
	has = t->stage_in;
	pthread_mutex_unlock(&t->lock);
	if (has)
		return 0;
	err = gpu_copies_new(&copies);
	if (!err)
		err = make_slots(t, &in);
	if (!err)
		err = make_slots(t, &out);
	pthread_mutex_lock(&t->lock);
	has = t->stage_in; /* another thread has made it */
	if (!err && !has) {
		t->stage_in = in;
		t->stage_out = out;
		t->copies = copies;
		loop_watch(t, gpu_copies_fd(copies));
	}
	pthread_mutex_unlock(&t->lock);
	if (err || has) {
		gpu_copies_free(copies);
		buffer_free(t, in);
		buffer_free(t, out);
	}
	return err;
}

/* ---- registrations ---- */

/* The registration takes long and runs without the lock, so that the engine still serves peers. */
static int add(struct tent *t, struct buffer *b, struct tent_why *why)
{
	int err = 0;

	if (b->of_gpu && !t->transport->gpus)
		b->staged = register_dmabuf(t, b, why);
	if (b->staged)
		err = make_stage(t);
	if (!err)
		err = register_buffer(t, b);
	pthread_mutex_lock(&t->lock);
	if (err)
		leave(t, b);
	else
		make_ready(t, b);
	pthread_mutex_unlock(&t->lock);
	if (err) {
		b->fd = -1; /* the memory stays the caller's */
		buffer_free(t, b);
	}
	return err;
}

/* Returns the GPU's own location if the topology has it, else that of the GPU's NUMA node. */
static int gpu_location(const struct tent *t, const struct gpu_memory *gpu)
{
	char name[TENT_NAME_LEN];
	int location;

	snprintf(name, sizeof(name), "cuda:%d", gpu->device);
	location = topo_location(&t->topo, name);
	if (location >= 0)
		return location;
	snprintf(name, sizeof(name), "cpu:%d", gpu_memory_node(gpu->device));
	location = topo_location(&t->topo, name);
	return location < 0 ? 0 : location;
}

/*
 * Registers memory for tent_register() and tent_alloc(). @fd: descriptor of memory from
 * tent_alloc(), which the buffer owns after success; -1: none.
 */
static int register_memory(struct tent *t, void *addr, size_t len, const char *location, int fd,
	struct tent_why *why)
{
	struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};
	struct gpu_memory gpu;
	struct buffer *b = NULL;
	int of_gpu, loc, err;

	why_clear(why);
	of_gpu = gpu_memory_find((uintptr_t)addr, len, location, &gpu, why);
	if (of_gpu < 0)
		return of_gpu;
	pthread_mutex_lock(&t->lock);
	loc = of_gpu ? gpu_location(t, &gpu) : topo_location(&t->topo, location);
	err = check(t, (uintptr_t)addr, len, loc, why);
	if (!err)
		b = new_buffer(t, (uintptr_t)addr, len, (uint32_t)loc, of_gpu ? &gpu : NULL, fd);
	if (b)
		enter(t, b);
	pthread_mutex_unlock(&t->lock);
	if (err)
		return err;
	err = b ? add(t, b, why) : -ENOMEM;
	if (err) {
		getrlimit(RLIMIT_MEMLOCK, &locked);
		memory_why(err, &locked, len, why);
	}
	return err;
}

int tent_register(struct tent *t, void *addr, size_t len, const char *location,
	struct tent_why *why)
{
	return register_memory(t, addr, len, location, -1, why);
}

int tent_alloc(struct tent *t, size_t len, const char *location, struct tent_why *why,
	void **addr_p)
{
	void *addr = NULL;
	int fd = -1, err = len && len <= INT64_MAX ? map(len, &fd, &addr) : -EINVAL;

	if (err)
		return why_say(why, err, "allocation of %zu bytes: %s", len, strerror(-err));
	err = register_memory(t, addr, len, location, fd, why);
	if (err) {
		munmap(addr, len);
		close(fd);
		return err;
	}
	*addr_p = addr;
	return 0;
}

int tent_unregister(struct tent *t, void *addr)
{
	struct buffer *b;
	uint32_t at;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	at = place_behind(t, (uintptr_t)addr);
	b = at ? t->buffers[at - 1] : NULL;
	if (!b || b->addr != (uintptr_t)addr || b->state != BUFFER_READY)
		err = -ENOENT;
	else if (b->uses)
		err = -EBUSY;
	else
		err = revoke_begin(t, b);
	if (err) {
		pthread_mutex_unlock(&t->lock);
		return err;
	}
	err = revoke_wait(t, b);
	leave(t, b);
	pthread_mutex_unlock(&t->lock);
	buffer_free(t, b);
	return err;
}
