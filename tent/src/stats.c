/* SPDX-License-Identifier: MIT */
/* Statistics, per pair of rails. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sized.h"
#include "stats.h"

void stats_rail(const struct tent_segment *s, uint32_t pair, struct tent_rail_stats *stats_p)
{
	const struct pair *p = &s->pairs[pair];
	struct sched_rail_stats r;

	sched_rail_stats(s->sched, pair, &r);
	*stats_p = (struct tent_rail_stats){
		.up = sched_rail_in_use(s->sched, pair),
		.bytes = r.bytes,
		.slices = r.slices,
		.inflight = r.inflight,
		.exclusions = r.exclusions,
		.fault = p->fault,
		.link_gbps = s->t->gbps[p->local],
		.rate_gbps = r.rate * 8, /* from bytes per ns */
	};
	strcpy(stats_p->name, s->t->rails[p->local].name);
	strcpy(stats_p->remote, s->desc.rails[p->remote].name);
}

int tent_rail_get_stats(struct tent_segment *s, uint32_t i, struct tent_rail_stats *stats_p,
	size_t size)
{
	struct tent_rail_stats st;

	if (i >= s->n_pairs)
		return -ENOENT;
	pthread_mutex_lock(&s->t->lock);
	stats_rail(s, i, &st);
	pthread_mutex_unlock(&s->t->lock);
	sized_out(stats_p, size, &st, sizeof(st));
	return 0;
}

static double quantile_us(const struct latrec_hist *h, double q)
{
	return (double)latrec_hist_quantile(h, q) / 1e3;
}

static void print_pair(const struct tent_segment *s, uint32_t i, FILE *out)
{
	struct tent_rail_stats r;

	stats_rail(s, i, &r);
	fprintf(out,
		"%-10s %-10s %-4s %12.6f %10llu %12llu %8llu %-11s %10.1f %10.1f %10.1f %10.1f\n",
		r.name, r.remote, r.up ? "up" : "down", (double)r.bytes / 1e9,
		(unsigned long long)r.slices, (unsigned long long)r.inflight,
		(unsigned long long)r.exclusions, tent_fault_name(r.fault), r.link_gbps,
		r.rate_gbps, quantile_us(s->pairs[i].slice_ns, .5),
		quantile_us(s->pairs[i].slice_ns, .99));
}

static int stream_error(FILE *out)
{
	return fflush(out) || ferror(out) ? (errno ? -errno : -EIO) : 0;
}

/* The stream may block, so the text is written to it without the lock. */
int stats_write(struct tent *t, FILE *out, void (*put)(struct tent *t, FILE *f))
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	pthread_mutex_lock(&t->lock);
	put(t, f);
	pthread_mutex_unlock(&t->lock);
	if (fclose(f) || !len) {
		free(text);
		return -ENOMEM;
	}
	errno = 0;
	fwrite(text, 1, len, out);
	free(text);
	return stream_error(out);
}

static void put_table(struct tent *t, FILE *out)
{
	fprintf(out,
		"mode %s; bandwidth_learning_rate %g halves a sample's weight in %.2f samples\n",
		config_mode_name(t->config.mode), t->config.bandwidth_learning_rate,
		config_half_life(&t->config));
	fprintf(out, "%-10s %-10s %-4s %12s %10s %12s %8s %-11s %10s %10s %10s %10s\n", "rail",
		"peer's", "", "moved, GB", "slices", "in flight, B", "outages", "last fault",
		"link, Gb/s", "rate, Gb/s", "P50, us", "P99, us");
	for (const struct tent_segment *s = t->segments; s; s = s->next) {
		for (uint32_t i = 0; i < s->n_pairs; i++)
			print_pair(s, i, out);
	}
}

int tent_stats_print(struct tent *t, FILE *out)
{
	return stats_write(t, out, put_table);
}

static json_t *pair_json(const struct tent_segment *s, uint32_t i)
{
	struct tent_rail_stats r;

	stats_rail(s, i, &r);
	return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f}", "rail",
		r.name, "remote", r.remote, "up", r.up, "bytes", (json_int_t)r.bytes, "slices",
		(json_int_t)r.slices, "inflight_bytes", (json_int_t)r.inflight, "exclusions",
		(json_int_t)r.exclusions, "fault", tent_fault_name(r.fault), "link_gbps",
		r.link_gbps, "rate_gbps", r.rate_gbps, "slice_p50_us",
		quantile_us(s->pairs[i].slice_ns, .5), "slice_p99_us",
		quantile_us(s->pairs[i].slice_ns, .99));
}

static json_t *segment_json(const struct tent_segment *s)
{
	json_t *rails = json_array();
	struct sched_stats stats;

	sched_stats(s->sched, &stats);
	for (uint32_t i = 0; i < s->n_pairs; i++)
		json_array_append_new(rails, pair_json(s, i));
	return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "host", s->desc.host,
		"port", (int)s->desc.port, "requests", (json_int_t)stats.requests,
		"failed_requests", (json_int_t)stats.failed_requests, "resent_slices",
		(json_int_t)stats.resent, "remote_bytes", (json_int_t)stats.remote_bytes,
		"resend_p50_us", quantile_us(s->resend_ns, .5), "resend_max_us",
		quantile_us(s->resend_ns, 1), "rails", rails);
}

static void put_json(struct tent *t, FILE *out)
{
	json_t *segments = json_array(), *root;

	for (const struct tent_segment *s = t->segments; s; s = s->next)
		json_array_append_new(segments, segment_json(s));
	root = json_pack("{s:s, s:o}", "mode", config_mode_name(t->config.mode), "segments",
		segments);
	json_line(root, 17, out);
}

int tent_stats_json(struct tent *t, FILE *out)
{
	return stats_write(t, out, put_json);
}
