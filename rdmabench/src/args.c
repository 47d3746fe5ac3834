/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int arg_bad(const struct arg *a, const char *give)
{
	snprintf(a->why, a->size, "--%s '%.60s' is not valid: give %s", a->name, a->value, give);
	for (char *c = a->why; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?'; /* it stays one line */
	return -EINVAL;
}

int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p)
{
	char *end, give[80];
	unsigned long long n;

	errno = 0;
	n = strtoull(a->value, &end, 0);
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

int arg_real(const struct arg *a, double min, double max, double *x_p)
{
	bool number = isdigit((unsigned char)*a->value) || *a->value == '.';
	char *end, give[80];
	double x = strtod(a->value, &end);

	if (number && end != a->value && !*end && x >= min && x <= max) {
		*x_p = x;
		return 0;
	}
	snprintf(give, sizeof(give), "a number from %g to %g", min, max);
	return arg_bad(a, give);
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

bool name_is_safe(const char *name)
{
	size_t len = strnlen(name, 64);

	if (!len || len > 63 || name[0] == '.')
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
	       len;
}

int arg_name(const struct arg *a, const char **name_p)
{
	if (!name_is_safe(a->value))
		return arg_bad(a, "1 to 63 letters, digits, '.', '_' and '-', no '.' first");
	*name_p = a->value;
	return 0;
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

/* The long option that a letter stands for: letters are values of long options. */
static const struct option *option_of(const struct option *options, int val)
{
	while (options->name && options->val != val)
		options++;
	return options;
}

int args_read(int argc, char **argv, const char *letters, const struct option *options, arg_fn *fn,
	void *arg, char *why, size_t size)
{
	struct arg a = {.why = why, .size = size};
	int val, err;

	opterr = 0;
	optind = 0;
	while ((val = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (val == ':' || val == '?') {
			snprintf(why, size, "%.60s %s: give one of the options of --help",
				argv[optind - 1], val == ':' ? "needs a value" : "is not valid");
			return -EINVAL;
		}
		a.name = option_of(options, val)->name;
		a.value = optarg ? optarg : "";
		err = fn(arg, val, &a);
		if (err)
			return err;
	}
	return optind;
}
