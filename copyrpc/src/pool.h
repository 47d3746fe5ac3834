/* SPDX-License-Identifier: MIT */
/* Memory of a server for the large requests that it holds: registered blocks, which are used again,
 * up to a limit. */
#ifndef COPYRPC_POOL_H
#define COPYRPC_POOL_H

#include "internal.h"

struct block {
	struct block *next; /* in the list of spare ones */
	struct mlx5dvl_mr mr; /* no peer has access */
};

/* Returns the length of the block for @len bytes. */
static inline uint64_t block_len(uint64_t len)
{
	return len ? align_up(len, (uint64_t)64 << 10) : (uint64_t)64 << 10;
}

/* Gets a block for @len bytes. Returns 0, or -EAGAIN: the limit is reached, try again after
 * pool_put(); or -ENOMEM, or an error of the driver. */
int pool_get(struct copyrpc_ctx *ctx, uint64_t len, struct block **block_p);
void pool_put(struct copyrpc_ctx *ctx, struct block *block);

/* Sets the limit, and frees spare blocks above it. */
void pool_limit(struct copyrpc_ctx *ctx, uint64_t most);

#endif
