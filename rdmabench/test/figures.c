/* SPDX-License-Identifier: MIT */
/*
 * For compat.py: prints figures that it computes from its arguments:
 *	figures window N...	of samples, by the compatible method
 *	figures merge FILE...	of statistics files, by the compatible rule; "-": an absent figure
 *	figures real X...	numbers as text
 * For hdrlog.py: prints a log with one histogram:
 *	figures hdr VALUE COUNT...
 * For collect.py: writes a file:
 *	figures file DIR RUN WINDOW N...	a statistics file of samples; WINDOW 0: cumulative
 */
#include <inttypes.h>

#include "support/test.h"
#include "hdrlog.h"
#include "stats.h"
#include "statsfile.h"

#define MAX_SAMPLES 1000

static void window(int n, char **args)
{
	uint64_t samples[MAX_SAMPLES];
	struct stats s;

	CHECK(n > 0 && n <= MAX_SAMPLES);
	for (int i = 0; i < n; i++)
		samples[i] = strtoull(args[i], NULL, 10);
	stats_of_window(samples, (size_t)n, &s);
	CHECK_EQ(stats_print(&s, stdout), 0);
}

static void merge(int n, char **args)
{
	struct stats_row rows[MAX_SAMPLES];
	struct stats_merged m;
	char text[STATS_TEXT_MAX], real[64];

	CHECK(n <= MAX_SAMPLES);
	for (int i = 0; i < n; i++) {
		AT_END(end_file) FILE *f = fopen(args[i], "r");

		CHECK(f);
		CHECK_EQ(stats_parse(text, fread(text, 1, sizeof(text), f), &rows[i]), 0);
	}
	stats_merge(rows, (size_t)n, &m);
	printf("%s: %" PRIu64 "\n", stats_names[0], m.samples);
	for (int k = STATS_MIN; k < STATS_KEYS; k++) {
		stats_real(m.v[k], real, sizeof(real));
		printf("%s: %s\n", stats_names[k], m.has[k] ? real : "-");
	}
}

static void hdr(int n, char **args)
{
	struct latrec_hist *h;
	int err;

	CHECK_EQ(latrec_hist_create(NULL, &h), 0);
	for (int i = 0; i + 1 < n; i += 2)
		CHECK_EQ(latrec_hist_record_n(h, strtoull(args[i], NULL, 10),
				 strtoull(args[i + 1], NULL, 10)),
			0);
	hdrlog_head("figures 1", 1700000000.25, stdout);
	err = hdrlog_line("it", 1700000000.25, 2.5, h, stdout);
	latrec_hist_destroy(h);
	exit(err != 0);
}

static void real(int n, char **args)
{
	char text[64];

	for (int i = 0; i < n; i++) {
		stats_real(strtod(args[i], NULL), text, sizeof(text));
		puts(text);
	}
}

static void file(int n, char **args)
{
	struct statsfile_attr a = {.dir = args[0],
		.run = args[1],
		.role = "client",
		.clock = "none"};
	struct statsfile *f;

	CHECK(n > 2);
	a.window = strtoull(args[2], NULL, 10);
	CHECK_EQ(statsfile_open(&a, &f), 0);
	for (int i = 3; i < n; i++)
		CHECK_EQ(statsfile_add(f, strtoull(args[i], NULL, 10), 1), 0);
	puts(statsfile_path(f));
	CHECK_EQ(statsfile_close(f), 0);
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	if (!strcmp(argv[1], "window"))
		window(argc - 2, argv + 2);
	else if (!strcmp(argv[1], "merge"))
		merge(argc - 2, argv + 2);
	else if (!strcmp(argv[1], "file"))
		file(argc - 2, argv + 2);
	else if (!strcmp(argv[1], "hdr"))
		hdr(argc - 2, argv + 2);
	else
		real(argc - 2, argv + 2);
	return 0;
}
