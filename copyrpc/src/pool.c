/* SPDX-License-Identifier: MIT */
#include "pool.h"

#include <stdlib.h>
#include <sys/mman.h>

static int block_create(struct copyrpc_ctx *ctx, uint64_t len, struct block **block_p)
{
	struct block *b = calloc(1, sizeof(*b));
	void *at;
	int rc = -ENOMEM;

	if (!b)
		return -ENOMEM;
	at = memory_map(len);
	if (!at)
		goto free;
	rc = mlx5dvl_mr_reg(ctx->dev, at, len, MLX5DVL_LOCAL_WRITE, &b->mr);
	if (rc)
		goto unmap;
	ctx->pool.size += len;
	*block_p = b;
	return 0;
unmap:
	munmap(at, len);
free:
	free(b);
	return rc;
}

static void block_destroy(struct copyrpc_ctx *ctx, struct block *b)
{
	void *at = b->mr.addr;
	size_t len = b->mr.len;

	ctx->pool.size -= len;
	mlx5dvl_mr_dereg(&b->mr);
	munmap(at, len);
	free(b);
}

/* Frees spare buffers, the most recently used ones first, until @len bytes can be added. */
static void make_room(struct copyrpc_ctx *ctx, uint64_t len)
{
	struct block *b;

	while ((b = ctx->pool.spare) && ctx->pool.size + len > ctx->pool.most) {
		ctx->pool.spare = b->next;
		block_destroy(ctx, b);
	}
}

/* A spare buffer of more than twice the length is not used: it would waste too much of the
 * limit. */
int pool_get(struct copyrpc_ctx *ctx, uint64_t len, struct block **block_p)
{
	struct block **at = &ctx->pool.spare, *b;

	len = block_len(len);
	while (*at && ((*at)->mr.len < len || (*at)->mr.len > 2 * len))
		at = &(*at)->next;
	b = *at;
	if (b) {
		*at = b->next;
		*block_p = b;
		return 0;
	}
	make_room(ctx, len);
	if (ctx->pool.size + len > ctx->pool.most)
		return -EAGAIN;
	return block_create(ctx, len, block_p);
}

void pool_put(struct copyrpc_ctx *ctx, struct block *b)
{
	b->next = ctx->pool.spare;
	ctx->pool.spare = b;
	make_room(ctx, 0);
}

void pool_limit(struct copyrpc_ctx *ctx, uint64_t most)
{
	ctx->pool.most = most;
	make_room(ctx, 0);
}
