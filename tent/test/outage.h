/* SPDX-License-Identifier: MIT */
/* Adds faults to the software HCA, and reads the statistics of rails with faults. */
#ifndef TENT_TEST_OUTAGE_H
#define TENT_TEST_OUTAGE_H

#include <sched.h>
#include <stdarg.h>

#include "duo.h"

static inline void __attribute__((format(printf, 1, 2))) outage_ctl(const char *format, ...)
{
	char words[200], command[500];
	va_list ap;

	va_start(ap, format);
	vsnprintf(words, sizeof(words), format, ap);
	va_end(ap);
	snprintf(command, sizeof(command), "%s %s", getenv("SOFTHCACTL"), words);
	CHECK_EQ(system(command), 0);
}

static inline struct tent_rail_stats outage_rail(uint32_t i)
{
	struct tent_rail_stats r;

	CHECK_EQ(tent_rail_get_stats(d.s, i, &r, sizeof(r)), 0);
	return r;
}

#endif
