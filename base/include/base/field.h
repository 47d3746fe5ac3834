/* SPDX-License-Identifier: MIT */
/* Reads and writes members of structs by offset and size, so that tables can describe them. */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first bytes are the low ones");

/*
 * The position of a member. The functions are for members that are integers or bools; field_get()
 * does not extend the sign.
 */
struct field {
	size_t offset, size; /* bytes */
};

#define FIELD(type, name)                                                                          \
	{                                                                                          \
		offsetof(type, name), sizeof(((type *)NULL)->name)                                 \
	}

static inline uint64_t field_get(const void *object, struct field f)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)object + f.offset, f.size);
	return value;
}

static inline void field_set(void *object, struct field f, uint64_t value)
{
	memcpy((uint8_t *)object + f.offset, &value, f.size);
}

#endif
