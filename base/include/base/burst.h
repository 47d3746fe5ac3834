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

/* Two words in one store: it takes one of the places in which stores wait for a line. */
static inline void burst_pair(uint64_t *to, const uint64_t *from)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/* From two loads on purpose, see below; the compiler would make one of them. */
	__asm__ volatile("movq %2, %%xmm0\n\tmovhps %3, %%xmm0\n\tmovups %%xmm0, %0"
			 : "=m"(*to), "=m"(to[1])
			 : "m"(*from), "m"(from[1])
			 : "xmm0");
#else
	__atomic_store_n(to, *from, __ATOMIC_RELAXED);
	__atomic_store_n(to + 1, from[1], __ATOMIC_RELAXED);
#endif
}

/*
 * Copies so many bytes, a multiple of 8, both sides aligned to 8. The first word, which the
 * reader looks at, is stored last, with release: when it is there, all is.
 *
 * Scalar loads on purpose: the messages have just been written word by word, and a wider
 * load would wait until these stores have left the core, behind all that wait for a line.
 * Relaxed, because a reader may look at a word that it does not believe yet.
 */
static inline void burst_copy(void *ring, const void *stage, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)stage;
	uint64_t *to = (uint64_t *)ring;
	size_t n = bytes / sizeof(*to), i = 1;

	if ((uintptr_t)&to[i] % 16 && i < n) { /* so that no pair lies on two lines */
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
		i++;
	}
#pragma GCC unroll 1
	for (; i + 1 < n; i += 2)
		burst_pair(&to[i], &from[i]);
	if (i < n)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
	/* Pairs with the acquire of the reader's look. */
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
}

#endif
