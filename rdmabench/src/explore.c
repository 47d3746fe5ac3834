/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "explorer.h"

#define WARM_UP 8 /* random points before each descent of the temperature */
#define T_START .05 /* first temperature, as a share of the energies' spread in the warm-up */
#define T_FACTOR .99 /* per step of annealing */
#define CHANGES_MAX 24 /* parameters changed at once at a high temperature */
#define STALE_MAX 60 /* tries without a better point until the descent begins again */
#define SHARE .2 /* tries of annealing for each random one */

const char *const explore_methods[] = {"random", "sample", "anneal", "mixed", NULL};

bool anneal_accepts(double from, double to, double temperature, uint64_t *rand)
{
	double chance = rand_unit(rand);

	return to >= from || (temperature > 0 && chance < exp((to - from) / temperature));
}

/* ---- anomalies ---- */

/*
 * Returns true if the point has an anomaly that was found. If a set was not shown to be sufficient
 * (!f->whole), points of other anomalies may fit it, so only f->point itself is known.
 */
static bool is_known(const struct explorer *e, const struct point *p)
{
	for (uint32_t i = 0; i < e->r->n; i++) {
		const struct feature_set *f = &e->r->found[i];

		if ((f->whole && feature_fits(f, p)) || point_equal(&f->point, p))
			return true;
	}
	return false;
}

/*
 * Measures a point again whose first measurement had an anomaly. Such a point, number i, may be a
 * false anomaly with probability error / (i * (i + 1)). The sum of all these is at most the error.
 */
static bool is_certain(struct explorer *e, const struct point *p, enum anomaly kind)
{
	double i = ++e->candidates;

	e->next = (struct explore_ask){.purpose = PURPOSE_AGAIN, .of = e->r->tries - 1};
	decide_healthy(e);
	return decide(e, p, kind, "again", e->attr->error / (i * (i + 1)), e->attr->error) ==
	       ANSWER_YES;
}

static void note_anomaly(struct explorer *e, const struct point *p, enum anomaly kind)
{
	struct explore_result *r = e->r;
	struct feature_set *f = &r->found[r->n];

	*f = (struct feature_set){.point = *p, .kind = kind};
	r->found_at[r->n] = r->tries;
	e->next = (struct explore_ask){.purpose = PURPOSE_FEATURE, .of = r->n};
	if (e->attr->features && !e->has_healthy)
		r->blunt[-kind] = true;
	else if (e->attr->features)
		find_features(e, f);
	r->n++;
	if (r->n == EXPLORE_ANOMALIES || r->n == e->attr->anomalies)
		e->over = true;
}

/* ---- sample ---- */

/* Makes a shuffled list per parameter in which all values are equally frequent. */
static int make_sample(struct explorer *e)
{
	uint32_t n = e->attr->tries;

	e->sample = malloc((size_t)n * SPACE_DIMS);
	if (!e->sample)
		return -ENOMEM;
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		for (uint32_t i = 0; i < n; i++)
			e->sample[(size_t)i * SPACE_DIMS + dim] =
				(uint8_t)(i % space_values(e->attr->space, dim));
		for (uint32_t i = n; i > 1; i--) {
			uint32_t other = (uint32_t)(rand_unit(&e->rand) * i);
			uint8_t *a = &e->sample[(size_t)(i - 1) * SPACE_DIMS + dim];
			uint8_t *b = &e->sample[(size_t)other * SPACE_DIMS + dim], swap = *a;

			*a = *b;
			*b = swap;
		}
	}
	return 0;
}

/* ---- annealing ---- */

static void begin_again(struct explorer *e)
{
	e->warm = e->stale = 0;
	e->credit = 0;
	e->best = e->energy = -1;
	e->low = INFINITY;
}

static void changed_point(struct explorer *e, struct point *p)
{
	double heat = e->t_start > 0 ? e->temperature / e->t_start : 0;
	unsigned changes = 1 + (unsigned)(rand_unit(&e->walk) * CHANGES_MAX * heat);

	*p = e->current;
	for (int i = 0; i < REDRAW_MAX && point_equal(p, &e->current); i++) {
		for (unsigned k = 0; k < changes; k++)
			point_mutate(e->attr->space, p, &e->walk);
	}
}

static void warm_up(struct explorer *e, const struct point *p, double energy)
{
	if (energy > e->energy) {
		e->energy = energy;
		e->current = *p;
	}
	e->low = energy < e->low ? energy : e->low;
	if (++e->warm < WARM_UP)
		return;
	e->best = e->energy;
	e->t_start = e->temperature = T_START * (e->energy - e->low);
}

/* Makes a step of annealing: accepts the point that was measured, or stays at the current one. */
static void step(struct explorer *e, const struct point *p, double energy)
{
	if (anneal_accepts(e->energy, energy, e->temperature, &e->walk)) {
		e->r->accepted_worse += energy < e->energy;
		e->energy = energy;
		e->current = *p;
	} else {
		e->r->rejected++;
	}
	e->temperature *= T_FACTOR;
	e->credit--;
	e->stale = energy > e->best ? 0 : e->stale + 1;
	e->best = energy > e->best ? energy : e->best;
	if (e->stale == STALE_MAX)
		begin_again(e);
}

/* Updates the state of annealing with a point that has no anomaly. */
static void anneal(struct explorer *e, const struct point *p, double energy)
{
	if (!e->walking)
		e->credit += SHARE;
	if (e->warm < WARM_UP) {
		warm_up(e, p, energy);
	} else if (e->walking) {
		step(e, p, energy);
	} else if (energy > e->best) {
		e->best = e->energy = energy;
		e->current = *p;
	}
}

/* ---- the search ---- */

static void draw(struct explorer *e, struct point *p)
{
	enum explore_method method = e->attr->method;

	e->walking = e->warm == WARM_UP &&
		     (method == EXPLORE_ANNEAL || (method == EXPLORE_MIXED && e->credit >= 1));
	if (e->walking)
		changed_point(e, p);
	else
		point_random(e->attr->space, p, &e->rand);
}

static void next_point(struct explorer *e, struct point *p)
{
	if (e->attr->method == EXPLORE_SAMPLE) {
		memcpy(p->at, e->sample + (size_t)e->r->tries * SPACE_DIMS, SPACE_DIMS);
		point_settle(e->attr->space, p);
		return;
	}
	draw(e, p);
	for (int i = 0; i < REDRAW_MAX && is_known(e, p); i++)
		draw(e, p);
}

/* Measures a point for the first time. Returns false if it cannot be measured. */
static bool measure_try(struct explorer *e, const struct point *p, struct measure *m)
{
	struct explore_ask ask = {.purpose = PURPOSE_TRY, .point = p};
	int err = explorer_measure(e, &ask, m);

	e->r->tries += err != -ECANCELED;
	e->r->failures += err && err != -ECANCELED;
	return !err;
}

static void try_point(struct explorer *e)
{
	enum anomaly kind;
	struct measure m;
	struct point p;
	double energy;

	next_point(e, &p);
	if (!measure_try(e, &p, &m))
		return;
	kind = measure_judge(&m, &e->attr->rules);
	energy = measure_energy(&m, &e->attr->rules);
	json_decref(m.counters);
	if (kind == ANOMALY_NONE) {
		if (!e->has_healthy) {
			e->healthy = p;
			e->maybe_healthy = true;
		}
		anneal(e, &p, energy);
	} else if (!is_known(e, &p)) {
		if (is_certain(e, &p, kind)) {
			note_anomaly(e, &p, kind);
			begin_again(e);
		} else {
			e->r->refuted++;
		}
	}
}

int explore(const struct explore_attr *attr, explore_fn *fn, void *arg,
	struct explore_result *result_p)
{
	struct explorer e = {.attr = attr,
		.r = result_p,
		.rand = attr->seed,
		.walk = ~attr->seed,
		.fn = fn,
		.arg = arg};

	*result_p = (struct explore_result){0};
	begin_again(&e);
	if (attr->method == EXPLORE_SAMPLE && make_sample(&e))
		return -ENOMEM;
	while (!e.over && e.r->tries < attr->tries)
		try_point(&e);
	free(e.sample);
	return 0;
}
