/* SPDX-License-Identifier: MIT */
/*
 * The seven figures of a statistics file, in their order there:
 *
 *	latency_samples: 15
 *	latency_min_ns: 1234567
 *	latency_avg_ns: 2345678
 *	latency_median_ns: 2341234
 *	latency_p95_ns: 3123456
 *	latency_p99_ns: 3987654
 *	latency_max_ns: 4123456
 *
 * They can be computed by two methods. From a histogram, percentiles are by nearest rank, at most
 * 1/128 above the sample. The compatible method sorts a window of n samples. Counted from 0, the
 * median is sample number n / 2, and percentile p is sample number (size_t)(n * p). The mean is
 * truncated. The compatible method also has a rule to merge the figures of several files.
 */
#ifndef RDMABENCH_STATS_H
#define RDMABENCH_STATS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "latrec.h"

#define STATS_COMPAT_WINDOW 10 /* samples */
#define STATS_TEXT_MAX 4096 /* maximum size of a statistics file that is read, in bytes */
/* Maximum number of samples in a file; the sum of 32767 files fits into a JSON integer. */
#define STATS_SAMPLES_MAX (1ull << 48)

enum stats_key {
	STATS_SAMPLES,
	STATS_MIN,
	STATS_AVG,
	STATS_MEDIAN,
	STATS_P95,
	STATS_P99,
	STATS_MAX,
	STATS_KEYS,
};

extern const char *const stats_names[STATS_KEYS];

/* Values by enum stats_key, in nanoseconds except the number of samples. */
struct stats {
	uint64_t v[STATS_KEYS];
};

/* Computes the figures by the compatible method, and sorts the samples. @n must be at least 1. */
void stats_of_window(uint64_t *samples, size_t n, struct stats *s_p);

/* Computes the figures of a histogram; all are 0 if it is empty. */
void stats_of_hist(const struct latrec_hist *h, struct stats *s_p);

/* Returns 0 or the -errno of the stream. */
int stats_print(const struct stats *s, FILE *out);

/* Figures as they are read back; another program may have written fractions. */
struct stats_row {
	uint64_t samples;
	double v[STATS_KEYS]; /* v[STATS_SAMPLES] is not used */
};

/*
 * Reads lines "key: value" and ignores unknown keys. Writes *row_p only on success. Returns 0.
 * -ENODATA: the text has only white space. -EBADMSG: the text is longer than STATS_TEXT_MAX or has
 * a byte 0; a value is not a number, is negative or too large; or a key or the end of the last line
 * is missing (the file is incomplete, or is not a statistics file).
 */
int stats_parse(const char *text, size_t len, struct stats_row *row_p);

/* The merged figures of several files; has[key] is false if no file had a value other than 0. */
struct stats_merged {
	uint64_t samples;
	double v[STATS_KEYS];
	bool has[STATS_KEYS];
};

/*
 * The compatible rule: numbers of samples are added. In the other figures 0 counts as absent; the
 * result is the smallest min, the mean of the means and of the medians, and the largest p95, p99
 * and max. Rows without samples are left out.
 */
void stats_merge(const struct stats_row *rows, size_t n, struct stats_merged *m_p);

/* Computes the merged figures of a histogram; all are absent if it is empty. */
void stats_merge_hist(const struct latrec_hist *h, struct stats_merged *m_p);

/* Returns the text of a histogram (latrec(7)) as a new JSON string, or NULL if out of memory. */
json_t *stats_hist_json(const struct latrec_hist *h);
/*
 * Reads the text of a histogram, which another process wrote, and the number of samples. Returns
 * false if the text or the number is missing or damaged, or if the number is not that of the
 * histogram.
 */
bool stats_hist_read(const json_t *text, const json_t *samples, struct latrec_hist *h_p);

/* Writes a line per figure: None for an absent one, but 0 for an absent number of samples. */
void stats_print_merged(const struct stats_merged *m, FILE *out);

/* Writes the shortest text that reads back as @x: 15642778.0, 142739395.66666666, 1e+16. */
void stats_real(double x, char *text, size_t size);

#endif
