/* SPDX-License-Identifier: MIT */
/* Names for features of the compiler and the CPU. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Tells the compiler that @x is true. Behaviour is undefined if it is not. */
#define assume(x) ((x) ? (void)0 : __builtin_unreachable())

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member)                                                            \
	((type *)(void *)&((char *)(ptr))[-(long)offsetof(type, member)])

/* One pause in a polling loop: 25-45 ns on x86-64, for the core's other hardware thread to use. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/*
 * Makes the compiler load memory again after this point. Otherwise it may keep loaded values in
 * callee-saved registers, which the function would then have to save and restore.
 */
ALWAYS_INLINE void forget_loads(void)
{
	__asm__ volatile("" ::: "memory");
}

static inline int is_pow2(uint64_t x)
{
	return x && !(x & (x - 1));
}

/* The smallest power of two that is >= x; 1 for 0. x <= 2^63. */
static inline uint64_t pow2_ceil(uint64_t x)
{
	return x <= 1 ? 1 : 1ull << (64 - __builtin_clzll(x - 1));
}

/* Rounds x up to a multiple of a, which is a power of two. */
static inline uint64_t align_up(uint64_t x, uint64_t a)
{
	return (x + a - 1) & ~(a - 1);
}

#endif
