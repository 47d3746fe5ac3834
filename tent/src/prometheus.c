/* SPDX-License-Identifier: MIT */
/* Statistics in Prometheus' text format, version 0.0.4: one family after the other. */
#include "stats.h"

/* A metric family with one value per pair of rails: a counter or a gauge. */
struct family {
	const char *name, *help;
	bool counter;
	double (*value)(const struct tent_rail_stats *r);
};

static double up(const struct tent_rail_stats *r)
{
	return r->up;
}

static double bytes(const struct tent_rail_stats *r)
{
	return (double)r->bytes;
}

static double slices(const struct tent_rail_stats *r)
{
	return (double)r->slices;
}

static double inflight(const struct tent_rail_stats *r)
{
	return (double)r->inflight;
}

static double outages(const struct tent_rail_stats *r)
{
	return (double)r->exclusions;
}

static double link_rate(const struct tent_rail_stats *r)
{
	return r->link_gbps * 1e9 / 8;
}

static double rate(const struct tent_rail_stats *r)
{
	return r->rate_gbps * 1e9 / 8;
}

static const struct family families[] = {
	{"tent_rail_up", "1 if the rail is in use, else 0.", false, up},
	{"tent_rail_bytes_total", "Bytes that arrived.", true, bytes},
	{"tent_rail_slices_total", "Slices that arrived.", true, slices},
	{"tent_rail_inflight_bytes", "Bytes bound to the rail that have not arrived.", false,
		inflight},
	{"tent_rail_outages_total", "Outages of the rail.", true, outages},
	{"tent_rail_link_bytes_per_second", "Rate of the link.", false, link_rate},
	{"tent_rail_bytes_per_second", "Rate as measured over busy time.", false, rate},
};

static void put_head(FILE *out, const char *name, const char *help, const char *type)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Values are printable text on one line. */
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

static void put_family(struct tent *t, const struct family *f, FILE *out)
{
	struct tent_rail_stats r;

	put_head(out, f->name, f->help, f->counter ? "counter" : "gauge");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			stats_rail(s, i, &r);
			put_pair(out, f->name, s, i, &r);
			fprintf(out, "} %.17g\n", f->value(&r));
		}
	}
}

/* Writes a sample of 1 for the cause of the last outage, and no samples for other causes. */
static void put_faults(struct tent *t, FILE *out)
{
	static const char name[] = "tent_rail_fault";
	struct tent_rail_stats r;

	put_head(out, name, "Cause of the last outage.", "gauge");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			stats_rail(s, i, &r);
			if (r.fault == TENT_FAULT_NONE)
				continue;
			put_pair(out, name, s, i, &r);
			fputc(',', out);
			put_label(out, "fault", tent_fault_name(r.fault));
			fputs("} 1\n", out);
		}
	}
}

static double total_seconds(const struct latrec_hist *h)
{
	return h->count ? latrec_hist_mean(h) * (double)h->count / 1e9 : 0;
}

static void put_latencies(struct tent *t, FILE *out)
{
	static const double quantiles[] = {.5, .9, .99, .999};
	struct tent_rail_stats r;

	put_head(out, "tent_slice_seconds", "From the post of a slice to its completion.",
		"summary");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++) {
			const struct latrec_hist *h = &s->pairs[i].slice_ns;

			stats_rail(s, i, &r);
			for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
				put_pair(out, "tent_slice_seconds", s, i, &r);
				fprintf(out, ",quantile=\"%g\"} %.9g\n", quantiles[q],
					(double)latrec_hist_quantile(h, quantiles[q]) / 1e9);
			}
			put_pair(out, "tent_slice_seconds_sum", s, i, &r);
			fprintf(out, "} %.9g\n", total_seconds(h));
			put_pair(out, "tent_slice_seconds_count", s, i, &r);
			fprintf(out, "} %llu\n", (unsigned long long)h->count);
		}
	}
}

/* A counter of each segment. */
static void put_counter(struct tent *t, const char *name, const char *help,
	uint64_t (*value)(const struct sched_stats *s), FILE *out)
{
	struct sched_stats stats;

	put_head(out, name, help, "counter");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		sched_stats(s->sched, &stats);
		put_segment(out, name, s);
		fprintf(out, "} %llu\n", (unsigned long long)value(&stats));
	}
}

static uint64_t requests(const struct sched_stats *s)
{
	return s->requests;
}

static uint64_t failed(const struct sched_stats *s)
{
	return s->failed_requests;
}

static uint64_t resent(const struct sched_stats *s)
{
	return s->resent;
}

static void put_all(struct tent *t, FILE *out)
{
	put_counter(t, "tent_requests_total", "Requests that were given to the scheduler.",
		requests, out);
	put_counter(t, "tent_failed_requests_total", "Requests that ended with an error.", failed,
		out);
	put_counter(t, "tent_resent_slices_total", "Slices of failed rails that went to others.",
		resent, out);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		put_family(t, &families[i], out);
	put_faults(t, out);
	put_latencies(t, out);
}

int tent_stats_prometheus(struct tent *t, FILE *out)
{
	return stats_write(t, out, put_all);
}
