/* SPDX-License-Identifier: MIT */
/* Pseudo-random numbers: splitmix64 (S. Vigna, public domain description). */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stdint.h>

/* The finaliser of splitmix64, a bijection. Similar numbers have dissimilar results. */
static inline uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Returns the next number. Equal seeds in *state lead to equal sequences. */
static inline uint64_t rand_next(uint64_t *state)
{
	return mix64(*state += 0x9e3779b97f4a7c15ull);
}

/* Returns a number from 0 inclusive to 1 exclusive. */
static inline double rand_unit(uint64_t *state)
{
	return (double)(rand_next(state) >> 11) * 0x1p-53;
}

#endif
