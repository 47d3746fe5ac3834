/* SPDX-License-Identifier: MIT */
/*
 * Memory of the endpoints of a context: rings and words (struct words). Pieces of equal size and
 * use are cut from chunks. A chunk of send rings or words is registered as a whole. Each receive
 * ring has a key of its own: the HCA does not check which peer uses a key, so a shared key would
 * let each peer write into the rings of all.
 */
#ifndef COPYRPC_MEMORY_H
#define COPYRPC_MEMORY_H

#include "mlx5dvl.h"

struct chunk;
struct copyrpc_ctx;

enum memory_use {
	MEMORY_SEND, /* send rings: no remote access */
	MEMORY_RECV, /* receive rings: the peer may write */
	MEMORY_WORDS, /* the peer may read */
};

struct piece {
	uint8_t *at; /* NULL: none */
	struct chunk *chunk;
	uint32_t lkey, rkey;
	struct mlx5dvl_mr mr; /* of a receive ring */
};

/* Maps memory, aligned for huge pages if it is large enough: the HCA translates addresses page by
 * page, and caches few translations. The pages are not inherited by fork(): with copy-on-write, a
 * write of the parent could move its data to another page, and the HCA would go on to use the
 * former one. Returns NULL if there is no memory. */
void *memory_map(size_t len);

/* Takes a piece of @len bytes, a power of two. It is aligned to @len or to a page, whichever is
 * less. Its contents are undefined. The 64 bytes after a send ring may be read. Returns 0 or
 * -errno. */
int memory_take(struct copyrpc_ctx *ctx, enum memory_use use, uint32_t len, struct piece *p);

/* Frees a piece, which the HCA must no longer use. If p->at is NULL, does nothing. */
void memory_give(struct copyrpc_ctx *ctx, struct piece *p);

#endif
