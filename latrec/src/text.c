/* SPDX-License-Identifier: MIT */
/* Histograms as text: latrec's format, which can be imported, and HdrHistogram's. */
#include "internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define LINE 96 /* longer than any line of the format */
#define HASH_START 0xcbf29ce484222325ull /* FNV-1a, 64 bits */
#define HASH_PRIME 0x100000001b3ull
#define DECIMAL 40 /* digits of a 128-bit number, and the terminating 0 */

static uint64_t hash_line(uint64_t hash, const char *line)
{
	for (; *line; line++)
		hash = (hash ^ (unsigned char)*line) * HASH_PRIME;
	return hash;
}

/* The lines of the head, a name and a number each. */
enum head {
	HEAD_VERSION,
	HEAD_BITS,
	HEAD_COUNT,
	HEAD_SUM,
	HEAD_MIN,
	HEAD_MAX,
	HEAD_BUCKETS,
	HEADS
};

static const char *const head_names[HEADS] = {"latrec-hist", "bits", "count", "sum", "min", "max",
	"buckets"};

/* ---- export ---- */

struct writer {
	FILE *out;
	uint64_t hash;
};

static __attribute__((format(printf, 2, 3))) void emit(struct writer *w, const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	w->hash = hash_line(w->hash, line);
	fputs(line, w->out);
}

/* printf(3) has no conversion for 128 bits. */
static const char *decimal(u128 value, char text[DECIMAL])
{
	char *at = text + DECIMAL - 1;

	*at = 0;
	do {
		*--at = (char)('0' + (int)(value % 10));
		value /= 10;
	} while (value);
	return at;
}

static uint32_t used_places(const struct hist *f)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < f->places; at++)
		n += hist_at(f, at) != 0;
	return n;
}

int latrec_hist_export(const struct latrec_hist *h, FILE *out)
{
	const struct hist *f = hist_of(h);
	const u128 head[HEADS] = {VERSION, f->half + 1, h->count, hist_sum(h), f->min, f->max,
		used_places(f)};
	struct writer w = {out, HASH_START};
	char text[DECIMAL];

	errno = 0;
	for (int i = 0; i < HEADS; i++)
		emit(&w, "%s %s\n", head_names[i], decimal(head[i], text));
	for (uint32_t at = 0; at < f->places; at++)
		if (hist_at(f, at))
			emit(&w, "%" PRIu64 " %" PRIu64 "\n", place_high(f, at), hist_at(f, at));
	emit(&w, "end %016" PRIx64 "\n", w.hash);
	return stream_status(out);
}

/* ---- import ---- */

struct reader {
	FILE *in;
	uint64_t hash; /* check sum of the lines so far */
	char line[LINE];
};

/* Reads the next line; the caller checks its end. Returns 0, -EBADMSG or -errno. */
static int next_line(struct reader *r)
{
	errno = 0;
	if (!fgets(r->line, sizeof(r->line), r->in))
		return ferror(r->in) ? (errno ? -errno : -EIO) : -EBADMSG;
	return 0;
}

/* Reads a decimal number in the format of the export. Returns the text after it, or NULL. */
static const char *number(const char *at, u128 *value_p)
{
	u128 value = 0;
	int digits = 0;

	for (; at[digits] >= '0' && at[digits] <= '9'; digits++) {
		unsigned digit = (unsigned)(at[digits] - '0');

		if (value > (~(u128)0 - digit) / 10)
			return NULL;
		value = value * 10 + digit;
	}
	if (!digits || (digits > 1 && *at == '0'))
		return NULL;
	*value_p = value;
	return at + digits;
}

/* Reads a line "name value". */
static int field(struct reader *r, const char *name, u128 limit, u128 *value_p)
{
	size_t len = strlen(name);
	int err = next_line(r);
	const char *rest;

	if (err)
		return err;
	if (strncmp(r->line, name, len) || r->line[len] != ' ')
		return -EBADMSG;
	rest = number(r->line + len + 1, value_p);
	if (!rest || strcmp(rest, "\n") || *value_p > limit)
		return -EBADMSG;
	r->hash = hash_line(r->hash, r->line);
	return 0;
}

/* Reads one bucket. Its place must be *next_p or above; then *next_p becomes the place after it. */
static int read_bucket(struct reader *r, struct hist *f, uint64_t *next_p)
{
	int err = next_line(r);
	u128 value, count;
	const char *rest;
	uint64_t at;

	if (err)
		return err;
	rest = number(r->line, &value);
	if (!rest || *rest != ' ')
		return -EBADMSG;
	rest = number(rest + 1, &count);
	if (!rest || strcmp(rest, "\n") || !count || count > LATREC_MAX_COUNT)
		return -EBADMSG;
	at = hist_place(f, (uint64_t)value);
	if (place_high(f, at) != value || at < *next_p) /* compares all 128 bits of `value` */
		return -EBADMSG;
	err = hist_add(f, at, (uint64_t)count);
	if (err)
		return err;
	*next_p = at + 1;
	r->hash = hash_line(r->hash, r->line);
	return 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool in_range(u128 sum, u128 least, u128 most)
{
	return sum >= least && sum <= most;
}

/* Returns true if the figures of the first lines agree with the buckets. */
static bool consistent(const struct hist *f)
{
	uint64_t first = f->places, last = 0;
	u128 count = 0, least = 0, most = 0, sum = hist_sum(&f->hot);

	for (uint64_t at = 0; at < f->places; at++) {
		uint64_t n = hist_at(f, at);

		if (!n)
			continue;
		first = at < first ? at : first;
		last = at;
		count += n;
		least += (u128)n * larger(place_low(f, at), f->min);
		most += (u128)n * smaller(place_high(f, at), f->max);
	}
	if (count != f->hot.count)
		return false;
	if (!count)
		return !sum && !f->min && !f->max;
	return hist_place(f, f->min) == first && hist_place(f, f->max) == last &&
	       in_range(sum, least, most);
}

static int read_head(struct reader *r, const struct hist *f, u128 head[HEADS])
{
	static const u128 limits[HEADS] = {UINT64_MAX, UINT64_MAX, LATREC_MAX_COUNT, ~(u128)0,
		UINT64_MAX, UINT64_MAX, UINT32_MAX};
	int err = 0;

	for (int i = 0; i < HEADS && !err; i++) {
		err = field(r, head_names[i], limits[i], &head[i]);
		if (!err && i == HEAD_VERSION && head[i] != VERSION)
			err = -EPROTONOSUPPORT;
	}
	if (!err && (head[HEAD_BITS] != f->half + 1 || head[HEAD_BUCKETS] > f->places))
		err = -EBADMSG;
	return err;
}

static int read_end(struct reader *r)
{
	char end[LINE];
	int err = next_line(r);

	if (err)
		return err;
	snprintf(end, sizeof(end), "end %016" PRIx64 "\n", r->hash);
	return strcmp(r->line, end) ? -EBADMSG : 0;
}

static int read_hist(struct reader *r, struct hist *f)
{
	uint64_t next = 0;
	u128 head[HEADS];
	int err = read_head(r, f, head);

	for (u128 i = 0; !err && i < head[HEAD_BUCKETS]; i++)
		err = read_bucket(r, f, &next);
	if (!err)
		err = read_end(r);
	if (err)
		return err;
	f->hot.count = (uint64_t)head[HEAD_COUNT];
	f->min = (uint64_t)head[HEAD_MIN];
	f->max = (uint64_t)head[HEAD_MAX];
	f->hot.sum_low = (uint64_t)head[HEAD_SUM];
	f->hot.sum_high = (uint64_t)(head[HEAD_SUM] >> 64);
	return consistent(f) ? 0 : -EBADMSG;
}

int latrec_hist_import(FILE *in, struct latrec_hist *h_p)
{
	const struct hist *f = hist_of(h_p);
	const struct latrec_hist_attr like = {.low = f->low,
		.high = f->high,
		.precision = 1u << f->half};
	struct reader r = {.in = in, .hash = HASH_START};
	int c = getc(in), err;
	struct latrec_hist *h;

	if (c == EOF && !ferror(in))
		return -ENODATA;
	ungetc(c, in);
	err = latrec_hist_create(&like, &h);
	if (err)
		return err;
	err = read_hist(&r, hist_own(h));
	if (!err)
		err = hist_copy_room(h_p, h);
	if (!err)
		err = hist_copy(h_p, h);
	latrec_hist_destroy(h);
	return err;
}

/* ---- HdrHistogram's percentile distribution ---- */

#define TICKS_PER_HALF 5

/*
 * Returns the next level, in percent: five steps halve the distance to 100 %. Returns 100 if there
 * is no double between the level and 100.
 */
static double next_level(double level)
{
	double ticks = 2 * TICKS_PER_HALF, next;

	for (double left = 100 / (100 - level); left >= 2; left /= 2)
		ticks *= 2;
	next = level + 100 / ticks;
	return next > level ? next : 100;
}

static void print_levels(const struct latrec_hist *h, double unit_ns, FILE *out)
{
	const struct hist *f = hist_of(h);
	uint64_t seen = 0;
	double level = 0;

	for (uint32_t at = 0; seen < h->count; at++) {
		double value = (double)place_value(f, at) / unit_ns;

		seen += hist_at(f, at);
		if (!hist_at(f, at))
			continue;
		while (level < 100 && 100 * (double)seen / (double)h->count >= level) {
			fprintf(out, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", value, level / 100,
				seen, 1 / (1 - level / 100));
			level = next_level(level);
			if (seen == h->count)
				break;
		}
	}
	if (h->count)
		fprintf(out, "%12.3f %2.12f %10" PRIu64 "\n", (double)latrec_hist_max(h) / unit_ns,
			1.0, h->count);
}

int latrec_hist_print_hgrm(const struct latrec_hist *h, double unit_ns, FILE *out)
{
	if (!(unit_ns > 0))
		return -EINVAL;
	errno = 0;
	fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
		"1/(1-Percentile)");
	print_levels(h, unit_ns, out);
	fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
		latrec_hist_mean(h) / unit_ns, latrec_hist_stddev(h) / unit_ns);
	fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n",
		(double)latrec_hist_max(h) / unit_ns, h->count);
	fprintf(out, "#[Buckets = %12" PRIu64 ", SubBuckets     = %12" PRIu64 "]\n",
		(uint64_t)64 - hist_of(h)->half, (uint64_t)2 << hist_of(h)->half);
	return stream_status(out);
}
