/* SPDX-License-Identifier: MIT */
/*
 * Command lines of programs. A program describes each of its options in one row: name, letter,
 * kind, range, default and help text. args_read() reads the command line by these rows, checks the
 * values and prints --help from the rows. A bad option is described in one line, which names the
 * option and the valid values.
 *
 *	#define AT(field) ARG_AT(struct options, field)
 *	static const struct arg_row rows[] = {
 *		{"threads", 't', "N", ARG_WHOLE, AT(threads), .min = 1, .max = 64, .def = "2",
 *			.help = "threads that send"},
 *		{"json", 0, "FILE", ARG_TEXT, AT(json), .help = "writes the report to this file"},
 *		{"help", 'h', .kind = ARG_HELP},
 *	};
 *	struct args args = {ARGS_ROWS(rows), .usage = "Usage: program [OPTION]...\n"};
 *	int first = args_main(&args, "program", argc, argv, &options);
 *
 * getopt_long() has global state, so only one thread may call args_read() at a time. Texts in the
 * options point into argv, defaults into the rows. Only programs link this code (Meson dependency
 * base_args_dep); libraries must not.
 */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/field.h"

#define ARGS_MAX 80 /* maximum number of rows of a program */
#define ARG_LIST_MAX 16

/* After the semicolon: the type of the field that receives the value. */
enum arg_kind {
	ARG_HEAD, /* not an option: a headline of --help */
	ARG_FLAG, /* has no value; bool, which becomes true */
	ARG_WHOLE, /* a whole number, decimal or 0x... hexadecimal; any integer type */
	ARG_SIZE, /* like ARG_WHOLE, and K, M or G may follow: 2^10, 2^20 or 2^30 */
	ARG_POWER, /* a whole number that is a power of two; any integer type */
	ARG_REAL, /* a real number; double */
	ARG_TIME, /* a real number, multiplied by .unit, then rounded; any integer type */
	ARG_LIST, /* whole numbers separated by commas; struct arg_list */
	ARG_SIZES, /* like ARG_LIST, and each number may have K, M or G */
	ARG_WORD, /* one of .words, case-insensitive; any integer type: .min + the word's index */
	ARG_TEXT, /* any text but the empty one; const char * */
	ARG_CALL, /* the row's .read reads the value; any type */
	ARG_HELP, /* prints the help text */
	ARG_VERSION, /* prints the version */
};

struct arg_list {
	uint64_t at[ARG_LIST_MAX];
	uint32_t n;
};

/* The option that is being read. */
struct arg {
	char name[40]; /* with its dashes */
	const char *value; /* "" if the option has none */
	char *why; /* receives a line that says what is wrong with the value */
	size_t size; /* bytes of why; 0: nothing is written */
};

/* The field of a row, in the struct of the program's options. */
#define ARG_AT(type, name) FIELD(type, name)

struct arg_row {
	const char *name; /* without dashes */
	char letter; /* 0: none */
	const char *value; /* name of the value in --help; NULL: no value, or --help lists .words */
	enum arg_kind kind;
	struct field field;
	const char *help; /* a phrase without a full stop */
	const char *def; /* default, read like a given value; NULL: the field is unchanged */
	const char *unset; /* --help prints this text in place of a default */
	uint64_t min, max; /* of whole numbers */
	uint64_t multiple; /* the number must be a multiple of this; 0: no such check */
	double low, high; /* of real numbers, before the unit is applied */
	double unit; /* real numbers are multiplied by it; 0 means 1 */
	const char *const *words; /* array that ends with NULL */
	const char *none; /* this word stands for 0 or NULL */
	const char *give; /* valid values, for the error text; NULL: derived from the row */
	int (*read)(const struct arg *a, void *field); /* 0, or -EINVAL after arg_bad() */
	uint32_t most; /* maximum number of entries of a list; 0: ARG_LIST_MAX */
	uint32_t sets; /* mask of commands (args.set) that accept this option; 0: all do */
	const char *not_with; /* names of options that exclude this one, separated by blanks */
	const char *with; /* names of options, one of which must be given as well */
	const char *also; /* another name of the option */
};

/* The rows of a program. */
#define ARGS_ROWS(table) .rows = (table), .n_rows = ARRAY_SIZE(table)

struct args {
	const struct arg_row *rows;
	uint32_t n_rows;
	uint32_t set; /* the bit of the command; 0: not known yet, any option is accepted */
	const char *command; /* its name in error texts */
	const char *usage, *tail; /* --help before and after the options; tail may be NULL */
	const char *version; /* the line that --version prints */
	const char *operand; /* name of the one optional operand; NULL: none is accepted */
	bool operands; /* any number of operands is accepted */
	bool strict_order; /* reading ends at the first operand */
	char *why; /* receives one line that says what is wrong */
	size_t size; /* bytes of why */
	bool given[ARGS_MAX]; /* set by args_read(): the row's option was given */
};

/*
 * Sets the defaults in *options, then reads the options of argv[1...]; argv[0] is the name of the
 * program or of its command. Returns the index of the first operand, argc if there is none; 0 after
 * it has printed --help or --version to standard output; -EINVAL with a line in why. getopt_long()
 * moves the operands in argv behind the options, unless strict_order is set.
 */
int args_read(struct args *args, int argc, char **argv, void *options);
/* Returns true if the option was given. */
bool args_given(const struct args *args, const char *name);
/*
 * Refuses options that were given but do not apply to the command args.set. Returns 0, or -EINVAL
 * with a line in why. args_read() calls this function; a program that sets args.set later must call
 * it again.
 */
int args_fit(struct args *args);
/*
 * A program whose args_read() returned @err <= 0 calls this function before it ends. Prints @why if
 * @err is negative. Returns the exit status.
 */
int args_status(const char *program, const char *why, int err);
/*
 * Calls args_read(), and ends the program if the result is 0 or less. Must be called before
 * anything needs a cleanup. Returns the result of args_read(). Sets args->why to a static buffer: a
 * later check can write it with args_fail(), and args_exit() then prints it.
 */
int args_main(struct args *args, const char *program, int argc, char **argv, void *options);
/*
 * Ends the program with the status of args_status(), or with 1 if that status is 0 and standard
 * output could not be written.
 */
_Noreturn void args_exit(const struct args *args, const char *program, int err);
/*
 * A command, which the first argument of a program names. Its main() gets that argument as argv[0].
 */
struct args_command {
	const char *name;
	int (*main)(int argc, char **argv);
};

/*
 * Runs the command argv[1]. For --help prints @usage, for --version @program and @version. Returns
 * the exit status. Without a valid command, prints a line that lists the commands and returns 2.
 * The array ends with a NULL name.
 */
int args_commands(const char *program, const char *usage, const char *version,
	const struct args_command *commands, int argc, char **argv);

/* Prints the text of --help. */
void args_help(const struct args *args, FILE *out);
/* Formats the text into why. Returns -EINVAL. */
int args_fail(const struct args *args, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Searches for the operand @value in the NULL-terminated array @words. Returns 0 and its index, or
 * -EINVAL with a line in why.
 */
int args_word(const struct args *args, const char *value, const char *const *words,
	unsigned *index_p);

/*
 * The .read functions of ARG_CALL call the functions below. These return 0 (except arg_bad()), or
 * -EINVAL with a line in why, and write *_p only on success. @give names the valid values in that
 * line.
 */

int arg_bad(const struct arg *a, const char *give);
int arg_whole(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p);
int arg_real(const struct arg *a, double min, double max, double *x_p);
int arg_word(const struct arg *a, const char *const *words, unsigned *index_p);
/*
 * Opens the file for writing; - is standard output. *file_p is a FILE *. Can be the .read of a row.
 */
int arg_open(const struct arg *a, void *file_p);
/*
 * Calls fn for each word of a comma-separated list, empty words included, until fn does not return
 * 0; the list is then refused.
 */
int arg_words(const struct arg *a, const char *give, int (*fn)(void *arg, const char *word),
	void *arg);

#endif
