/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TOPO_KEYVALUE_H
#define SOFTHCA_TOPO_KEYVALUE_H

/*
 * Parser for lines of key=value, the format of topologies and fault rules. '#' begins a
 * comment. Every error message is one line, without a newline, that says which values are
 * valid.
 */

#include <stdbool.h>
#include <stddef.h>

/* A field of the struct that kv_line() fills, and the range of the field's values. */
struct kv_field {
	size_t offset, size;
	unsigned long long min, max;
};

#define KV_FIELD(type, field, min, max)                                                            \
	{                                                                                          \
		offsetof(type, field), sizeof(((type *)0)->field), min, max                        \
	}

struct kv_key {
	const char *name;
	const char *want; /* the valid values, for the message */
	bool repeats;
	bool (*set)(void *object, const char *value); /* returns false if the value is not valid */
	struct kv_field field; /* used if `set` is NULL: the value is a number */
};

struct kv_source {
	const char *name; /* of the file, for messages */
	unsigned int line;
	char *err;
	size_t errlen;
};

/* Writes "NAME:LINE: " and the message into err; returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int kv_fail(const struct kv_source *src, const char *fmt,
	...);

/*
 * Parses a line, which it modifies, and stores the values of the keys in object. Returns the
 * number of keys (0: the line is empty or a comment), or -EINVAL with src->err written.
 */
int kv_line(const struct kv_source *src, char *line, const struct kv_key *keys, size_t nkeys,
	void *object);

/*
 * Parses an unsigned number in min .. max: decimal, or hexadecimal after 0x. Returns false if the
 * value is not such a number.
 */
bool kv_number(const char *value, unsigned long long min, unsigned long long max,
	unsigned long long *out_p);

/*
 * Returns the text of a regular file of less than 64 KiB; the caller frees it. Returns NULL, with
 * err written and *rc_p set to -errno, if the file cannot be read. @what: the kind of file that
 * err demands.
 */
char *kv_read_file(const char *path, const char *what, char *err, size_t errlen, int *rc_p);

#endif
