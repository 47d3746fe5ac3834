/* SPDX-License-Identifier: MIT */
/*
 * Options, each of which is described by a row of a table: values, their ranges, defaults and help.
 * Command lines with errors.
 */
#include <errno.h>

#include "base/args.h"
#include "support/test.h"

#define MAX_ARGS 12
#define SET_ONE 1u
#define SET_TWO 2u

struct options {
	bool flag, pin;
	uint8_t n8, mtu;
	uint16_t n16;
	uint32_t n32, size, ring;
	uint64_t n64, bytes, ns;
	double real, us;
	struct arg_list list, sizes;
	const char *text, *device;
	uint32_t called;
};

#define AT(field) ARG_AT(struct options, field)

static int read_call(const struct arg *a, void *field)
{
	uint64_t n = 0;
	int err;

	if (!strcmp(a->value, "file")) { /* this function writes the reason itself */
		snprintf(a->why, a->size, "--call file: line 1:\nno");
		return -EINVAL;
	}
	err = arg_whole(a, 1, 9, &n);
	if (!err)
		*(uint32_t *)field = (uint32_t)n;
	return err;
}

static const char *const mtus[] = {"256", "512", "1024", NULL};
static const char *const yes_no[] = {"no", "yes", NULL};

static const struct arg_row rows[] = {
	{.help = "Numbers"},
	{"number", 'n', "N", ARG_WHOLE, AT(n64), .min = 5, .max = 12, .def = "6", .also = "num",
		.help = "some number"},
	{"n32", 0, "N", ARG_WHOLE, AT(n32), .max = UINT32_MAX, .help = "of 32 bits"},
	{"n16", 0, "N", ARG_WHOLE, AT(n16), .max = 65535, .help = "of 16 bits"},
	{"n8", 0, "N", ARG_WHOLE, AT(n8), .max = 255, .help = "of 8 bits"},
	{"big", 0, "N", ARG_WHOLE, AT(n64), .max = UINT64_MAX, .help = "of 64 bits"},
	{"bytes", 0, "N", ARG_SIZE, AT(bytes), .min = 1, .max = 1ull << 40,
		.unset = "all there are", .help = "bytes"},
	{"size", 's', "B", ARG_WHOLE, AT(size), .min = 16, .max = 56, .multiple = 8, .def = "32",
		.help = "bytes of a request"},
	{"ring", 0, "B", ARG_POWER, AT(ring), .min = 4096, .max = 1 << 30, .none = "auto",
		.help = "bytes of a ring"},
	{"real", 0, "X", ARG_REAL, AT(real), .low = .5, .high = 1e6, .help = "a number"},
	{"us", 0, "US", ARG_REAL, AT(us), .low = 0, .high = 1e9, .unit = 1000, .help = "a time"},
	{"time", 0, "S", ARG_TIME, AT(ns), .low = 0, .high = 2, .unit = 100, .help = "a time"},
	{"list", 0, "N,...", ARG_LIST, AT(list), .max = 2, .most = 3, .def = "1,2",
		.help = "numbers"},
	{"sizes", 0, "N,...", ARG_SIZES, AT(sizes), .min = 1, .max = 1 << 20, .def = "64K,1M",
		.help = "sizes"},
	{.help = "Others"},
	{"flag", 'f', NULL, ARG_FLAG, AT(flag), .help = "a flag"},
	{"pin", 0, NULL, ARG_WORD, AT(pin), .words = yes_no, .def = "yes",
		.help = "one core for each thread; this help is long enough to need a second "
			"line"},
	{"mtu", 0, "BYTES", ARG_WORD, AT(mtu), .words = mtus, .min = 1, .help = "MTU"},
	{"text", 0, "FILE", ARG_TEXT, AT(text), .help = "a file"},
	{"device", 0, "NAME", ARG_TEXT, AT(device), .none = "auto", .give = "auto or a device",
		.help = "a device"},
	{"call", 0, "N", ARG_CALL, AT(called), .read = read_call, .def = "3", .help = "a call"},
	{"one", 0, NULL, ARG_FLAG, AT(flag), .sets = SET_ONE, .help = "of one"},
	{"two", 't', NULL, ARG_FLAG, AT(flag), .sets = SET_TWO, .not_with = "text one",
		.help = "of two"},
	{"three", 0, NULL, ARG_FLAG, AT(flag), .with = "text device", .help = "of two"},
	{"help", 'h', .kind = ARG_HELP},
	{"version", 'V', .kind = ARG_VERSION},
};

static char why[200];
static struct args args;

/* Reads a command line whose words are separated by bars. */
static int read_line(const char *line, struct options *o)
{
	static char copy[200], *argv[MAX_ARGS + 1];
	char *save = NULL;
	int argc = 0;

	memset((void *)argv, 0, sizeof(argv));
	snprintf(copy, sizeof(copy), "program|%s", line);
	for (char *a = strtok_r(copy, "|", &save); a && argc < MAX_ARGS;
		a = strtok_r(NULL, "|", &save))
		argv[argc++] = strcmp(a, "\"\"") ? a : (char *)"";
	memset(o, 0, sizeof(*o));
	return args_read(&args, argc, argv, o);
}

static void begin(void)
{
	args = (struct args){.rows = rows,
		.n_rows = ARRAY_SIZE(rows),
		.command = "one",
		.usage = "Usage: program\n",
		.tail = "Status: 0.\n",
		.version = "program 1",
		.operand = "HOST",
		.why = why,
		.size = sizeof(why)};
}

TEST(options_have_defaults)
{
	struct options o;

	begin();
	CHECK_EQ(read_line("", &o), 1);
	CHECK(o.n64 == 6 && o.size == 32 && o.pin && o.called == 3 && !o.flag && !o.text);
	CHECK(o.list.n == 2 && o.list.at[0] == 1 && o.list.at[1] == 2);
	CHECK(o.sizes.n == 2 && o.sizes.at[0] == 65536 && o.sizes.at[1] == 1 << 20);
	CHECK(!o.ring && !o.device && !o.n32 && !args_given(&args, "number"));
}

TEST(values_are_read)
{
	struct options o;

	begin();
	CHECK_EQ(read_line("--number=0x0c|--n32|4294967295|--n16|65535|--n8|255|-f|-s|48", &o), 11);
	CHECK(o.n64 == 12 && o.n32 == UINT32_MAX && o.n16 == 65535 && o.n8 == 255);
	CHECK(o.flag && o.size == 48 && args_given(&args, "number") && !args_given(&args, "ring"));
	CHECK_EQ(read_line("--num|0010|--bytes|2G|--ring|8192|--real|.5|--us|1.5", &o), 11);
	CHECK(o.n64 == 10 && o.bytes == 2ull << 30 && o.ring == 8192); /* 0010 is not octal */
	CHECK(o.real == .5 && o.us == 1500);
	CHECK_EQ(read_line("--time|0.29|--list|2|--sizes|7,2K|--pin|No|--mtu|1024", &o), 11);
	CHECK(o.ns == 29 && !o.pin && o.mtu == 3); /* .29 * 100 is a bit less than 29 */
	CHECK(o.list.n == 1 && o.list.at[0] == 2 && o.sizes.n == 2 && o.sizes.at[1] == 2048);
	CHECK_EQ(read_line("--text|x|--device|mlx5_0|--call|9|host", &o), 7);
	CHECK(!strcmp(o.text, "x") && !strcmp(o.device, "mlx5_0") && o.called == 9);
	CHECK_EQ(read_line("--device|auto|--ring|auto|-n09", &o), 6);
	CHECK(!o.device && !o.ring && o.n64 == 9);
	CHECK_EQ(read_line("--big|18446744073709551615|--n8|0X0b", &o), 5);
	CHECK(o.n64 == UINT64_MAX && o.n8 == 11);
}

#define NUMBER "is not valid: give a whole number from 5 to 12"
#define REAL "is not valid: give a number from 0.5 to 1000000"
#define OPTION ": give one of the options of --help"
static const char *const bad_lines[][2] = {
	{"--number|\"\"", "--number '' " NUMBER},
	{"--number| 5", "--number ' 5' " NUMBER},
	{"--number|-5", "--number '-5' " NUMBER},
	{"--number|+5", "--number '+5' " NUMBER},
	{"--number|4", "--number '4' " NUMBER},
	{"-n|13", "--number '13' " NUMBER},
	{"--num|5x", "--number '5x' " NUMBER},
	{"--number|5.0", "--number '5.0' " NUMBER},
	{"--n16|5K", "--n16 '5K' is not valid: give a whole number from 0 to 65535"},
	{"--number|18446744073709551621", "--number '18446744073709551621' " NUMBER},
	{"--big|18446744073709551616",
		"--big '18446744073709551616' is not valid: give a whole number from 0 to "
		"18446744073709551615"},
	{"--bytes|17179869185G",
		"--bytes '17179869185G' is not valid: give a whole number, optionally with "
		"K, M or G, from 1 to 2^40"},
	{"--size|20", "--size '20' is not valid: give a whole number from 16 to 56, a multiple of "
		      "8"},
	{"--ring|5000", "--ring '5000' is not valid: give auto or a power of two from 4096 to "
			"2^30"},
	{"--real|\"\"", "--real '' " REAL},
	{"--real|.", "--real '.' " REAL},
	{"--real| 1", "--real ' 1' " REAL},
	{"--real|nan", "--real 'nan' " REAL},
	{"--real|inf", "--real 'inf' " REAL},
	{"--real|0.4", "--real '0.4' " REAL},
	{"--real|1s", "--real '1s' " REAL},
	{"--real|1000000.5", "--real '1000000.5' " REAL},
	{"--time|3", "--time '3' is not valid: give a number from 0 to 2"},
	{"--list|1,,2", "--list '1,,2' is not valid: give at most 3 whole numbers separated by "
			"commas, each from 0 to 2"},
	{"--list|1,3", "--list '1,3' is not valid: give at most 3 whole numbers separated by "
		       "commas, each from 0 to 2"},
	{"--list|1,1,1,1", "--list '1,1,1,1' is not valid: give at most 3 whole numbers separated "
			   "by commas, each from 0 to 2"},
	{"--list|1,", "--list '1,' is not valid: give at most 3 whole numbers separated by "
		      "commas, each from 0 to 2"},
	{"--sizes|1K;2",
		"--sizes '1K;2' is not valid: give whole numbers, optionally with K, M or G, "
		"separated by commas, each from 1 to 1048576"},
	{"--pin|maybe", "--pin 'maybe' is not valid: give no or yes"},
	{"--mtu|1500", "--mtu '1500' is not valid: give 256, 512 or 1024"},
	{"--text|\"\"", "--text '' is not valid: give FILE"},
	{"--device|\"\"", "--device '' is not valid: give auto or a device"},
	{"--call|0", "--call '0' is not valid: give a whole number from 1 to 9"},
	{"--call|file", "--call file: line 1:?no"},
	{"--number", "--number needs a value" OPTION},
	{"-n", "-n needs a value" OPTION},
	{"--frob", "--frob is not valid" OPTION},
	{"--fr\nob", "--fr?ob is not valid" OPTION},
	{"-z", "-z is not valid" OPTION},
	{"-zn", "-z is not valid" OPTION},
	{"--flag|-zzz", "-z is not valid" OPTION},
	{"-\n9", "-? is not valid" OPTION},
	{"--flag=1", "--flag=1 is not valid" OPTION},
	{"-n|0|--frob", "--number '0' " NUMBER},
	{"a|b\nc", "unexpected argument 'b?c': give one HOST"},
	{"--two|--text|x", "--two and --text exclude each other: give one"},
	{"--two|--one", "--two and --one exclude each other: give one"},
	{"--three", "--three has no effect alone: give --text or --device with it"},
};

TEST(bad_lines_are_refused)
{
	struct options o;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(bad_lines); i++) {
		CHECK_EQ(read_line(bad_lines[i][0], &o), -EINVAL);
		printf("  %s\n", why);
		CHECK(!strcmp(why, bad_lines[i][1]));
		CHECK(o.n64 == 6 && o.called == 3 && !o.device);
	}
	CHECK_EQ(read_line("--three|--device|x", &o), 4);
}

TEST(operands_are_counted)
{
	struct options o;

	begin();
	args.operand = NULL;
	CHECK_EQ(read_line("a", &o), -EINVAL);
	CHECK(!strcmp(why, "unexpected argument 'a': give options only"));
	args.operands = true;
	CHECK_EQ(read_line("a|-f|b", &o), 2);
	CHECK(o.flag);
	args.strict_order = true;
	CHECK_EQ(read_line("a|-f|b", &o), 1);
	CHECK(!o.flag);
}

TEST(commands_have_their_options)
{
	static const char *const words[] = {"run", "map", NULL};
	struct options o;
	unsigned i = 9;

	begin();
	args.set = SET_ONE;
	CHECK(read_line("--one", &o) == 2 && o.flag);
	CHECK_EQ(read_line("-t", &o), -EINVAL);
	CHECK(!strcmp(why, "--two does not apply to one: give one of the options of its --help"));
	args.set = 0; /* the command is found out later */
	CHECK_EQ(read_line("-t", &o), 2);
	args.set = SET_TWO;
	CHECK_EQ(args_fit(&args), 0);
	args.set = SET_ONE;
	CHECK_EQ(args_fit(&args), -EINVAL);
	CHECK(!strcmp(why, "--two does not apply to one: give one of the options of its --help"));
	CHECK(args_word(&args, "map", words, &i) == 0 && i == 1);
	CHECK_EQ(args_word(&args, "m", words, &i), -EINVAL);
	CHECK(i == 1 && !strcmp(why, "HOST 'm' is not valid: give run or map"));
}

TEST(reasons_are_one_short_line)
{
	struct arg a = {.name = "--opt", .value = "a\n\033b", .why = why, .size = sizeof(why)};
	char longest[301];

	begin();
	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK(!strcmp(why, "--opt 'a??b' is not valid: give x"));
	memset(longest, 'l', sizeof(longest) - 1);
	longest[300] = 0;
	a.value = longest;
	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK(strlen(why) < 100 && strstr(why, "give x"));
	a.size = 0;
	a.why = NULL;
	CHECK_EQ(arg_bad(&a, "x"), -EINVAL);
	CHECK_EQ(args_fail(&args, "give %d\n", 7), -EINVAL);
	CHECK(!strcmp(why, "give 7?"));
}

TEST(files_are_opened)
{
	struct arg a = {.name = "--opt", .value = "-", .why = why, .size = sizeof(why)};
	FILE *f = NULL;

	CHECK(arg_open(&a, &f) == 0 && f == stdout);
	a.value = "/nonexistent/x";
	CHECK(arg_open(&a, &f) == -EINVAL && f == stdout);
	CHECK(strstr(why, "--opt '/nonexistent/x' is not valid: give a file that can be written"));
}

static int count_word(void *arg, const char *word)
{
	uint32_t *n = arg;

	return strcmp(word, "bad") && *word ? (int)(++*n * 0) : -1;
}

TEST(lists_of_words_are_split)
{
	static const char *const bad[] = {"", "a,", ",a", "a,bad,c"};
	struct arg a = {.name = "--opt", .value = "a,b,c", .why = why, .size = sizeof(why)};
	uint32_t n = 0;

	CHECK_EQ(arg_words(&a, "some", count_word, &n), 0);
	CHECK_EQ(n, 3);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		a.value = bad[i];
		CHECK_EQ(arg_words(&a, "some", count_word, &n), -EINVAL);
		CHECK(strstr(why, "is not valid: give some"));
	}
}

TEST(help_is_made_of_the_rows)
{
	static const char *const lines[] = {"Usage: program\n\nNumbers\n",
		"  -n, --number N       some number (5 to 12; 6); also --num\n",
		"  --big N              of 64 bits (0 to 18446744073709551615)\n",
		"  --bytes N            bytes (1 to 2^40; all there are)\n",
		"  -s, --size B         bytes of a request (16 to 56, a multiple of 8; 32)\n",
		"  --ring B             bytes of a ring (4096 to 2^30; auto)\n",
		"  --real X             a number (0.5 to 1000000)\n",
		"  --us US              a time (0 to 10^9)\n",
		"  --list N,...         numbers (0 to 2; 1,2)\n",
		"\nOthers\n  -f, --flag           a flag\n",
		"  --pin no|yes         one core for each thread; this help is long enough to need "
		"a second\n                       line (yes)\n",
		"  --mtu BYTES          MTU (256, 512 or 1024)\n",
		"  --device NAME        a device (auto)\n",
		"  -h, --help           print this text\n  -V, --version        print the version\n"
		"\nStatus: 0.\n"};
	char text[4000] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");
	struct options o;

	begin();
	args_help(&args, f);
	fclose(f);
	fputs(text, stdout);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		CHECK(strstr(text, lines[i]));
	CHECK_EQ(read_line("--help|--bad", &o), 0);
	CHECK_EQ(read_line("-V", &o), 0);
}
