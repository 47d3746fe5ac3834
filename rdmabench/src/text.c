/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool name_is_safe(const char *name)
{
	size_t len = strnlen(name, 64);

	if (!len || len > 63 || name[0] == '.')
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
	       len;
}

int read_name(const struct arg *a, void *name_p)
{
	if (!name_is_safe(a->value))
		return arg_bad(a, "1 to 63 letters, digits, '.', '_' and '-', no '.' first");
	*(const char **)name_p = a->value;
	return 0;
}

int fail(char *why, size_t size, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return err;
}

char *trim(char *text, const char *letters)
{
	size_t len;

	text += strspn(text, letters);
	for (len = strlen(text); len && strchr(letters, text[len - 1]); len--)
		;
	text[len] = 0;
	return text;
}

json_t *text_json(const char *text)
{
	json_t *v = json_string(text);
	char copy[1024];

	if (v)
		return v;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *c = copy; *c; c++)
		if (!isascii((unsigned char)*c))
			*c = '?';
	return json_string(copy);
}
