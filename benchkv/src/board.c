/* SPDX-License-Identifier: MIT */
#include "board.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct board_slot) == 32, "a slot lies in one cache line");

uint64_t board_bytes(uint32_t keys)
{
	return (uint64_t)keys * sizeof(struct board_slot);
}

/* A slot of zeros has no post. */
int board_init(struct board *b, uint32_t keys)
{
	b->slots = aligned_alloc(alignof(struct board_slot), board_bytes(keys));
	if (!b->slots)
		return -ENOMEM;
	memset(b->slots, 0, board_bytes(keys));
	return 0;
}

void board_fini(struct board *b)
{
	free(b->slots);
}
