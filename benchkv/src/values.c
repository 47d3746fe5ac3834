/* SPDX-License-Identifier: MIT */
#include "values.h"

#include <string.h>

#include "base/compiler.h"

#define RING_MIN 4096u
#define RING_MAX (1u << 30)

int value_distribution(const struct arg *a, double *theta_p)
{
	struct arg number = {.name = a->name, .value = a->value};
	double theta = 0;

	if (!strncmp(a->value, "zipf:", 5)) {
		number.value += 5;
		if (arg_real(&number, 1e-6, 10, &theta))
			return arg_bad(a, "zipf: and a number above 0, at most 10, as zipf:0.99");
	} else if (strcmp(a->value, "uniform")) {
		return arg_bad(a, "uniform, or zipf:THETA as zipf:0.99");
	}
	*theta_p = theta;
	return 0;
}

int value_ring_size(const struct arg *a, uint32_t *size_p)
{
	struct arg number = {.name = a->name, .value = a->value};
	uint32_t size = 0;

	if (strcmp(a->value, "auto") &&
		(arg_u32(&number, RING_MIN, RING_MAX, &size) || !is_pow2(size)))
		return arg_bad(a, "auto, or a power of two from 4096 to 1073741824");
	*size_p = size;
	return 0;
}
