/* SPDX-License-Identifier: MIT */
#include "base/oldargs.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Control characters are replaced, so that it stays one line. */
static void make_line(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}

int arg_bad(const struct arg *a, const char *give)
{
	if (a->size) {
		snprintf(a->why, a->size, "--%s '%.60s' is not valid: give %s", a->name, a->value,
			give);
		make_line(a->why);
	}
	return -EINVAL;
}

int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p)
{
	char *end, give[80];
	unsigned long long n;

	errno = 0;
	n = strtoull(a->value, &end, strncasecmp(a->value, "0x", 2) != 0 ? 10 : 16);
	if (isdigit((unsigned char)*a->value) && !*end && !errno && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give), "a whole number from %" PRIu64 " to %" PRIu64, min, max);
	return arg_bad(a, give);
}

int arg_u32(const struct arg *a, uint32_t min, uint32_t max, uint32_t *n_p)
{
	uint64_t n = 0;
	int err = arg_whole(a, min, max, &n);

	if (!err)
		*n_p = (uint32_t)n;
	return err;
}

int arg_u16(const struct arg *a, uint16_t min, uint16_t max, uint16_t *n_p)
{
	uint64_t n = 0;
	int err = arg_whole(a, min, max, &n);

	if (!err)
		*n_p = (uint16_t)n;
	return err;
}

int arg_u8(const struct arg *a, uint8_t min, uint8_t max, uint8_t *n_p)
{
	uint64_t n = 0;
	int err = arg_whole(a, min, max, &n);

	if (!err)
		*n_p = (uint8_t)n;
	return err;
}

int arg_real(const struct arg *a, double min, double max, double *x_p)
{
	bool number = isdigit((unsigned char)*a->value) || *a->value == '.';
	char *end, give[80];
	double x = strtod(a->value, &end);

	if (number && end != a->value && !*end && x >= min && x <= max) {
		*x_p = x;
		return 0;
	}
	snprintf(give, sizeof(give), "a number from %g to %.10g", min, max);
	return arg_bad(a, give);
}

int arg_time(const struct arg *a, double min, double max, double unit_ns, uint64_t *ns_p)
{
	double x = 0;
	int err = arg_real(a, min, max, &x);

	if (!err)
		*ns_p = (uint64_t)(x * unit_ns + .5);
	return err;
}

int arg_text(const struct arg *a, const char *what, const char **text_p)
{
	if (!*a->value)
		return arg_bad(a, what);
	*text_p = a->value;
	return 0;
}

int arg_word(const struct arg *a, const char *const *words, unsigned *index_p)
{
	char give[200] = "";
	size_t at = 0;

	for (unsigned i = 0; words[i]; i++) {
		if (!strcasecmp(words[i], a->value)) {
			*index_p = i;
			return 0;
		}
		if (at < sizeof(give))
			at += (size_t)snprintf(give + at, sizeof(give) - at, "%s%s",
				!i           ? "" :
				words[i + 1] ? ", " :
					       " or ",
				words[i]);
	}
	return arg_bad(a, give);
}

int arg_either(const struct arg *a, const char *yes, const char *no, bool *yes_p)
{
	bool is_yes = !strcmp(a->value, yes);
	char give[80];

	if (is_yes || !strcmp(a->value, no)) {
		*yes_p = is_yes;
		return 0;
	}
	snprintf(give, sizeof(give), "%s or %s", yes, no);
	return arg_bad(a, give);
}

int args_fail(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return -EINVAL;
}

/* The long option that a letter stands for: letters are values of long options. */
static const struct option *option_of(const struct option *options, int val)
{
	while (options->name && options->val != val)
		options++;
	return options;
}

/*
 * What getopt_long() did not take. A letter may stand within a word, of which nothing is known then:
 * argv[optind - 1] may still be the word before.
 */
static void refuse(int val, char **argv, const struct option *options, char *why, size_t size)
{
	const char letter[] = {'-', (char)optopt, 0};
	bool is_letter = val == '?' && optopt && !option_of(options, optopt)->name;

	snprintf(why, size, "%.60s %s: give one of the options of --help",
		is_letter ? letter : argv[optind - 1],
		val == ':' ? "needs a value" : "is not valid");
	make_line(why);
}

int args_read(int argc, char **argv, const char *letters, const struct option *options, arg_fn *fn,
	void *arg, char *why, size_t size)
{
	struct arg a = {.why = why, .size = size};
	int val, err;

	if (size)
		why[0] = 0;
	opterr = 0;
	optind = 0;
	while ((val = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (val == ':' || val == '?') {
			refuse(val, argv, options, why, size);
			return -EINVAL;
		}
		a.name = option_of(options, val)->name;
		a.value = optarg ? optarg : "";
		err = fn(arg, val, &a);
		if (err && size)
			make_line(why);
		if (err)
			return err;
	}
	return optind;
}

int args_end(int argc, char **argv, int first, char *why, size_t size)
{
	if (first >= argc)
		return 0;
	snprintf(why, size, "'%.60s' is too much: give options only", argv[first]);
	make_line(why);
	return -EINVAL;
}
