/* SPDX-License-Identifier: MIT */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

void why_clear(struct tent_why *why)
{
	if (why)
		why->text[0] = 0;
}

int why_say(struct tent_why *why, int err, const char *format, ...)
{
	va_list args;

	if (!why)
		return err;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return err;
}

void why_printable(const char *text, char *to, size_t size)
{
	size_t i;

	for (i = 0; text[i] && i + 1 < size; i++)
		to[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	to[i] = 0;
}
