/* SPDX-License-Identifier: MIT */
/* Texts from other processes and users: names that become part of a path, and texts for JSON. */
#ifndef RDMABENCH_TEXT_H
#define RDMABENCH_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/args.h"

/* Accepts a name that becomes part of a path: 1 to 63 of A-Z a-z 0-9 . _ -, the first not a dot. */
bool name_is_safe(const char *name);
/* Reads the value of an option as such a name, into a const char *. Used as the .read of rows. */
int read_name(const struct arg *a, void *name_p);

/* Writes a line to @why that describes the mistake and the valid values. Returns @err. */
int fail(char *why, size_t size, int err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Returns @text without these letters at both ends. Changes the text in place. */
char *trim(char *text, const char *letters);

/* Returns a new JSON string. Text that is not UTF-8 (file names, peers) is reduced to ASCII. */
json_t *text_json(const char *text);

#endif
