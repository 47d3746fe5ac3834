/* SPDX-License-Identifier: MIT */
#include "backend.h"

#include <string.h>

const struct backend *backend_find(const char *name)
{
	const struct backend *const *b = backends;

	while (*b && strcmp(name, (*b)->name))
		b++;
	return *b;
}

uint32_t backend_index(const struct backend *b)
{
	uint32_t i = 0;

	while (backends[i] != b)
		i++;
	return i;
}
