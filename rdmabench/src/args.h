/* SPDX-License-Identifier: MIT */
/* Values on a command line: each is checked, and a bad one is told in one line. */
#ifndef RDMABENCH_ARGS_H
#define RDMABENCH_ARGS_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The option that is being read, and where to say what is wrong with it. */
struct arg {
	const char *name; /* without the dashes */
	const char *value; /* "" without one */
	char *why;
	size_t size;
};

/* All return 0, or -EINVAL after having written to a->why; *_p is written on success only. */
int arg_bad(const struct arg *a, const char *give);
int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p);
int arg_u32(const struct arg *a, uint32_t min, uint32_t max, uint32_t *n_p);
int arg_real(const struct arg *a, double min, double max, double *x_p);
/* Anything but the empty string. */
int arg_text(const struct arg *a, const char *what, const char **text_p);
/* One of @words, the last of which is NULL: its index. */
int arg_word(const struct arg *a, const char *const *words, unsigned *index_p);
/* A name that becomes part of a path: 1 to 63 of A-Z a-z 0-9 . _ -, not beginning with a dot. */
int arg_name(const struct arg *a, const char **name_p);
bool name_is_safe(const char *name);

/* A new JSON string; of text that is no UTF-8 (file names, peers) what is ASCII of it. */
json_t *text_json(const char *text);

/* An option was read: its val of the struct option, and its value. 0 or -EINVAL. */
typedef int arg_fn(void *options, int val, const struct arg *a);

/*
 * Reads all options of argv[1...], and returns the index of the first operand, or -EINVAL. An
 * operand before an option is allowed. argv[0] is the name of the sub-command.
 */
int args_read(int argc, char **argv, const char *letters, const struct option *options, arg_fn *fn,
	void *arg, char *why, size_t size);

#endif
