/* SPDX-License-Identifier: MIT */
#include "base/args.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/output.h"

#define HELP_COLUMN 23 /* column of the help texts */
#define HELP_WIDTH 92
#define LONG 256 /* for a long option getopt_long() returns this plus the index of its row */

/* Appends to the text that @to already holds. */
__attribute__((format(printf, 3, 4))) static void append(char *to, size_t size, const char *format,
	...)
{
	size_t at = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + at, size - at, format, args);
	va_end(args);
}

/* Replaces control characters, so that the text stays one line. */
static void make_line(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}

int arg_bad(const struct arg *a, const char *give)
{
	if (a->size) {
		snprintf(a->why, a->size, "%s '%.60s' is not valid: give %s", a->name, a->value,
			give);
		make_line(a->why);
	}
	return -EINVAL;
}

int args_fail(const struct args *args, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(args->why, args->size, format, list);
	va_end(list);
	make_line(args->why);
	return -EINVAL;
}

/* ---- ranges, as --help and error texts have them ---- */

/*
 * Appends a number. A power of two from 2^30 on is written as 2^N, and one less than a power of two
 * as 2^N-1, from 2^33-1 on.
 */
static void append_number(char *to, size_t size, uint64_t n)
{
	if (n >= 1u << 30 && is_pow2(n))
		append(to, size, "2^%d", __builtin_ctzll(n));
	else if (n > 1ull << 32 && is_pow2(n + 1))
		append(to, size, "2^%d-1", __builtin_ctzll(n + 1));
	else
		append(to, size, "%" PRIu64, n);
}

/* Appends a number. A large power of ten is written as 10^N. */
static void append_real(char *to, size_t size, double x)
{
	int digits = 0;
	double rest = x;

	for (; rest >= 10; rest /= 10)
		digits++;
	if (digits > 6 && rest == 1)
		append(to, size, "10^%d", digits);
	else
		append(to, size, "%.10g", x);
}

static void append_words(char *to, size_t size, const char *const *words, const char *between,
	const char *last)
{
	for (size_t i = 0; words[i]; i++)
		append(to, size, "%s%s", !i ? "" : words[i + 1] ? between : last, words[i]);
}

static void append_row_range(char *to, size_t size, const struct arg_row *row)
{
	if (row->kind >= ARG_WHOLE && row->kind <= ARG_SIZES) {
		if (row->kind == ARG_REAL || row->kind == ARG_TIME) {
			append(to, size, "%g to ", row->low);
			append_real(to, size, row->high);
		} else {
			append_number(to, size, row->min);
			append(to, size, " to ");
			append_number(to, size, row->max);
		}
	}
	if (row->multiple)
		append(to, size, ", a multiple of %" PRIu64, row->multiple);
}

/* Describes the numbers that the option accepts. Returns -EINVAL. */
static int bad_number(const struct arg *a, const struct arg_row *row)
{
	static const char *const what[] = {
		[ARG_WHOLE] = "a whole number from ",
		[ARG_SIZE] = "a whole number, optionally with K, M or G, from ",
		[ARG_POWER] = "a power of two from ",
		[ARG_REAL] = "a number from ",
		[ARG_TIME] = "a number from ",
		[ARG_LIST] = "whole numbers separated by commas, each from ",
		[ARG_SIZES] =
			"whole numbers, optionally with K, M or G, separated by commas, each from ",
	};
	char give[160] = "";

	if (row->give)
		return arg_bad(a, row->give);
	if (row->none)
		append(give, sizeof(give), "%s or ", row->none);
	if (row->most)
		append(give, sizeof(give), "at most %u ", row->most);
	append(give, sizeof(give), "%s", what[row->kind]);
	append_row_range(give, sizeof(give), row);
	return arg_bad(a, give);
}

/* ---- values ---- */

/*
 * Reads a whole number at *at_p, and moves *at_p to its end. With @units, K, M or G may follow it.
 */
static bool read_number(const char **at_p, bool units, uint64_t *n_p)
{
	static const char letters[] = "KMG";
	const char *unit;
	char *end;
	unsigned long long n;
	unsigned shift = 0;

	errno = 0;
	n = strtoull(*at_p, &end, strncasecmp(*at_p, "0x", 2) != 0 ? 10 : 16);
	if (!isdigit((unsigned char)**at_p) || errno)
		return false;
	unit = units && *end ? strchr(letters, *end) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - letters + 1);
		end++;
	}
	*n_p = (uint64_t)n << shift;
	*at_p = end;
	return n <= UINT64_MAX >> shift;
}

static bool row_takes(const struct arg_row *row, uint64_t n)
{
	return n >= row->min && n <= row->max && (!row->multiple || n % row->multiple == 0) &&
	       (row->kind != ARG_POWER || is_pow2(n));
}

static int read_whole(const struct arg *a, const struct arg_row *row, uint64_t *n_p)
{
	const char *at = a->value;
	uint64_t n = 0;

	if (!read_number(&at, row->kind == ARG_SIZE, &n) || *at || !row_takes(row, n))
		return bad_number(a, row);
	*n_p = n;
	return 0;
}

static int read_real(const struct arg *a, const struct arg_row *row, double *x_p)
{
	bool number = isdigit((unsigned char)*a->value) || *a->value == '.';
	char *end;
	double x = strtod(a->value, &end);

	if (!number || end == a->value || *end || !(x >= row->low && x <= row->high))
		return bad_number(a, row);
	*x_p = x;
	return 0;
}

static int read_list(const struct arg *a, const struct arg_row *row, struct arg_list *l_p)
{
	const char *at = a->value;
	struct arg_list l = {.n = 0};
	uint32_t most = row->most ? row->most : ARG_LIST_MAX;

	do {
		if (l.n == most || !read_number(&at, row->kind == ARG_SIZES, &l.at[l.n]) ||
			!row_takes(row, l.at[l.n++]))
			return bad_number(a, row);
	} while (*at++ == ',');
	if (at[-1])
		return bad_number(a, row);
	*l_p = l;
	return 0;
}

int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p)
{
	return read_whole(a, &(struct arg_row){.kind = ARG_WHOLE, .min = min, .max = max}, n_p);
}

int arg_real(const struct arg *a, double min, double max, double *x_p)
{
	return read_real(a, &(struct arg_row){.kind = ARG_REAL, .low = min, .high = max}, x_p);
}

int arg_word(const struct arg *a, const char *const *words, unsigned *index_p)
{
	char give[200] = "";

	for (unsigned i = 0; words[i]; i++) {
		if (!strcasecmp(words[i], a->value)) {
			*index_p = i;
			return 0;
		}
	}
	append_words(give, sizeof(give), words, ", ", " or ");
	return arg_bad(a, give);
}

int arg_open(const struct arg *a, void *file_p)
{
	FILE *f = strcmp(a->value, "-") ? fopen(a->value, "we") : stdout;

	if (!f)
		return arg_bad(a, "a file that can be written, or - for standard output");
	*(FILE **)file_p = f;
	return 0;
}

int arg_words(const struct arg *a, const char *give, int (*fn)(void *arg, const char *word),
	void *arg)
{
	char *copy = strdup(a->value), *rest = copy, *word;
	int err = copy ? 0 : -EINVAL;

	while (!err && (word = strsep(&rest, ",")))
		err = fn(arg, word);
	free(copy);
	return err ? arg_bad(a, give) : 0;
}

static int read_text(const struct arg *a, const struct arg_row *row, const char **text_p)
{
	if (!*a->value)
		return arg_bad(a, row->give ? row->give : row->value);
	*text_p = a->value;
	return 0;
}

/* Reads a value of a kind that becomes an integer. */
static int read_integer(const struct arg *a, const struct arg_row *row, uint64_t *n_p)
{
	double x = 0, unit = row->unit ? row->unit : 1;
	unsigned index = 0;
	int err;

	switch (row->kind) {
	case ARG_FLAG:
		*n_p = 1;
		return 0;
	case ARG_WORD:
		err = arg_word(a, row->words, &index);
		*n_p = index + row->min;
		return err;
	case ARG_TIME:
		err = read_real(a, row, &x);
		*n_p = (uint64_t)(x * unit + .5);
		return err;
	default:
		return read_whole(a, row, n_p);
	}
}

static int read_value(const struct arg *a, const struct arg_row *row, void *options)
{
	void *field = (char *)options + row->field.offset;
	double x = 0;
	uint64_t n = 0;
	int err;

	if (row->none && !strcmp(a->value, row->none)) {
		memset(field, 0, row->field.size);
		return 0;
	}
	switch (row->kind) {
	case ARG_CALL:
		return row->read(a, field);
	case ARG_TEXT:
		return read_text(a, row, field);
	case ARG_LIST:
	case ARG_SIZES:
		return read_list(a, row, field);
	case ARG_REAL:
		err = read_real(a, row, &x);
		if (!err)
			*(double *)field = row->unit ? x * row->unit : x;
		return err;
	default:
		err = read_integer(a, row, &n);
		if (!err)
			field_set(options, row->field, n);
		return err;
	}
}

/* ---- help ---- */

static bool in_set(const struct args *args, const struct arg_row *row)
{
	return !args->set || !row->sets || (row->sets & args->set);
}

/* Prints the text in lines; each line after the first begins at the column of help texts. */
static void print_wrapped(FILE *out, const char *text)
{
	size_t at = HELP_COLUMN;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (at > HELP_COLUMN && at + 1 + word > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			at = HELP_COLUMN;
		}
		at += (size_t)fprintf(out, "%s%.*s", at > HELP_COLUMN ? " " : "", (int)word, text);
		text += word;
		text += *text == ' ';
	}
	fputc('\n', out);
}

/* Appends range and default in parentheses. */
static void append_limits(char *to, size_t size, const struct arg_row *row)
{
	const char *def = row->def ? row->def : row->unset;
	char range[120] = "";

	if (row->kind == ARG_WORD && row->value)
		append_words(range, sizeof(range), row->words, ", ", " or ");
	else
		append_row_range(range, sizeof(range), row);
	if (!def && row->none)
		def = row->none;
	if (*range || def)
		append(to, size, "%s(%s%s%s)", *to ? " " : "", range, *range && def ? "; " : "",
			def ? def : "");
}

static void print_option(const struct arg_row *row, FILE *out)
{
	char head[80] = "  ", text[600] = "";

	if (row->letter)
		append(head, sizeof(head), "-%c, ", row->letter);
	append(head, sizeof(head), "--%s", row->name);
	if (row->value)
		append(head, sizeof(head), " %s", row->value);
	else if (row->words) {
		append(head, sizeof(head), " ");
		append_words(head, sizeof(head), row->words, "|", "|");
	}
	append(text, sizeof(text), "%s",
		row->help             ? row->help :
		row->kind == ARG_HELP ? "print this text" :
					"print the version");
	append_limits(text, sizeof(text), row);
	if (row->also)
		append(text, sizeof(text), "; also --%s", row->also);
	if (strlen(head) + 2 > HELP_COLUMN)
		fprintf(out, "%s\n%*s", head, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, head);
	print_wrapped(out, text);
}

void args_help(const struct args *args, FILE *out)
{
	fputs(args->usage, out);
	if (args->rows[0].kind != ARG_HEAD)
		fputc('\n', out);
	for (uint32_t i = 0; i < args->n_rows; i++) {
		const struct arg_row *row = &args->rows[i];

		if (!in_set(args, row))
			continue;
		if (row->kind == ARG_HEAD)
			fprintf(out, "\n%s\n", row->help);
		else
			print_option(row, out);
	}
	if (args->tail)
		fprintf(out, "\n%s", args->tail);
}

/* ---- command lines ---- */

static uint32_t row_of(const struct args *args, const char *name, size_t len)
{
	uint32_t i = 0;

	while (i < args->n_rows && (!args->rows[i].name || strlen(args->rows[i].name) != len ||
					   strncmp(args->rows[i].name, name, len) != 0))
		i++;
	if (i == args->n_rows)
		abort(); /* the name is from the program's own rows or code */
	return i;
}

bool args_given(const struct args *args, const char *name)
{
	return args->given[row_of(args, name, strlen(name))];
}

int args_fit(struct args *args)
{
	for (uint32_t i = 0; i < args->n_rows; i++) {
		if (args->given[i] && !in_set(args, &args->rows[i]))
			return args_fail(args,
				"--%s does not apply to %s: give one of the options of its --help",
				args->rows[i].name, args->command);
	}
	return 0;
}

/* Returns the name of the first option among @names that was given, or NULL. */
static const char *first_given(const struct args *args, const char *names)
{
	for (; *names; names += *names == ' ') {
		size_t len = strcspn(names, " ");
		uint32_t i = row_of(args, names, len);

		if (args->given[i])
			return args->rows[i].name;
		names += len;
	}
	return NULL;
}

static int fail_alone(const struct args *args, const struct arg_row *row)
{
	char others[80] = "--";

	for (const char *c = row->with; *c; c++)
		append(others, sizeof(others), "%.*s%s", *c != ' ', c, *c == ' ' ? " or --" : "");
	return args_fail(args, "--%s has no effect alone: give %s with it", row->name, others);
}

/* Refuses options that exclude each other, and an option without another one that it requires. */
static int check_together(const struct args *args)
{
	for (uint32_t i = 0; i < args->n_rows; i++) {
		const struct arg_row *row = &args->rows[i];
		const char *other =
			args->given[i] && row->not_with ? first_given(args, row->not_with) : NULL;

		if (other)
			return args_fail(args, "--%s and --%s exclude each other: give one",
				row->name, other);
		if (args->given[i] && row->with && !first_given(args, row->with))
			return fail_alone(args, row);
	}
	return 0;
}

static void set_arg(const struct args *args, const struct arg_row *row, const char *value,
	struct arg *a)
{
	*a = (struct arg){.value = value ? value : "", .why = args->why, .size = args->size};
	snprintf(a->name, sizeof(a->name), "--%s", row->name);
}

static void set_defaults(const struct args *args, void *options)
{
	for (uint32_t i = 0; i < args->n_rows; i++) {
		const struct arg_row *row = &args->rows[i];
		struct arg a;

		if (!row->def)
			continue;
		set_arg(args, row, row->def, &a);
		if (read_value(&a, row, options))
			abort(); /* the default is refused by its own row */
	}
}

/* The options in the form that getopt_long() expects. */
struct known {
	struct option longs[2 * ARGS_MAX + 1];
	char letters[2 * ARGS_MAX + 3];
};

static void learn(const struct args *args, struct known *k)
{
	uint32_t n = 0;

	memset(k, 0, sizeof(*k));
	append(k->letters, sizeof(k->letters), "%s", args->strict_order ? "+:" : ":");
	for (uint32_t i = 0; i < args->n_rows; i++) {
		const struct arg_row *row = &args->rows[i];
		bool value = row->kind != ARG_FLAG && row->kind < ARG_HELP;

		if (row->kind == ARG_HEAD)
			continue;
		k->longs[n++] = (struct option){row->name, value, NULL, LONG + (int)i};
		if (row->also)
			k->longs[n++] = (struct option){row->also, value, NULL, LONG + (int)i};
		if (row->letter)
			append(k->letters, sizeof(k->letters), "%c%s", row->letter,
				value ? ":" : "");
	}
}

/* Returns the row for a value that getopt_long() returned, or NULL. */
static const struct arg_row *find_row(const struct args *args, int val)
{
	if (val >= LONG)
		return &args->rows[val - LONG];
	for (uint32_t i = 0; i < args->n_rows; i++) {
		if (args->rows[i].letter == val)
			return &args->rows[i];
	}
	return NULL;
}

/*
 * Describes the option that getopt_long() refused. If this is a letter of a group such as -abc,
 * argv[optind - 1] may be the argument before that group, so only the letter is named.
 */
static int refuse(const struct args *args, int val, char **argv)
{
	const char letter[] = {'-', (char)optopt, 0};
	bool is_letter = val == '?' && optopt && optopt < LONG && !find_row(args, optopt);

	return args_fail(args, "%.60s %s: give one of the options of --help",
		is_letter ? letter : argv[optind - 1],
		val == ':' ? "needs a value" : "is not valid");
}

/* Returns 1 to continue, 0 after printing the help text or the version, or -EINVAL. */
static int read_option(struct args *args, const struct arg_row *row, void *options)
{
	struct arg a;
	int err;

	if (row->kind == ARG_HELP) {
		args_help(args, stdout);
		return 0;
	}
	if (row->kind == ARG_VERSION) {
		puts(args->version);
		return 0;
	}
	set_arg(args, row, optarg, &a);
	err = read_value(&a, row, options);
	if (err) {
		make_line(args->why); /* the row's function may have written it */
		return err;
	}
	args->given[row - args->rows] = true;
	return 1;
}

static int check_operands(const struct args *args, int argc, char **argv, int first)
{
	int over = first + !!args->operand;

	if (args->operands || over >= argc)
		return 0;
	return args_fail(args, "unexpected argument '%.60s': give %s%s", argv[over],
		args->operand ? "one " : "options only", args->operand ? args->operand : "");
}

int args_read(struct args *args, int argc, char **argv, void *options)
{
	struct known known;
	int val, err;

	memset(args->given, 0, sizeof(args->given));
	if (args->size)
		args->why[0] = 0;
	set_defaults(args, options);
	learn(args, &known);
	opterr = 0;
	optind = 0;
	while ((val = getopt_long(argc, argv, known.letters, known.longs, NULL)) != -1) {
		if (val == ':' || val == '?')
			return refuse(args, val, argv);
		err = read_option(args, find_row(args, val), options);
		if (err <= 0)
			return err;
	}
	err = check_operands(args, argc, argv, optind);
	if (!err)
		err = args_fit(args);
	if (!err)
		err = check_together(args);
	return err ? err : optind;
}

int args_status(const char *program, const char *why, int err)
{
	if (err < 0)
		fprintf(stderr, "%s: %s\n", program, why);
	return err < 0 ? 2 : 0;
}

void args_exit(const struct args *args, const char *program, int err)
{
	exit(output_end(program, args_status(program, args->why, err)));
}

int args_main(struct args *args, const char *program, int argc, char **argv, void *options)
{
	static char why[400];
	int first;

	args->why = why;
	args->size = sizeof(why);
	first = args_read(args, argc, argv, options);
	if (first <= 0)
		args_exit(args, program, first);
	return first;
}

int args_commands(const char *program, const char *usage, const char *version,
	const struct args_command *commands, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	for (const struct args_command *c = commands; c->name; c++) {
		if (!strcmp(word, c->name))
			return c->main(argc - 1, argv + 1);
	}
	if (argc == 2 && !strcmp(word, "--help"))
		return fputs(usage, stdout) < 0;
	if (argc == 2 && !strcmp(word, "--version"))
		return printf("%s %s\n", program, version) < 0;
	fprintf(stderr, "%s: %s%.60s%s: give ", program,
		argc > 1 ? "unknown command '" : "no command", word, argc > 1 ? "'" : "");
	for (; commands->name; commands++)
		fprintf(stderr, "%s, ", commands->name);
	fputs("--help or --version\n", stderr);
	return 2;
}

int args_word(const struct args *args, const char *value, const char *const *words,
	unsigned *index_p)
{
	struct arg a = {.value = value, .why = args->why, .size = args->size};

	snprintf(a.name, sizeof(a.name), "%s", args->operand);
	return arg_word(&a, words, index_p);
}
