/* SPDX-License-Identifier: MIT */
/* Options and their values: bad ones are refused in one line, and change nothing. */
#include <errno.h>

#include "base/oldargs.h"
#include "support/test.h"

#define MAX_ARGS 8

static char why[100];

static struct arg arg_of(const char *value)
{
	why[0] = 0;
	return (struct arg){.name = "opt", .value = value, .why = why, .size = sizeof(why)};
}

static void whole_numbers_have_a_range(void)
{
	static const char *const bad[] = {"", " 5", "-5", "+5", "4", "13", "5x", "5 ", "5.0", "x",
		"18446744073709551621"};
	struct arg a = arg_of("0x0c");
	uint64_t n = 77;

	CHECK_EQ(arg_whole(&a, 5, 12, &n), 0);
	CHECK_EQ(n, 12);
	a = arg_of("5");
	CHECK_EQ(arg_whole(&a, 5, 12, &n), 0);
	CHECK_EQ(n, 5);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		a = arg_of(bad[i]);
		CHECK_EQ(arg_whole(&a, 5, 12, &n), -EINVAL);
		CHECK_EQ(n, 5);
		CHECK(strstr(why, "is not valid: give a whole number from 5 to 12"));
	}
	CHECK(!strncmp(why, "--opt '18446744073709551621'", 28));
	a = arg_of("18446744073709551616");
	CHECK_EQ(arg_whole(&a, 0, UINT64_MAX, &n), -EINVAL);
	a = arg_of("0010"); /* no octal number */
	CHECK_EQ(arg_whole(&a, 5, 12, &n), 0);
	CHECK_EQ(n, 10);
	a = arg_of("09");
	CHECK_EQ(arg_whole(&a, 5, 12, &n), 0);
	CHECK_EQ(n, 9);
	a = arg_of("0X0b");
	CHECK_EQ(arg_whole(&a, 5, 12, &n), 0);
	CHECK_EQ(n, 11);
}

static void narrow_numbers_fit(void)
{
	struct arg a = arg_of("255");
	uint32_t n32 = 1;
	uint16_t n16 = 1;
	uint8_t n8 = 1;

	CHECK(!arg_u8(&a, 0, 255, &n8) && n8 == 255);
	a = arg_of("65535");
	CHECK(!arg_u16(&a, 0, 65535, &n16) && n16 == 65535);
	a = arg_of("4294967295");
	CHECK(!arg_u32(&a, 0, UINT32_MAX, &n32) && n32 == UINT32_MAX);
	a = arg_of("4294967297");
	CHECK(arg_u8(&a, 0, 255, &n8) == -EINVAL && n8 == 255);
	CHECK(arg_u16(&a, 0, 65535, &n16) == -EINVAL && n16 == 65535);
	CHECK(arg_u32(&a, 0, UINT32_MAX, &n32) == -EINVAL && n32 == UINT32_MAX);
}

static void real_numbers_have_a_range(void)
{
	static const char *const bad[] = {"", ".", " 1", "-1", "nan", "inf", "1e9", "0.4", "1s",
		"1000000.5"};
	struct arg a = arg_of(".5");
	double x = 0;

	CHECK(!arg_real(&a, .5, 1e6, &x) && x == .5);
	a = arg_of("1e6");
	CHECK(!arg_real(&a, .5, 1e6, &x) && x == 1e6);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		a = arg_of(bad[i]);
		CHECK(arg_real(&a, .5, 1e6, &x) == -EINVAL && x == 1e6);
		CHECK(strstr(why, "give a number from 0.5 to 1000000"));
	}
}

static void times_have_a_unit(void)
{
	struct arg a = arg_of("1.5");
	uint64_t ns = 0;

	CHECK(!arg_time(&a, 0, 2, 1000, &ns) && ns == 1500);
	CHECK(arg_time(&a, 0, 1, 1000, &ns) == -EINVAL && ns == 1500);
	a = arg_of("0.29"); /* times 100: a bit less than 29 */
	CHECK(!arg_time(&a, 0, 1, 100, &ns) && ns == 29);
}

static void texts_are_not_empty(void)
{
	struct arg a = arg_of("x");
	const char *text = NULL;

	CHECK(!arg_text(&a, "a file", &text) && !strcmp(text, "x"));
	a = arg_of("");
	CHECK(arg_text(&a, "a file", &text) == -EINVAL && !strcmp(text, "x"));
	CHECK(!strcmp(why, "--opt '' is not valid: give a file"));
}

static void words_are_of_a_list(void)
{
	static const char *const words[] = {"one", "two", "three", NULL};
	struct arg a = arg_of("Two");
	bool yes = false;
	unsigned i = 9;

	CHECK(!arg_word(&a, words, &i) && i == 1);
	CHECK(arg_either(&a, "Two", "no", &yes) == 0 && yes);
	a = arg_of("no");
	CHECK(arg_word(&a, words, &i) == -EINVAL && i == 1);
	CHECK(!strcmp(why, "--opt 'no' is not valid: give one, two or three"));
	CHECK(arg_either(&a, "yes", "no", &yes) == 0 && !yes);
	yes = true;
	CHECK(arg_either(&a, "on", "off", &yes) == -EINVAL && yes);
	CHECK(!strcmp(why, "--opt 'no' is not valid: give on or off"));
}

static void reasons_are_one_short_line(void)
{
	struct arg a = arg_of("a\n\033b");
	char longest[301];

	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK(!strcmp(why, "--opt 'a??b' is not valid: give x"));
	memset(longest, 'l', sizeof(longest) - 1);
	longest[300] = 0;
	a = arg_of(longest);
	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK(strlen(why) < 100 && strstr(why, "give x"));
	a.size = 0;
	a.why = NULL;
	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK_EQ(args_fail(why, sizeof(why), "give y"), -EINVAL);
	CHECK(!strcmp(why, "give y"));
}

/* ---- whole lines ---- */

struct options {
	uint32_t n;
	bool flag;
	char last[20]; /* option's name */
};

static const struct option long_options[] = {
	{"number", required_argument, NULL, 'n'},
	{"num", required_argument, NULL, 'n'},
	{"flag", no_argument, NULL, 256},
	{"file", required_argument, NULL, 257},
	{NULL, 0, NULL, 0},
};

static int parse_option(void *options, int val, const struct arg *a)
{
	struct options *o = options;

	snprintf(o->last, sizeof(o->last), "%s", a->name);
	if (val == 'n')
		return arg_u32(a, 1, 9, &o->n);
	if (val == 257) { /* says itself what it has found */
		snprintf(a->why, a->size, "--file %s: line 1:\nno", a->value);
		return -EINVAL;
	}
	o->flag = true;
	return *a->value ? -EINVAL : 0;
}

static int read_line(const char *letters, const char *line, struct options *o)
{
	char copy[100], *argv[MAX_ARGS + 1] = {NULL}, *save = NULL;
	int argc = 0;

	snprintf(copy, sizeof(copy), "program|%s", line);
	for (char *a = strtok_r(copy, "|", &save); a && argc < MAX_ARGS;
		a = strtok_r(NULL, "|", &save))
		argv[argc++] = a;
	*o = (struct options){0};
	why[0] = 0;
	return args_read(argc, argv, letters, long_options, parse_option, o, why, sizeof(why));
}

static void lines_are_read(void)
{
	struct options o;

	CHECK_EQ(read_line(":n:", "", &o), 1);
	CHECK_EQ(read_line(":n:", "host|--flag|-n|3", &o), 4);
	CHECK(o.flag && o.n == 3 && !strcmp(o.last, "number"));
	CHECK_EQ(read_line("+:n:", "host|--flag", &o), 1);
	CHECK(!o.flag);
	CHECK_EQ(read_line(":n:", "--num=4|host", &o), 2);
	CHECK_EQ(o.n, 4);
}

static void operands_may_be_too_many(void)
{
	char *argv[] = {(char *)"program", (char *)"a\nb"};

	why[0] = 0;
	CHECK_EQ(args_end(2, argv, 2, why, sizeof(why)), 0);
	CHECK(!why[0]);
	CHECK_EQ(args_end(2, argv, 1, why, sizeof(why)), -EINVAL);
	CHECK(!strcmp(why, "'a?b' is too much: give options only"));
}

static void bad_lines_are_refused(void)
{
	static const struct {
		const char *line, *why;
	} bad[] = {
		{"--number", "--number needs a value: give one of the options of --help"},
		{"-n", "-n needs a value: give one of the options of --help"},
		{"--frob", "--frob is not valid: give one of the options of --help"},
		{"--fr\nob", "--fr?ob is not valid: give one of the options of --help"},
		{"-z", "-z is not valid: give one of the options of --help"},
		{"-zn", "-z is not valid: give one of the options of --help"},
		{"--flag|-zzz", "-z is not valid: give one of the options of --help"},
		{"-\n9", "-? is not valid: give one of the options of --help"},
		{"--flag=1", "--flag=1 is not valid: give one of the options of --help"},
		{"-n|0", "--number '0' is not valid: give a whole number from 1 to 9"},
		{"--flag|-n|10|--frob",
			"--number '10' is not valid: give a whole number from 1 to 9"},
		{"--file|x", "--file x: line 1:?no"},
	};
	struct options o;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(read_line(":n:", bad[i].line, &o), -EINVAL);
		printf("  %s\n", why);
		CHECK(!strcmp(why, bad[i].why));
	}
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(whole_numbers_have_a_range),
		TEST(narrow_numbers_fit),
		TEST(real_numbers_have_a_range),
		TEST(times_have_a_unit),
		TEST(texts_are_not_empty),
		TEST(words_are_of_a_list),
		TEST(reasons_are_one_short_line),
		TEST(lines_are_read),
		TEST(operands_may_be_too_many),
		TEST(bad_lines_are_refused),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
