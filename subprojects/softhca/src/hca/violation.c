/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hca/config.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "sys/sys.h"

#define LINE 256

void strict_violation(const char *fmt, ...)
{
	char line[LINE] = "softhca: strict: ";
	size_t n = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	sys_write(2, line, n);
	counters_of(fabric_self.slot)->violations++;
	if (config_get()->strict_aborts)
		abort();
}
