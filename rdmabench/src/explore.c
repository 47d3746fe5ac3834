/* SPDX-License-Identifier: MIT */
#include "explore.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define WARM_UP 8 /* random points before each descent of the temperature */
#define T_START .05 /* temperatures as a share of the energies' spread in the warm-up */
#define T_FACTOR .99 /* per try */
#define CHANGES_MAX 24 /* parameters changed at once at a high temperature */
#define STALE_MAX 60 /* tries without a better point until the descent begins again */
#define REDRAW_MAX 1000 /* draws for a point without the features of a known anomaly */

const char *const explore_methods[] = {"random", "sample", "anneal", NULL};

struct explorer {
	const struct explore_attr *attr;
	explore_fn *fn;
	void *arg;
	struct explore_result *r;
	uint64_t rand;
	bool over;
	uint8_t *sample; /* tries x SPACE_DIMS, for EXPLORE_SAMPLE */
	/* State of annealing. */
	struct point current;
	double energy, t_start, temperature;
	double best, low; /* the best energy of this descent; the lowest energy of the warm-up */
	uint32_t warm, stale;
};

bool anneal_accepts(double from, double to, double temperature, uint64_t *rand)
{
	double chance = rand_unit(rand);

	return to >= from || (temperature > 0 && chance < exp((to - from) / temperature));
}

/* ---- feature sets ---- */

static bool has_features(const struct feature_set *f, const struct point *p)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (f->needed[dim] && f->point.at[dim] != p->at[dim])
			return false;
	}
	return true;
}

/* A set without any feature fits every point, so it excludes none. */
static bool is_empty(const struct feature_set *f)
{
	return !memchr(f->needed, true, sizeof(f->needed));
}

json_t *features_json(const struct feature_set *f)
{
	json_t *list = json_array();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char name[SPACE_NAME];

		space_name(dim, name);
		if (f->needed[dim])
			json_array_append_new(list, json_string(name));
	}
	return list;
}

static bool is_known(const struct explorer *e, const struct point *p)
{
	for (uint32_t i = 0; i < e->r->n; i++) {
		if (!is_empty(&e->r->found[i]) && has_features(&e->r->found[i], p))
			return true;
	}
	return false;
}

/* Returns true if the same anomaly is there, and also if the point cannot be measured. */
static bool still_there(struct explorer *e, uint32_t anomaly, unsigned dim, const struct point *p)
{
	struct explore_ask ask = {PURPOSE_FEATURE, anomaly, dim, p};
	struct measure m;
	int err = e->fn(e->arg, &ask, &m);
	bool there;

	e->over = e->over || err == -ECANCELED;
	if (err)
		return true;
	there = measure_judge(&m, &e->attr->rules) == e->r->found[anomaly].kind;
	json_decref(m.counters);
	return there;
}

/* Changes each parameter to its first and to its last value. */
static void find_features(struct explorer *e, uint32_t anomaly)
{
	struct feature_set *f = &e->r->found[anomaly];

	for (unsigned dim = 0; dim < SPACE_DIMS && !e->over; dim++) {
		const unsigned ends[] = {0, space_values(dim) - 1};

		if (!point_uses(&f->point, dim) || e->attr->fixed.on[dim])
			continue;
		for (int i = 0; i < 2 && !f->needed[dim]; i++) {
			struct point p = f->point;

			p.at[dim] = (uint8_t)ends[i];
			point_settle(&p);
			if (!point_equal(&p, &f->point))
				f->needed[dim] = !still_there(e, anomaly, dim, &p);
		}
	}
}

static void note_anomaly(struct explorer *e, const struct point *p, enum anomaly kind)
{
	struct explore_result *r = e->r;

	r->found[r->n] = (struct feature_set){.point = *p, .kind = kind};
	r->found_at[r->n++] = r->tries;
	if (e->attr->features && !r->blunt[-kind]) {
		find_features(e, r->n - 1);
		r->blunt[-kind] = !e->over && is_empty(&r->found[r->n - 1]);
	}
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
			e->sample[(size_t)i * SPACE_DIMS + dim] = (uint8_t)(i % space_values(dim));
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
	e->best = e->energy = -1;
	e->low = INFINITY;
}

static void changed_point(struct explorer *e, struct point *p)
{
	double heat = e->t_start > 0 ? e->temperature / e->t_start : 0;
	unsigned changes = 1 + (unsigned)(rand_unit(&e->rand) * CHANGES_MAX * heat);

	*p = e->current;
	for (int i = 0; i < REDRAW_MAX && point_equal(p, &e->current); i++) {
		for (unsigned k = 0; k < changes; k++)
			point_mutate(p, &e->rand);
		fixed_apply(&e->attr->fixed, p);
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

static void anneal(struct explorer *e, const struct point *p, double energy)
{
	if (e->warm < WARM_UP) {
		warm_up(e, p, energy);
		return;
	}
	if (anneal_accepts(e->energy, energy, e->temperature, &e->rand)) {
		e->r->accepted_worse += energy < e->energy;
		e->energy = energy;
		e->current = *p;
	} else {
		e->r->rejected++;
	}
	e->temperature *= T_FACTOR;
	e->stale = energy > e->best ? 0 : e->stale + 1;
	e->best = energy > e->best ? energy : e->best;
	if (e->stale == STALE_MAX)
		begin_again(e);
}

/* ---- the search ---- */

static void draw(struct explorer *e, struct point *p)
{
	if (e->attr->method == EXPLORE_ANNEAL && e->warm == WARM_UP)
		changed_point(e, p);
	else
		point_random(p, &e->rand);
	fixed_apply(&e->attr->fixed, p);
}

static void next_point(struct explorer *e, struct point *p)
{
	if (e->attr->method == EXPLORE_SAMPLE) {
		memcpy(p->at, e->sample + (size_t)e->r->tries * SPACE_DIMS, SPACE_DIMS);
		fixed_apply(&e->attr->fixed, p);
		return;
	}
	draw(e, p);
	for (int i = 0; i < REDRAW_MAX && is_known(e, p); i++)
		draw(e, p);
}

static void try_point(struct explorer *e)
{
	struct explore_ask ask = {.purpose = PURPOSE_TRY};
	enum anomaly kind;
	struct measure m;
	struct point p;
	int err;

	next_point(e, &p);
	ask.point = &p;
	err = e->fn(e->arg, &ask, &m);
	if (err == -ECANCELED) {
		e->over = true;
		return;
	}
	e->r->tries++;
	if (err) {
		e->r->failures++;
		return;
	}
	kind = measure_judge(&m, &e->attr->rules);
	if (kind != ANOMALY_NONE && !is_known(e, &p)) {
		note_anomaly(e, &p, kind);
		begin_again(e);
	} else if (e->attr->method == EXPLORE_ANNEAL) {
		anneal(e, &p, measure_energy(&m, &e->attr->rules));
	}
	json_decref(m.counters);
}

int explore(const struct explore_attr *attr, explore_fn *fn, void *arg,
	struct explore_result *result_p)
{
	struct explorer e = {.attr = attr, .fn = fn, .arg = arg, .r = result_p, .rand = attr->seed};

	*result_p = (struct explore_result){0};
	begin_again(&e);
	if (attr->method == EXPLORE_SAMPLE && make_sample(&e))
		return -ENOMEM;
	while (!e.over && e.r->tries < attr->tries)
		try_point(&e);
	free(e.sample);
	return 0;
}
