/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <inttypes.h>
#include <math.h>

#include "base/compiler.h"
#include "base/order.h"

#define NS_PER_MS 1e6
#define NS_PER_US 1e3

void figure_add(struct figure *f, double v)
{
	if (isnan(v))
		return;
	f->sum += v;
	f->squares += v * v;
	f->worst = f->n ? fmax(f->worst, v) : v;
	f->n++;
}

double figure_mean(const struct figure *f)
{
	return f->n ? f->sum / f->n : NAN;
}

/*
 * The 97.5 % quantile of Student's t for n - 1 degrees of freedom; for n > 30 of the normal
 * distribution.
 */
static double student(uint32_t n)
{
	static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
		2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080,
		2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};

	return n - 2 < ARRAY_SIZE(t) ? t[n - 2] : 1.960;
}

double figure_ci95(const struct figure *f)
{
	double mean = figure_mean(f), variance;

	if (f->n < 2)
		return 0;
	variance = fmax(0, (f->squares - f->n * mean * mean) / (f->n - 1));
	return student(f->n) * sqrt(variance / f->n);
}

static void add(struct summary *s, const struct run_result *r)
{
	figure_add(&s->ratio, r->makespan / r->bound);
	figure_add(&s->single, r->single > 0 ? r->single : NAN);
	figure_add(&s->adapt, r->adapt / NS_PER_MS);
	figure_add(&s->remote_excess, r->remote_share - r->least_remote_share);
	figure_add(&s->recovery, r->recovery / NS_PER_MS);
	figure_add(&s->duplicate, (double)r->duplicate_bytes);
	figure_add(&s->makespan, r->makespan / NS_PER_MS);
	s->late += r->late;
	s->failed += r->failed;
	s->exclusions += r->exclusions;
	s->slices += r->slices;
}

int summary_run(struct summary *s, const struct sim_case *c, const struct sim_assume *a,
	const struct tent_config *config, uint64_t first_seed, uint32_t seeds)
{
	struct run_result r;
	int err = 0;

	*s = (struct summary){.c = c, .mode = config->mode, .seeds = seeds};
	for (uint32_t i = 0; i < seeds && !err; i++) {
		err = run_case(c, a, config, first_seed + i, &s->slice_ns, &s->request_ns, &r);
		if (!err)
			add(s, &r);
	}
	order_sort(s->slice_ns.v, s->slice_ns.n);
	order_sort(s->request_ns.v, s->request_ns.n);
	return err;
}

void summary_fini(struct summary *s)
{
	samples_fini(&s->slice_ns);
	samples_fini(&s->request_ns);
}

/* The quantile @q of sorted samples, by nearest rank, in us. */
static double quantile_us(const struct samples *s, double q)
{
	size_t rank = (size_t)ceil(q * (double)s->n);

	if (!s->n)
		return NAN;
	return s->v[rank ? rank - 1 : 0] / NS_PER_US;
}

static bool reported(const struct sim_case *c)
{
	return c->fault == FAULT_FLUSH || c->fault == FAULT_PORT || c->fault == FAULT_FLAP;
}

static double accept_ratio(const struct summary *s)
{
	return s->c->isolated ? s->single.worst : s->ratio.worst;
}

static double accept_limit(const struct summary *s)
{
	return s->c->isolated ? LIMIT_SINGLE : LIMIT_STREAM;
}

bool summary_accepted(const struct summary *s)
{
	double recovery = reported(s->c) ? LIMIT_REPORTED_MS : LIMIT_RECOVERY_MS;

	return accept_ratio(s) <= accept_limit(s) &&
	       (!s->c->urgent || s->single.worst <= LIMIT_URGENT) &&
	       (!s->adapt.n || s->adapt.worst <= LIMIT_ADAPT_MS) &&
	       (!s->recovery.n || s->recovery.worst <= recovery) &&
	       (s->c->fault == FAULT_NONE || s->recovery.n) && !s->late && !s->failed;
}

static double worst(const struct figure *f)
{
	return f->n ? f->worst : NAN;
}

/*
 * The values of a summary, by their keys in the JSON object. Those with a width are also columns of
 * the table.
 */
static const struct {
	const char *key;
	int width, digits;
} fields[] = {
	{"makespan_ratio", 9, 3},
	{"makespan_ratio_ci95", 6, 3},
	{.key = "makespan_ratio_max"},
	{.key = "accept_ratio_max"},
	{.key = "accept_limit"},
	{"single_ratio_max", 7, 3},
	{.key = "makespan_ms"},
	{"p50_slice_us", 6, 1},
	{"p99_slice_us", 6, 1},
	{"p999_slice_us", 7, 1},
	{"p50_request_us", 8, 1},
	{"p99_request_us", 8, 1},
	{"p999_request_us", 9, 1},
	{"adapt_ms", 7, 2},
	{"remote_share_excess", 7, 3},
	{"recovery_ms", 9, 3},
	{"duplicate_bytes", 10, 0},
};

/* The value of field number @i; NAN: the case has no such value. */
static double value_of(const struct summary *s, size_t i)
{
	const struct samples *slices = &s->slice_ns, *requests = &s->request_ns;
	const double values[ARRAY_SIZE(fields)] = {figure_mean(&s->ratio), figure_ci95(&s->ratio),
		s->ratio.worst, accept_ratio(s), accept_limit(s), worst(&s->single),
		figure_mean(&s->makespan), quantile_us(slices, .5), quantile_us(slices, .99),
		quantile_us(slices, .999), quantile_us(requests, .5), quantile_us(requests, .99),
		quantile_us(requests, .999), worst(&s->adapt), figure_mean(&s->remote_excess),
		worst(&s->recovery), s->duplicate.worst};

	return values[i];
}

void summary_json(const struct summary *s, FILE *f)
{
	fprintf(f,
		"{\"case\": \"%s\", \"mode\": \"%s\", \"default\": %s, \"seeds\": %" PRIu32
		", \"accepted\": %s",
		s->c->name, config_mode_name(s->mode),
		s->mode == TENT_MODE_DEFAULT ? "true" : "false", s->seeds,
		summary_accepted(s) ? "true" : "false");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		double v = value_of(s, i);

		fprintf(f, isfinite(v) ? ", \"%s\": %.6g" : ", \"%s\": null", fields[i].key, v);
	}
	fprintf(f,
		", \"late_slices\": %" PRIu64 ", \"failed_requests\": %" PRIu64
		", \"exclusions\": %" PRIu64 "}\n",
		s->late, s->failed, s->exclusions);
}

void summary_header(FILE *f)
{
	fprintf(f, "%-15s %-8s %9s %6s %7s %21s %27s %7s %7s %9s %10s\n", "", "", "makespan", "",
		"isolated", "slice us", "request us", "adapt", "remote", "recovery", "duplicate");
	fprintf(f, "%-15s %-8s %9s %6s %7s %6s %6s %7s %8s %8s %9s %7s %7s %9s %10s\n", "case",
		"mode", "/ bound", "+-95%", "/ bound", "P50", "P99", "P99.9", "P50", "P99", "P99.9",
		"ms", "excess", "ms", "bytes");
}

/* Prints a dash for each value that the case does not have. */
void summary_line(const struct summary *s, FILE *f)
{
	fprintf(f, "%-15s %-8s", s->c->name, config_mode_name(s->mode));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		bool last = i == ARRAY_SIZE(fields) - 1;
		double v = last && s->c->fault == FAULT_NONE ? NAN : value_of(s, i);

		if (fields[i].width && isfinite(v))
			fprintf(f, " %*.*f", fields[i].width, fields[i].digits, v);
		else if (fields[i].width)
			fprintf(f, " %*s", fields[i].width, "-");
	}
	fprintf(f, "%s\n",
		s->mode == TENT_MODE_DEFAULT && !summary_accepted(s) ? "  over the limit" : "");
}
