/* SPDX-License-Identifier: MIT */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int why_failed(char *why, int size, int err, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(why, (size_t)size, fmt, args);
	va_end(args);
	if (n > 0 && n < size)
		snprintf(why + n, (size_t)(size - n), ": %s", strerror(-err));
	return err;
}

int why_no_region(char *why, int size, int err, const char *name)
{
	return why_failed(why, size, err, "shared memory '%s' cannot be made in /dev/shm", name);
}

int why_no_daemon(char *why, int size, int err)
{
	return why_failed(why, size, err, "a client cannot connect to its daemons");
}
