/* SPDX-License-Identifier: MIT */
/*
 * The transport of GPUs between two processes of one host. A link is a queue of copies: the GPUs'
 * engines copy between memory that this process reaches on both sides. This process opens the
 * peer's memory of a GPU by its handle, and maps the peer's memory of the host if that is from
 * tent_alloc(). Own memory of the host is pinned when it is registered. The target has no end of a
 * link.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "gpucopy.h"
#include "gpumem.h"
#include "sched.h"
#include "transport.h"
#include "why.h"

/* A guess, until the scheduler has measured the rate. */
#define GBPS 400

struct gpu_link {
	struct link link;
	struct gpu_copies *copies;
	/* The callback of the current poll. */
	link_done_fn *done;
	void *done_arg;
};

/* ---- links ---- */

static struct gpu_link *to_gpu(struct link *l)
{
	return container_of(l, struct gpu_link, link);
}

static int put(struct gpu_link *l, const struct gpu_copy *c, uint32_t depth)
{
	int err = l->link.posted < depth ? gpu_copies_add(l->copies, c) : -EAGAIN;

	l->link.posted += !err;
	return err;
}

static int gpu_post(struct link *link, const struct link_move *m)
{
	uint64_t here = (uintptr_t)m->local, there = (uintptr_t)m->mapped;
	const struct gpu_copy c = {.to = m->write ? there : here,
		.from = m->write ? here : there,
		.len = m->len,
		.token = m->token};

	return put(to_gpu(link), &c, LINK_DEPTH);
}

static int gpu_post_probe(struct link *link, uint64_t token)
{
	return put(to_gpu(link), &(struct gpu_copy){.token = token}, LINK_DEPTH + LINK_EXTRA);
}

static void on_copied(void *arg, uint64_t token, int status)
{
	struct gpu_link *l = arg;

	l->done(l->done_arg, token, status);
	l->link.posted--;
}

static int gpu_poll(struct link *link, link_done_fn *fn, void *arg)
{
	struct gpu_link *l = to_gpu(link);

	if (!l->link.posted)
		return 0;
	l->done = fn;
	l->done_arg = arg;
	return gpu_copies_take(l->copies, on_copied, l);
}

static int gpu_stop(struct link *link)
{
	gpu_copies_stop(to_gpu(link)->copies);
	return 0;
}

static void gpu_destroy(struct link *link)
{
	gpu_copies_free(to_gpu(link)->copies);
	free(to_gpu(link));
}

static const struct link_ops gpu_ops = {
	.post = gpu_post,
	.post_probe = gpu_post_probe,
	.poll = gpu_poll,
	.stop = gpu_stop,
	.destroy = gpu_destroy,
};

static int gpu_new(struct port *p, const struct desc *peer, struct link **l_p)
{
	struct gpu_link *l = calloc(1, sizeof(*l));
	int err = l ? gpu_copies_new(&l->copies) : -ENOMEM;

	if (err) {
		free(l);
		return err;
	}
	l->link.ops = &gpu_ops;
	l->link.fds[0] = gpu_copies_fd(l->copies);
	l->link.fds[1] = -1;
	*l_p = &l->link;
	return 0;
}

/* ---- memory ---- */

/* The first rail pins the memory for all rails. */
static int gpu_add(struct port *p, uint64_t addr, uint64_t len, struct region *r_p)
{
	void *at = (void *)(uintptr_t)addr;
	const struct cuda *cu = cuda_used();
	struct gpu_memory m;
	int err;

	if (gpu_memory_at(cu, addr, &m))
		return 0;
	err = gpu_memory_pin(at, len);
	if (!err)
		r_p->own = at;
	return err == -EEXIST ? 0 : err;
}

static void gpu_remove(struct region *r)
{
	gpu_memory_unpin(r->own);
}

static void *gpu_map(const struct desc *peer, const struct desc_buffer *b)
{
	int device = 0;
	void *at;

	if (b->shared) {
		sscanf(b->location, "cuda:%d", &device);
		return gpu_memory_open(&b->handle, b->offset, b->len, device);
	}
	at = memory_map(peer, b);
	if (at && gpu_memory_pin(at, b->len)) {
		munmap(at, b->len);
		return NULL;
	}
	return at;
}

static void gpu_unmap(void *at, const struct desc_buffer *b)
{
	if (b->shared) {
		gpu_memory_close(at, b->offset);
		return;
	}
	gpu_memory_unpin(at);
	munmap(at, b->len);
}

/* ---- ports ---- */

static int gpu_open(const struct tent_attr *attr, const char *name, bool named, struct port **p_p,
	struct tent_why *why)
{
	int err = cuda_open(why) ? port_new("gpu", name, p_p) : -ENODEV;

	if (!err)
		(*p_p)->gbps = GBPS;
	return err;
}

static const char *const kinds[] = {"gpu", NULL};

extern const struct transport gpu_transport;
const struct transport gpu_transport = {
	.rails = "GPUs",
	.kinds = kinds,
	.regions = true,
	.mapped = true,
	.gpus = true,
	.spares = true,
	.stall_ns = SCHED_NEVER, /* a copy always ends, but a GPU may be busy for long */
	.asked = offsetof(struct tent_attr, gpu_rails),
	.open = gpu_open,
	.close = port_free,
	.check = memory_check,
	.add = gpu_add,
	.remove = gpu_remove,
	.map = gpu_map,
	.unmap = gpu_unmap,
	.reach = host_reach,
	.link = gpu_new,
};
