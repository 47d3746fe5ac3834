/* SPDX-License-Identifier: MIT */
/* The space with its built-in values. */
#ifndef RDMABENCH_TEST_USUAL_H
#define RDMABENCH_TEST_USUAL_H

#include "space.h"

static inline const struct space *usual(void)
{
	static struct space s;

	if (!s.n[0])
		space_init(&s);
	return &s;
}

#endif
