/* SPDX-License-Identifier: MIT */
/* A server's pool of registered buffers for the large requests that it holds. Buffers are reused;
 * their total size has a limit. */
#ifndef COPYRPC_POOL_H
#define COPYRPC_POOL_H

#include "internal.h"

/* A buffer of the pool, not a block of a ring. */
struct block {
	struct block *next; /* in the list of spare buffers */
	struct mlx5dvl_mr mr; /* no peer has access */
};

/* Returns the length of a buffer for @len bytes. */
static inline uint64_t block_len(uint64_t len)
{
	return len ? align_up(len, (uint64_t)64 << 10) : (uint64_t)64 << 10;
}

/* Gets a buffer for @len bytes. Returns 0, or -EAGAIN: the limit is reached, try again after
 * pool_put(); or -ENOMEM, or an error of the driver. */
int pool_get(struct copyrpc_ctx *ctx, uint64_t len, struct block **block_p);
void pool_put(struct copyrpc_ctx *ctx, struct block *block);

/* Sets the limit of the total size, and frees spare buffers while it is exceeded. */
void pool_limit(struct copyrpc_ctx *ctx, uint64_t most);

#endif
