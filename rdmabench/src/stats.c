/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

const char *const stats_names[STATS_KEYS] = {
	"latency_samples",
	"latency_min_ns",
	"latency_avg_ns",
	"latency_median_ns",
	"latency_p95_ns",
	"latency_p99_ns",
	"latency_max_ns",
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void stats_of_window(uint64_t *samples, size_t n, struct stats *s_p)
{
	uint64_t sum = 0;

	qsort(samples, n, sizeof(*samples), by_value);
	for (size_t i = 0; i < n; i++)
		sum += samples[i];
	*s_p = (struct stats){{
		[STATS_SAMPLES] = n,
		[STATS_MIN] = samples[0],
		[STATS_AVG] = sum / n,
		[STATS_MEDIAN] = samples[n / 2],
		[STATS_P95] = samples[(size_t)((double)n * 0.95)],
		[STATS_P99] = samples[(size_t)((double)n * 0.99)],
		[STATS_MAX] = samples[n - 1],
	}};
}

void stats_of_hist(const struct latrec_hist *h, struct stats *s_p)
{
	*s_p = (struct stats){{
		[STATS_SAMPLES] = h->count,
		[STATS_MIN] = latrec_hist_min(h),
		[STATS_AVG] = (uint64_t)latrec_hist_mean(h),
		[STATS_MEDIAN] = latrec_hist_quantile(h, .5),
		[STATS_P95] = latrec_hist_quantile(h, .95),
		[STATS_P99] = latrec_hist_quantile(h, .99),
		[STATS_MAX] = latrec_hist_max(h),
	}};
}

int stats_print(const struct stats *s, FILE *out)
{
	for (int k = 0; k < STATS_KEYS; k++) {
		if (fprintf(out, "%s: %" PRIu64 "\n", stats_names[k], s->v[k]) < 0)
			return errno ? -errno : -EIO;
	}
	return 0;
}

#define BLANK " \t\n\v\f\r"
#define FIGURE_MAX 0x1p64 /* ns, so that the sum of many figures is finite */

/* Reads a number and nothing else. A digit comes first, so signs and words like nan are refused. */
static int read_value(const char *value, int key, struct stats_row *row)
{
	char *end;

	if (!isdigit((unsigned char)*value) || strpbrk(value, "xX"))
		return -EBADMSG;
	if (key == STATS_SAMPLES)
		row->samples = strtoull(value, &end, 10);
	else
		row->v[key] = strtod(value, &end);
	return *end || row->v[key] > FIGURE_MAX || row->samples > STATS_SAMPLES_MAX ? -EBADMSG : 0;
}

/* Reads "key: value". Other lines are ignored. */
static int read_line(char *line, struct stats_row *row, unsigned *seen)
{
	char *value = strchr(line, ':');
	int key = 0;

	if (!value)
		return 0;
	*value++ = 0;
	line = trim(line, BLANK);
	while (key < STATS_KEYS && strcmp(line, stats_names[key]))
		key++;
	if (key == STATS_KEYS)
		return 0;
	*seen |= 1u << key;
	return read_value(trim(value, BLANK), key, row);
}

int stats_parse(const char *text, size_t len, struct stats_row *row_p)
{
	char copy[STATS_TEXT_MAX + 1], *rest = copy, *line;
	struct stats_row row = {0};
	unsigned seen = 0;
	int err = 0;

	if (len > STATS_TEXT_MAX || memchr(text, 0, len))
		return -EBADMSG;
	memcpy(copy, text, len);
	copy[len] = 0;
	if (strspn(copy, BLANK) == len)
		return -ENODATA;
	while (!err && (line = strsep(&rest, "\n")))
		err = read_line(line, &row, &seen);
	if (err || seen != (1u << STATS_KEYS) - 1 || text[len - 1] != '\n')
		return -EBADMSG;
	*row_p = row;
	return 0;
}

enum rule { RULE_MIN, RULE_MEAN, RULE_MAX };

static double combine(enum rule rule, double so_far, double x)
{
	if (rule == RULE_MEAN)
		return so_far + x;
	return (rule == RULE_MIN) == (x < so_far) ? x : so_far;
}

static void merge_key(const struct stats_row *rows, size_t n, int key, struct stats_merged *m)
{
	static const enum rule rules[STATS_KEYS] = {
		[STATS_MIN] = RULE_MIN,
		[STATS_AVG] = RULE_MEAN,
		[STATS_MEDIAN] = RULE_MEAN,
		[STATS_P95] = RULE_MAX,
		[STATS_P99] = RULE_MAX,
		[STATS_MAX] = RULE_MAX,
	};
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		double x = rows[i].v[key];

		if (!rows[i].samples || x == 0)
			continue;
		m->v[key] = used ? combine(rules[key], m->v[key], x) : x;
		used++;
	}
	m->has[key] = used > 0;
	if (used && rules[key] == RULE_MEAN)
		m->v[key] /= (double)used;
}

void stats_merge(const struct stats_row *rows, size_t n, struct stats_merged *m_p)
{
	*m_p = (struct stats_merged){0};
	for (size_t i = 0; i < n; i++)
		m_p->samples += rows[i].samples;
	m_p->has[STATS_SAMPLES] = m_p->samples > 0;
	for (int key = STATS_MIN; key < STATS_KEYS; key++)
		merge_key(rows, n, key, m_p);
}

/* Writes an exponent only for values from 1e16 on and, other than 0, below 1e-4. */
void stats_real(double x, char *text, size_t size)
{
	char best[32];
	int digits, exponent;

	for (digits = 0; digits < 17; digits++) {
		snprintf(best, sizeof(best), "%.*e", digits, x);
		if (strtod(best, NULL) == x)
			break;
	}
	exponent = atoi(strchr(best, 'e') + 1);
	if (x != 0 && (exponent < -4 || exponent >= 16))
		snprintf(text, size, "%s", best);
	else
		snprintf(text, size, "%.*f", digits > exponent ? digits - exponent : 1, x);
}

void stats_merge_hist(const struct latrec_hist *h, struct stats_merged *m_p)
{
	struct stats s;

	stats_of_hist(h, &s);
	m_p->samples = s.v[STATS_SAMPLES];
	for (int k = STATS_SAMPLES; k < STATS_KEYS; k++) {
		m_p->has[k] = m_p->samples > 0;
		m_p->v[k] = (double)s.v[k];
	}
}

json_t *stats_hist_json(const struct latrec_hist *h)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	json_t *v = NULL;

	if (out) {
		int err = latrec_hist_export(h, out);

		err |= fclose(out);
		v = err ? NULL : json_stringn(text, len);
		free(text);
	}
	return v;
}

bool stats_hist_read(const json_t *text, const json_t *samples, struct latrec_hist *h_p)
{
	FILE *in = json_string_length(text) ? fmemopen((void *)json_string_value(text),
						      json_string_length(text), "r") :
					      NULL;
	int err;

	if (!in)
		return false;
	err = latrec_hist_import(in, h_p);
	fclose(in);
	return !err && json_is_integer(samples) &&
	       (uint64_t)json_integer_value(samples) == latrec_hist_count(h_p);
}

void stats_print_merged(const struct stats_merged *m, FILE *out)
{
	char text[64];

	fprintf(out, "%s:  %" PRIu64 "\n", stats_names[STATS_SAMPLES], m->samples);
	for (int k = STATS_MIN; k < STATS_KEYS; k++) {
		stats_real(m->v[k], text, sizeof(text));
		fprintf(out, "%s:  %s\n", stats_names[k], m->has[k] ? text : "None");
	}
}
