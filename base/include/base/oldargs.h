/* SPDX-License-Identifier: MIT */
/*
 * Command lines of programs: args_read() reads the options, and for each calls a function that
 * reads its value by one of the arg_*() functions below. They check the value; a bad one is
 * described in one line, which names the option and says what to give instead.
 *
 *	static int parse_option(void *options, int val, const struct arg *a)
 *	{
 *		struct options *o = options;
 *
 *		switch (val) {
 *		case OPT_THREADS:
 *			return arg_u32(a, 1, 64, &o->threads);
 *		...
 *
 *	first = args_read(argc, argv, ":", long_options, parse_option, &o, why, sizeof(why));
 *	if (first < 0)
 *		fprintf(stderr, "program: %s\n", why);
 *
 * getopt_long() has global state, so one thread reads at a time. Texts that are returned belong to
 * argv. A program uses base_args_dep; no library does.
 */
#ifndef BASE_OLDARGS_H
#define BASE_OLDARGS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The option that is being read. */
struct arg {
	const char *name; /* without the dashes */
	const char *value; /* "" without one */
	char *why; /* what is wrong with it is written there */
	size_t size; /* of why; 0: nothing is written */
};

/* All return 0, or -EINVAL after having written to a->why; *_p is written on success only. */
int arg_bad(const struct arg *a, const char *give);
/* Decimal, with or without zeros in front, or 0x... hexadecimal. */
int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p);
int arg_u32(const struct arg *a, uint32_t min, uint32_t max, uint32_t *n_p);
int arg_u16(const struct arg *a, uint16_t min, uint16_t max, uint16_t *n_p);
int arg_u8(const struct arg *a, uint8_t min, uint8_t max, uint8_t *n_p);
int arg_real(const struct arg *a, double min, double max, double *x_p);
/* A real number of units, each of unit_ns nanoseconds, rounded; min and max are in units. */
int arg_time(const struct arg *a, double min, double max, double unit_ns, uint64_t *ns_p);
/* Anything but the empty string. */
int arg_text(const struct arg *a, const char *what, const char **text_p);
/* One of @words, the last of which is NULL, in any case of letters: its index. */
int arg_word(const struct arg *a, const char *const *words, unsigned *index_p);
/* One of two words. */
int arg_either(const struct arg *a, const char *yes, const char *no, bool *yes_p);

/* Of what is not about one option: -EINVAL, with text in why. */
int args_fail(char *why, size_t size, const char *text);

/* An option was read: its val of the struct option, and its value. 0 or a negative errno. */
typedef int arg_fn(void *options, int val, const struct arg *a);

/*
 * Reads the options of argv[1...] and returns the index of the first operand; -EINVAL, or what
 * fn returned. argv[0] is the name of the program or sub-command. letters: as getopt_long(), with
 * a ':' in front ("+:" ends at the first operand); each letter is the val of a long option.
 */
int args_read(int argc, char **argv, const char *letters, const struct option *options, arg_fn *fn,
	void *arg, char *why, size_t size);
/* No operand may be left at argv[first]: 0, or -EINVAL. */
int args_end(int argc, char **argv, int first, char *why, size_t size);

#endif
