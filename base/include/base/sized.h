/* SPDX-License-Identifier: MIT */
/*
 * Copies structs of public headers that callers pass with their size, so that a new field at the
 * end of a struct breaks no program. Fields that only the library's struct has count as 0 when the
 * library reads a caller's struct. Fields that only the caller's struct has must be 0.
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the value of an attribute, or its default if the value is 0. */
static inline uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

/* Copies the bytes that both the caller's struct (`size`) and the library's (`known`) have. */
static inline void sized_out(void *to, size_t size, const void *from, size_t known)
{
	memcpy(to, from, size < known ? size : known);
}

/*
 * Reads a caller's struct of `size` bytes into the library's of `own` bytes. Fields that the caller
 * does not have become 0. Returns 0, or -E2BIG if a field that the library does not have is not 0.
 */
static inline int sized_in(void *to, size_t own, const void *from, size_t size)
{
	const unsigned char *bytes = (const unsigned char *)from;

	for (size_t i = own; i < size; i++)
		if (bytes[i])
			return -E2BIG;
	memset(to, 0, own);
	memcpy(to, from, size < own ? size : own);
	return 0;
}

/* Calls sized_in() for attributes, which begin with their size. A size of 0 means the first version
 * of the struct, which has `first` bytes. The attributes may be NULL: then all fields are 0. */
static inline int sized_in_attr(void *to, size_t own, const void *attr, size_t first)
{
	size_t size = attr ? *(const size_t *)attr : 0;

	if (attr && !size)
		size = first;
	return sized_in(to, own, attr ? attr : to, size);
}

/* Calls sized_in_attr(); `last` is the last field of the first version. */
#define SIZED_ATTR(to, attr, last)                                                                 \
	sized_in_attr((to), sizeof(*(to)), (attr),                                                 \
		offsetof(__typeof__(*(to)), last) + sizeof((to)->last))

#endif
