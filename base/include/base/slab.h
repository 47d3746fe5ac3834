/* SPDX-License-Identifier: MIT */
/*
 * Allocates ids from a fixed set. The id freed last is allocated first, so that few ids are used
 * and their data stays in the cache. An id that comes from a peer must be checked with
 * slab_in_use() before it is used as an index. At most one thread at a time may use a slab.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"

#define SLAB_NONE UINT32_MAX
#define SLAB_BUSY (UINT32_MAX - 1)

struct slab {
	uint32_t *next; /* next[id]: the next free id, SLAB_NONE, or SLAB_BUSY if id is in use */
	uint32_t free; /* top of the free stack, or SLAB_NONE */
	uint32_t capacity;
	uint32_t used;
};

/* Returns 0, -EINVAL (capacity is 0 or exceeds 2^31) or -ENOMEM. */
static inline int slab_init(struct slab *s, uint32_t capacity)
{
	if (!capacity || capacity > 1u << 31)
		return -EINVAL;
	s->next = calloc(capacity, sizeof(*s->next));
	if (!s->next)
		return -ENOMEM;
	for (uint32_t i = 0; i < capacity; i++)
		s->next[i] = i + 1 < capacity ? i + 1 : SLAB_NONE;
	s->free = 0;
	s->capacity = capacity;
	s->used = 0;
	return 0;
}

static inline void slab_fini(struct slab *s)
{
	free(s->next);
	s->next = NULL;
}

/* Returns an id less than the capacity, or SLAB_NONE if all are in use. */
static inline uint32_t slab_get(struct slab *s)
{
	uint32_t id = s->free;

	if (unlikely(id == SLAB_NONE))
		return SLAB_NONE;
	s->free = s->next[id];
	s->next[id] = SLAB_BUSY;
	s->used++;
	return id;
}

static inline bool slab_is_full(const struct slab *s)
{
	return s->free == SLAB_NONE;
}

static inline bool slab_in_use(const struct slab *s, uint32_t id)
{
	return id < s->capacity && s->next[id] == SLAB_BUSY;
}

static inline void slab_put(struct slab *s, uint32_t id)
{
	assert(slab_in_use(s, id));
	s->next[id] = s->free;
	s->free = id;
	s->used--;
}

#endif
