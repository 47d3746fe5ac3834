/* SPDX-License-Identifier: MIT */
/* Statistics in Prometheus' text format, version 0.0.4: one family after the other. */
#include "base/compiler.h"
#include "stats.h"

/* A metric family with one value per pair of rails: a counter or a gauge. */
static const struct family {
	const char *name, *help;
	bool counter;
} families[] = {
	{"tent_rail_up", "1 if the rail is in use, else 0.", false},
	{"tent_rail_bytes_total", "Bytes that arrived.", true},
	{"tent_rail_slices_total", "Slices that arrived.", true},
	{"tent_rail_inflight_bytes", "Bytes bound to the rail that have not arrived.", false},
	{"tent_rail_outages_total", "Outages of the rail.", true},
	{"tent_rail_link_bytes_per_second", "Rate of the link.", false},
	{"tent_rail_bytes_per_second", "Rate as measured over busy time.", false},
};

/* The value of family number @i. */
static double value_of(const struct tent_rail_stats *r, size_t i)
{
	const double values[ARRAY_SIZE(families)] = {r->up, (double)r->bytes, (double)r->slices,
		(double)r->inflight, (double)r->exclusions, r->link_gbps * 1e9 / 8,
		r->rate_gbps * 1e9 / 8};

	return values[i];
}

static void put_head(FILE *out, const char *name, const char *help, const char *type)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes a label. @value contains no newline, so only quotes and backslashes need an escape. */
static void put_label(FILE *out, const char *key, const char *value)
{
	fprintf(out, "%s=\"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('"', out);
}

/* The name and the labels of a segment, without the closing brace. */
static void put_segment(FILE *out, const char *name, const struct tent_segment *s)
{
	fprintf(out, "%s{segment=\"%u\",", name, s->number);
	put_label(out, "peer", s->desc.host);
	fprintf(out, ",port=\"%u\"", s->desc.port);
}

/* Writes the labels of a pair of rails. */
static void put_pair(FILE *out, const char *name, const struct tent_segment *s, uint32_t pair,
	const struct tent_rail_stats *r)
{
	put_segment(out, name, s);
	fprintf(out, ",pair=\"%u\",", pair);
	put_label(out, "rail", r->name);
	fputc(',', out);
	put_label(out, "remote", r->remote);
}

/* put_pairs() calls this function for each pair of rails. */
typedef void put_fn(const struct tent_segment *s, uint32_t pair, const struct tent_rail_stats *r,
	size_t arg, FILE *out);

static void put_pairs(struct tent *t, put_fn *put, size_t arg, FILE *out)
{
	struct tent_rail_stats r;

	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			stats_rail(s, i, &r);
			put(s, i, &r, arg, out);
		}
	}
}

static void put_value(const struct tent_segment *s, uint32_t pair, const struct tent_rail_stats *r,
	size_t family, FILE *out)
{
	put_pair(out, families[family].name, s, pair, r);
	fprintf(out, "} %.17g\n", value_of(r, family));
}

/* Writes a sample of 1 for the cause of the last outage, and no samples for other causes. */
static void put_fault(const struct tent_segment *s, uint32_t pair, const struct tent_rail_stats *r,
	size_t arg, FILE *out)
{
	if (r->fault == TENT_FAULT_NONE)
		return;
	put_pair(out, "tent_rail_fault", s, pair, r);
	fputc(',', out);
	put_label(out, "fault", tent_fault_name(r->fault));
	fputs("} 1\n", out);
}

static void put_latency(const struct tent_segment *s, uint32_t pair,
	const struct tent_rail_stats *r, size_t arg, FILE *out)
{
	static const double quantiles[] = {.5, .9, .99, .999};
	const struct latrec_hist *h = s->pairs[pair].slice_ns;

	for (size_t q = 0; q < ARRAY_SIZE(quantiles); q++) {
		put_pair(out, "tent_slice_seconds", s, pair, r);
		fprintf(out, ",quantile=\"%g\"} %.9g\n", quantiles[q],
			(double)latrec_hist_quantile(h, quantiles[q]) / 1e9);
	}
	put_pair(out, "tent_slice_seconds_sum", s, pair, r);
	fprintf(out, "} %.9g\n", latrec_hist_mean(h) * (double)latrec_hist_count(h) / 1e9);
	put_pair(out, "tent_slice_seconds_count", s, pair, r);
	fprintf(out, "} %llu\n", (unsigned long long)h->count);
}

/* Writes a counter for each segment: the member of struct sched_stats at this offset. */
static void put_counter(struct tent *t, const char *name, const char *help, size_t offset,
	FILE *out)
{
	struct sched_stats stats;

	put_head(out, name, help, "counter");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		sched_stats(s->sched, &stats);
		put_segment(out, name, s);
		fprintf(out, "} %llu\n",
			(unsigned long long)*(const uint64_t *)((const char *)&stats + offset));
	}
}

static void put_all(struct tent *t, FILE *out)
{
	put_counter(t, "tent_requests_total", "Requests that were given to the scheduler.",
		offsetof(struct sched_stats, requests), out);
	put_counter(t, "tent_failed_requests_total", "Requests that ended with an error.",
		offsetof(struct sched_stats, failed_requests), out);
	put_counter(t, "tent_resent_slices_total", "Slices of failed rails that went to others.",
		offsetof(struct sched_stats, resent), out);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		put_head(out, families[i].name, families[i].help,
			families[i].counter ? "counter" : "gauge");
		put_pairs(t, put_value, i, out);
	}
	put_head(out, "tent_rail_fault", "Cause of the last outage.", "gauge");
	put_pairs(t, put_fault, 0, out);
	put_head(out, "tent_slice_seconds", "From the post of a slice to its completion.",
		"summary");
	put_pairs(t, put_latency, 0, out);
}

int tent_stats_prometheus(struct tent *t, FILE *out)
{
	return stats_write(t, out, put_all);
}
