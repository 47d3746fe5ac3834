/* SPDX-License-Identifier: MIT */
/* Reports in JSON. For programs that link jansson. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <errno.h>
#include <jansson.h>

/* Returns a new string. JSON requires UTF-8; text that is not UTF-8 is replaced, not refused. */
static inline json_t *json_text(const char *text)
{
	json_t *string = json_string(text);

	return string ? string : json_string("(not UTF-8)");
}

/*
 * Writes the object on a line of ASCII, reals with at most @digits significant digits, and releases
 * the object. Returns 0 or -errno; -ENOMEM if @object is NULL, because the caller could not
 * allocate it.
 */
static inline int json_line(json_t *object, int digits, FILE *out)
{
	int err = object ? 0 : -ENOMEM;

	errno = 0;
	if (object && (json_dumpf(object, out,
			       JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits)) ||
			      fputc('\n', out) == EOF))
		err = errno ? -errno : -EIO;
	json_decref(object);
	return err;
}

#endif
