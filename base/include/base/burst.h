/* SPDX-License-Identifier: MIT */
/*
 * Messages that were collected in private memory go into a ring together. A core can have
 * only so many stores waiting for lines that are elsewhere, and private stores of the work
 * between two messages count as well, so the copy is stores to the ring and nothing else.
 */
#ifndef BASE_BURST_H
#define BASE_BURST_H

#include <stddef.h>
#include <stdint.h>

/*
 * Copies so many bytes, a multiple of 8, both sides aligned to 8. The first word, which the
 * reader looks at, is stored last, with release: when it is there, all is.
 *
 * Scalar words on purpose: the messages have just been written word by word, and a wider
 * load would wait until these stores have left the core, behind all that wait for a line.
 * Relaxed, because a reader may look at a word that it does not believe yet.
 */
static inline void burst_copy(void *ring, const void *stage, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)stage;
	uint64_t *to = (uint64_t *)ring;

#pragma GCC unroll 4
	for (size_t i = 1; i < bytes / sizeof(*to); i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
	/* Pairs with the acquire of the reader's look. */
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
}

#endif
