/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* Bytes after a chunk of send rings, because a flush may read bytes after a ring. */
#define SPARE 64

struct chunk {
	struct chunk *next, **link_p;
	enum memory_use use;
	uint32_t piece_len;
	uint8_t *at;
	size_t len; /* mapped */
	bool in_file; /* at `offset` of the context's file */
	off_t offset;
	struct mlx5dvl_mr mr; /* of the whole chunk; unused for receive rings */
	struct slab pieces;
};

void *memory_map(size_t len)
{
	size_t spare = len >= HUGE_PAGE ? HUGE_PAGE : 0;
	uint8_t *at =
		mmap(NULL, len + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		return NULL;
	if (spare) {
		before = -(uintptr_t)at % HUGE_PAGE;
		if (before)
			munmap(at, before);
		if (before < spare)
			munmap(at + before + len, spare - before);
		at += before;
		madvise(at, len, MADV_HUGEPAGE); /* best effort */
	}
	madvise(at, len, MADV_DONTFORK);
	return at;
}

/* Adds @len bytes to the context's file. Returns false if that is not possible. It checks
 * RLIMIT_FSIZE, because ftruncate() beyond it raises SIGXFSZ. */
static bool extend_file(struct memory_file *f, size_t len)
{
	struct rlimit most;

	if (!f->open) {
		f->fd = memfd_create("copyrpc", MFD_CLOEXEC);
		f->open = f->fd >= 0;
		f->end = 0;
	}
	if (!f->open || getrlimit(RLIMIT_FSIZE, &most) || (rlim_t)f->end + len > most.rlim_cur ||
		ftruncate(f->fd, f->end + (off_t)len))
		return false;
	f->end += (off_t)len;
	return true;
}

static void close_file(struct memory_file *f)
{
	if (f->open)
		close(f->fd);
	f->open = false;
}

/*
 * Receive rings are in a file: an adapter in software (softhca(7)) maps them into the processes of
 * the peers, which then write to them without a system call. For other adapters it makes no
 * difference whether memory is in a file. Chunks of huge pages are private memory, because files
 * seldom have huge pages.
 */
static void map_in_file(struct memory_file *f, struct chunk *c)
{
	off_t offset = f->open ? f->end : 0;
	void *at;

	if (!extend_file(f, c->len))
		return;
	at = mmap(NULL, c->len, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, offset);
	if (at == MAP_FAILED)
		return;
	madvise(at, c->len, MADV_DONTFORK);
	c->at = at;
	c->offset = offset;
	c->in_file = true;
}

/* Returns the number of pieces of a new chunk. It is a quarter of the number of existing pieces, so
 * that few are unused, but the pieces fill at least a page. If they fill more than half a huge
 * page, the chunk takes a whole one. */
static uint32_t chunk_pieces(const struct copyrpc_ctx *ctx, enum memory_use use, uint32_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t n = 0, least = len < page ? (uint32_t)(page / len) : 1;

	for (const struct chunk *c = ctx->chunks; c; c = c->next)
		if (c->use == use && c->piece_len == len)
			n += c->pieces.capacity;
	n /= 4;
	if (n < least)
		n = least;
	if ((size_t)n * len > HUGE_PAGE / 2)
		n = (uint32_t)(HUGE_PAGE / len);
	return n ? n : 1;
}

static int register_chunk(struct copyrpc_ctx *ctx, struct chunk *c, size_t len)
{
	static const unsigned access[] = {
		[MEMORY_SEND] = 0,
		[MEMORY_WORDS] = MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_READ,
	};

	if (c->use == MEMORY_RECV)
		return 0;
	return mlx5dvl_mr_reg(ctx->dev, c->at, len, access[c->use], &c->mr);
}

/* Forked children may have the file open, so the chunk's part of it is freed explicitly. The file
 * is closed with the last chunk. */
static void chunk_free(struct copyrpc_ctx *ctx, struct chunk *c)
{
	mlx5dvl_mr_dereg(&c->mr);
	if (c->at)
		munmap(c->at, c->len);
	if (c->in_file)
		fallocate(ctx->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, c->offset,
			(off_t)c->len);
	if (!ctx->chunks)
		close_file(&ctx->file);
	slab_fini(&c->pieces);
	free(c);
}

static int chunk_new(struct copyrpc_ctx *ctx, enum memory_use use, uint32_t piece_len)
{
	uint32_t n = chunk_pieces(ctx, use, piece_len);
	size_t len = (size_t)n * piece_len, page = (size_t)sysconf(_SC_PAGESIZE);
	struct chunk *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->use = use;
	c->piece_len = piece_len;
	c->len = align_up(len + (use == MEMORY_SEND ? SPARE : 0), page);
	if (use == MEMORY_RECV && c->len < HUGE_PAGE)
		map_in_file(&ctx->file, c);
	if (!c->at)
		c->at = memory_map(c->len);
	rc = c->at ? slab_init(&c->pieces, n) : -ENOMEM;
	if (!rc)
		rc = register_chunk(ctx, c, len);
	if (rc) {
		chunk_free(ctx, c);
		return rc;
	}
	LINK(&ctx->chunks, c);
	return 0;
}

static struct chunk *find(struct copyrpc_ctx *ctx, enum memory_use use, uint32_t len)
{
	struct chunk *c = ctx->chunks;

	while (c && (c->use != use || c->piece_len != len || slab_is_full(&c->pieces)))
		c = c->next;
	return c;
}

int memory_take(struct copyrpc_ctx *ctx, enum memory_use use, uint32_t len, struct piece *p)
{
	struct chunk *c = find(ctx, use, len);
	int rc;

	if (!c) {
		rc = chunk_new(ctx, use, len);
		if (rc)
			return rc;
		c = ctx->chunks;
	}
	*p = (struct piece){.chunk = c, .lkey = c->mr.lkey, .rkey = c->mr.rkey};
	p->at = c->at + (size_t)slab_get(&c->pieces) * len;
	if (use != MEMORY_RECV)
		return 0;
	rc = mlx5dvl_mr_reg(ctx->dev, p->at, len, MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE,
		&p->mr);
	p->rkey = p->mr.rkey;
	if (rc)
		memory_give(ctx, p);
	return rc;
}

void memory_give(struct copyrpc_ctx *ctx, struct piece *p)
{
	struct chunk *c = p->chunk;

	if (!p->at)
		return;
	mlx5dvl_mr_dereg(&p->mr);
	slab_put(&c->pieces, (uint32_t)((size_t)(p->at - c->at) / c->piece_len));
	/* Clear the piece, which will serve another peer: a flush also sends the gaps between
	 * messages, and a peer can announce a request that it has not written. */
	if (c->pieces.used)
		memset(p->at, 0, c->piece_len);
	*p = (struct piece){0};
	if (c->pieces.used)
		return;
	UNLINK(c);
	chunk_free(ctx, c);
}
