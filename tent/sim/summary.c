/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

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

/* The 97.5 % quantile of Student's t for n - 1 degrees of freedom; from 30 on of the normal. */
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

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
	qsort(s->slice_ns.v, s->slice_ns.n, sizeof(double), compare);
	qsort(s->request_ns.v, s->request_ns.n, sizeof(double), compare);
	return err;
}

void summary_fini(struct summary *s)
{
	samples_fini(&s->slice_ns);
	samples_fini(&s->request_ns);
}

/* Nearest rank of sorted samples, in us. */
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

static void json_number(FILE *f, const char *key, double v)
{
	if (isfinite(v))
		fprintf(f, ", \"%s\": %.6g", key, v);
	else
		fprintf(f, ", \"%s\": null", key);
}

static void json_quantiles(FILE *f, const char *what, const struct samples *s)
{
	static const struct {
		const char *name;
		double q;
	} rows[] = {{"p50", .5}, {"p99", .99}, {"p999", .999}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char key[40];

		snprintf(key, sizeof(key), "%s_%s_us", rows[i].name, what);
		json_number(f, key, quantile_us(s, rows[i].q));
	}
}

static double worst(const struct figure *f)
{
	return f->n ? f->worst : NAN;
}

void summary_json(const struct summary *s, FILE *f)
{
	fprintf(f, "{\"case\": \"%s\", \"mode\": \"%s\", \"default\": %s, \"seeds\": %" PRIu32,
		s->c->name, config_mode_name(s->mode),
		s->mode == TENT_MODE_DEFAULT ? "true" : "false", s->seeds);
	json_number(f, "makespan_ratio", figure_mean(&s->ratio));
	json_number(f, "makespan_ratio_ci95", figure_ci95(&s->ratio));
	json_number(f, "makespan_ratio_max", s->ratio.worst);
	json_number(f, "accept_ratio_max", accept_ratio(s));
	json_number(f, "accept_limit", accept_limit(s));
	json_number(f, "single_ratio_max", worst(&s->single));
	fprintf(f, ", \"accepted\": %s", summary_accepted(s) ? "true" : "false");
	json_number(f, "makespan_ms", figure_mean(&s->makespan));
	json_quantiles(f, "slice", &s->slice_ns);
	json_quantiles(f, "request", &s->request_ns);
	json_number(f, "adapt_ms", worst(&s->adapt));
	json_number(f, "remote_share_excess", figure_mean(&s->remote_excess));
	json_number(f, "recovery_ms", worst(&s->recovery));
	json_number(f, "duplicate_bytes", s->duplicate.worst);
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

/* Prints a column; a dash if the case has no such value. */
static void column(FILE *f, int width, int digits, double v)
{
	if (isfinite(v))
		fprintf(f, " %*.*f", width, digits, v);
	else
		fprintf(f, " %*s", width, "-");
}

void summary_line(const struct summary *s, FILE *f)
{
	fprintf(f, "%-15s %-8s", s->c->name, config_mode_name(s->mode));
	column(f, 9, 3, figure_mean(&s->ratio));
	column(f, 6, 3, figure_ci95(&s->ratio));
	column(f, 7, 3, worst(&s->single));
	column(f, 6, 1, quantile_us(&s->slice_ns, .5));
	column(f, 6, 1, quantile_us(&s->slice_ns, .99));
	column(f, 7, 1, quantile_us(&s->slice_ns, .999));
	column(f, 8, 1, quantile_us(&s->request_ns, .5));
	column(f, 8, 1, quantile_us(&s->request_ns, .99));
	column(f, 9, 1, quantile_us(&s->request_ns, .999));
	column(f, 7, 2, worst(&s->adapt));
	column(f, 7, 3, figure_mean(&s->remote_excess));
	column(f, 9, 3, worst(&s->recovery));
	column(f, 10, 0, s->c->fault == FAULT_NONE ? NAN : s->duplicate.worst);
	fprintf(f, "%s\n",
		s->mode == TENT_MODE_DEFAULT && !summary_accepted(s) ? "  over the limit" : "");
}
