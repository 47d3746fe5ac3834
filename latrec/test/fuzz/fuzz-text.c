/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a histogram's text from another process. Each line "end" gets the right check sum,
 * because the fuzzer would not find it. If the text is accepted, it must begin with the export of
 * the histogram. The functions that compute, merge and print are called with the histogram.
 */
#include "latrec.h"
#include "support/fuzz.h"
#include "support/histtext.h"

#define TEXT_MAX 4096

static void export_returns(const struct latrec_hist *h, const char *text, size_t size)
{
	char again[2 * TEXT_MAX];
	FILE *out = fmemopen(again, sizeof(again), "w");
	size_t len;

	must(out && !latrec_hist_export(h, out));
	len = (size_t)ftell(out);
	must(len <= size && !memcmp(again, text, len));
	fclose(out);
}

static void figures_are_in_range(const struct latrec_hist *h)
{
	uint64_t min = latrec_hist_min(h), max = latrec_hist_max(h), last = min;
	double mean = latrec_hist_mean(h);

	for (int i = 0; i <= 20; i++) {
		uint64_t q = latrec_hist_quantile(h, i / 20.0);

		must(q >= last && q <= max);
		last = q;
	}
	/* The mean is rounded several times. */
	must(mean >= (double)min * (1 - 1e-12) && mean <= (double)max * (1 + 1e-12));
	must(latrec_hist_stddev(h) >= 0);
}

static void merges_twice(const struct latrec_hist *h)
{
	static struct latrec_hist *sum;

	must(sum || !latrec_hist_create(NULL, &sum));
	latrec_hist_clear(sum);
	must(!latrec_hist_merge(sum, h));
	must(!latrec_hist_merge(sum, h) == (latrec_hist_count(h) <= LATREC_MAX_COUNT / 2));
	must(latrec_hist_min(sum) == latrec_hist_min(h));
	must(latrec_hist_max(sum) == latrec_hist_max(h));
}

static void prints(const struct latrec_hist *h)
{
	static FILE *out;

	if (!out)
		out = fopen("/dev/null", "we");
	must(out && !latrec_hist_print_hgrm(h, 1000, out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct latrec_hist *h;
	char text[6 * TEXT_MAX];
	FILE *in;

	if (size > TEXT_MAX)
		return 0;
	size = histtext_sign(data, size, text);
	must(h || !latrec_hist_create(NULL, &h));
	in = fmemopen(text, size, "r");
	if (!latrec_hist_import(in, h)) {
		export_returns(h, text, size);
		figures_are_in_range(h);
		merges_twice(h);
		prints(h);
	}
	fclose(in);
	return 0;
}
