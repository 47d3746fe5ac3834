/* SPDX-License-Identifier: MIT */
#include "hello.h"

#include <math.h>
#include <string.h>

#define ERRNO_MAX 4095u

static bool is_time(double ns)
{
	return isfinite(ns) && ns >= 0;
}

bool hello_valid(const struct hello *h)
{
	bool valid = h->magic == HELLO_MAGIC && h->machine_errno <= ERRNO_MAX;

	for (enum file f = 0; f < FILES; f++)
		valid = valid && h->file_errno[f] <= ERRNO_MAX;
	valid = valid && h->window >= 1 && h->window <= CONTROL_NUMBER_MAX;
	valid = valid && h->full >= 1 && h->full <= CONTROL_NUMBER_MAX;
	valid = valid && h->basis < BASES;
	valid = valid && is_time(h->times.round_trip_ns);
	valid = valid && is_time(h->times.write_ns);
	valid = valid && is_time(h->times.message_ns);
	return valid && memchr(h->host, 0, sizeof(h->host));
}
