/* SPDX-License-Identifier: MIT */
/*
 * The conditions of an anomaly. The search begins with a point that has the anomaly, and a healthy
 * one. It exchanges values between them by bisection, and so finds the parameters that bring the
 * anomaly into the healthy point, one after the other (as QuickXplain by U. Junker does for
 * constraints). Then it finds the range, or the set, of values of each. At last it draws points that
 * differ in everything else. If one of them is healthy, the search goes on between it and the
 * anomaly.
 */
#include <string.h>

#include "base/rand.h"
#include "explorer.h"

#define DRAWN 10 /* points, drawn at random, that must have the anomaly */
#define IMPLIED 200 /* points that fit a condition without being asked to, if others imply it */
#define HUNTS 3 /* a wrong decision can leave one without a result */
#define ROUNDS_MAX 60 /* healthy points among them until the conditions are given up */

struct hunt {
	struct explorer *e;
	struct feature_set *f;
	struct point base; /* has the anomaly; a healthy point but for the needed parameters */
	struct point other; /* healthy */
	/*
	 * Values without the anomaly were tried at points that differ from the base in other parameters as
	 * well. Conditions that were not known yet may have been missing there.
	 */
	bool doubt[SPACE_DIMS];
};

static const struct space *space_of(const struct hunt *h)
{
	return h->e->attr->space;
}

static enum answer has_anomaly(struct hunt *h, const struct point *p, const char *what)
{
	return decide(h->e, p, h->f->kind, what, h->e->attr->error, h->e->attr->error);
}

/* ---- exchange ---- */

/*
 * Makes a point with the values of h->base in the parameters of @take, and those of h->other elsewhere.
 * A parameter on which the validity of a taken value depends is taken as well, and marked.
 */
static void mix(const struct hunt *h, bool take[SPACE_DIMS], struct point *p)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			p->at[dim] = take[dim] ? h->base.at[dim] : h->other.at[dim];
		point_settle(space_of(h), p);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			if (take[dim] && p->at[dim] != h->base.at[dim])
				changed |= space_take_parents(dim, take);
		}
	}
}

/*
 * Lists the parameters in which the points differ. Those that decide whether others are valid come
 * last, because they can change the others.
 */
static unsigned differing(const struct point *a, const struct point *b, unsigned list[SPACE_DIMS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < SPACE_DIMS; i++) {
		unsigned dim = i + 1 < SPACE_DIMS ? SPACE_DIRECTION - 1 - i : SPACE_DIRECTION;

		if (a->at[dim] != b->at[dim])
			list[n++] = dim;
	}
	return n;
}

/*
 * Keeps the needed parameters and the first n of the list. take[] gets these, and those on which they
 * depend.
 */
static enum answer has_with(struct hunt *h, const bool needed[SPACE_DIMS], const unsigned *list,
	unsigned n, bool take[SPACE_DIMS])
{
	struct point p;

	memcpy(take, needed, SPACE_DIMS * sizeof(*take));
	for (unsigned i = 0; i < n; i++)
		take[list[i]] = true;
	mix(h, take, &p);
	return has_anomaly(h, &p, "exchange");
}

/*
 * The anomaly comes with list[n]. If the parameters on which that depends bring it as well, they
 * replace it in the list, whose new length is returned; otherwise it is needed.
 */
static unsigned settle_last(struct hunt *h, bool needed[SPACE_DIMS], unsigned *list, unsigned n)
{
	bool with[SPACE_DIMS], without[SPACE_DIMS];
	unsigned last = list[n], more = n;
	struct point p;

	memcpy(with, needed, sizeof(with));
	for (unsigned i = 0; i <= n; i++)
		with[list[i]] = true;
	memcpy(without, with, sizeof(without));
	mix(h, with, &p);
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (with[dim] && !without[dim])
			list[more++] = dim;
	}
	if (more > n && has_with(h, needed, list, more, without) == ANSWER_YES)
		return more;
	needed[last] = true;
	return n;
}

/*
 * Finds parameters of h->base that bring the anomaly into h->other, none of which can be left out.
 * Returns false if the search is over, or nothing certain can be said.
 */
static bool exchange(struct hunt *h, bool needed[SPACE_DIMS])
{
	unsigned list[SPACE_DIMS], n = differing(&h->base, &h->other, list);
	bool take[SPACE_DIMS];
	enum answer seen;

	memset(needed, 0, SPACE_DIMS * sizeof(*needed));
	for (;;) {
		unsigned low = 0, high = n; /* not with low, but with high of them */

		seen = has_with(h, needed, list, 0, take);
		if (seen != ANSWER_NO || !n)
			return seen == ANSWER_YES;
		while (high - low > 1) {
			unsigned middle = low + (high - low) / 2;

			seen = has_with(h, needed, list, middle, take);
			if (seen == ANSWER_NONE)
				return false;
			*(seen == ANSWER_YES ? &high : &low) = middle;
		}
		n = settle_last(h, needed, list, high - 1);
		if (h->e->over)
			return false;
	}
}

/* ---- points that fit the conditions ---- */

/* Does the point have the value, unless @with is SPACE_DIMS, and fit the conditions of all others? */
static bool is_inside(const struct hunt *h, unsigned with, unsigned at, const struct point *p)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		uint16_t values = h->f->values[dim];

		if (dim == with ? p->at[dim] != at : values && !(values >> p->at[dim] & 1))
			return false;
	}
	return true;
}

/* Draws one with at[dim] = value, unless dim is SPACE_DIMS. Returns false if none is valid. */
static bool draw_inside(struct hunt *h, unsigned with, unsigned at, struct point *p)
{
	const uint16_t *values = h->f->values;

	for (int i = 0; i < REDRAW_MAX; i++) {
		point_random(space_of(h), p, &h->e->walk);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			while (values[dim] && !(values[dim] >> p->at[dim] & 1))
				p->at[dim] = (uint8_t)(rand_next(&h->e->walk) %
						       space_values(space_of(h), dim));
		}
		if (with < SPACE_DIMS)
			p->at[with] = (uint8_t)at;
		point_settle(space_of(h), p);
		if (is_inside(h, with, at, p))
			return true;
	}
	return false;
}

/*
 * Spreads the values of each parameter evenly over DRAWN points: those of its condition, or all. So
 * a condition that is missing shows, unless almost all values fit it.
 */
static void spread(struct hunt *h, struct point points[DRAWN])
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		unsigned n = space_values(space_of(h), dim), order[DRAWN], list[16], m = 0;
		double shift = rand_unit(&h->e->walk);

		for (unsigned v = 0; v < n; v++) {
			if (!h->f->values[dim] || h->f->values[dim] >> v & 1)
				list[m++] = v;
		}
		for (unsigned i = 0; i < DRAWN; i++) {
			unsigned j = (unsigned)(rand_next(&h->e->walk) % (i + 1));

			order[i] = order[j];
			order[j] = i;
		}
		for (unsigned i = 0; i < DRAWN; i++)
			points[i].at[dim] =
				(uint8_t)list[(unsigned)((order[i] + shift) * m / DRAWN) % m];
	}
}

/* ---- the values of a parameter ---- */

/*
 * Does the anomaly stay with another value? If the value is not valid in the base, or changes other
 * conditions there, in another point that fits the conditions so far.
 */
static enum answer has_value(struct hunt *h, unsigned dim, unsigned at)
{
	struct point p = h->base, alike = h->base;
	char what[SPACE_NAME];
	enum answer seen;
	bool valid;

	p.at[dim] = (uint8_t)at;
	point_settle(space_of(h), &p);
	valid = p.at[dim] == at;
	for (unsigned d = 0; d < SPACE_DIMS; d++)
		valid &= d == dim || !h->f->values[d] || p.at[d] == h->base.at[d];
	if (!valid && !draw_inside(h, dim, at, &p))
		return ANSWER_NONE;
	space_name(dim, what);
	seen = has_anomaly(h, &p, what);
	alike.at[dim] = (uint8_t)at;
	if (seen != ANSWER_YES && memcmp(&p, &alike, sizeof(p)) != 0)
		h->doubt[dim] = true;
	return seen;
}

/* The last value on one side of @from, up to @end, with which the anomaly stays. */
static unsigned edge(struct hunt *h, unsigned dim, unsigned from, unsigned end)
{
	unsigned in = from, out = end;

	if (from == end || has_value(h, dim, end) == ANSWER_YES)
		return end;
	while (in + 1 < out || out + 1 < in) {
		unsigned middle = (in + out) / 2;

		*(has_value(h, dim, middle) == ANSWER_YES ? &in : &out) = middle;
	}
	return in;
}

/* Finds the values of a parameter. It is no condition if all of them have the anomaly. */
static void find_values(struct hunt *h, unsigned dim)
{
	unsigned n = space_values(space_of(h), dim), at = h->base.at[dim];
	uint16_t *values = &h->f->values[dim];

	*values = (uint16_t)(1u << at);
	if (space_is_ordered(dim)) {
		unsigned low = edge(h, dim, at, 0), high = edge(h, dim, at, n - 1);

		*values = (uint16_t)((2u << high) - (1u << low));
	} else {
		for (unsigned v = 0; v < n; v++) {
			if (v != at && has_value(h, dim, v) == ANSWER_YES)
				*values |= (uint16_t)(1u << v);
		}
	}
	if (*values == (1u << n) - 1)
		*values = 0;
}

/* The value of h->other, though one of the condition's, is not enough there: leaves it out. */
static void narrow(struct hunt *h, unsigned dim)
{
	unsigned at = h->base.at[dim], out = h->other.at[dim];
	uint16_t gone = (uint16_t)(1u << out);

	if (space_is_ordered(dim))
		gone = out < at ? (uint16_t)((2u << out) - 1) : (uint16_t) ~((1u << out) - 1);
	h->f->values[dim] &= (uint16_t)~gone;
}

/* ---- the conditions ---- */

/* Adds what distinguishes h->base from h->other. Returns false if nothing does. */
static bool add_conditions(struct hunt *h)
{
	bool found[SPACE_DIMS], keep[SPACE_DIMS];
	struct point p;

	if (!exchange(h, found) || !memchr(found, true, sizeof(found)))
		return false;
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		keep[dim] = found[dim] || h->f->values[dim];
	mix(h, keep, &p);
	if (has_anomaly(h, &p, "exchange") != ANSWER_YES)
		return false;
	h->base = p;
	for (unsigned dim = 0; dim < SPACE_DIMS && !h->e->over; dim++) {
		if (found[dim] && h->f->values[dim])
			narrow(h, dim);
		else if (found[dim])
			find_values(h, dim);
	}
	return !h->e->over;
}

/*
 * Is the anomaly there with everything else drawn? Otherwise h->other is a healthy point. For a point
 * that cannot be decided another is drawn. ANSWER_NONE: fewer than DRAWN points have been decided.
 */
static enum answer are_enough(struct hunt *h)
{
	struct point points[DRAWN];
	unsigned shown = 0;

	spread(h, points);
	for (unsigned i = 0; i < 2 * DRAWN && shown < DRAWN; i++) {
		enum answer seen = ANSWER_NONE;

		h->other = points[i % DRAWN];
		point_settle(space_of(h), &h->other);
		if ((i < DRAWN && feature_fits(h->f, &h->other)) ||
			draw_inside(h, SPACE_DIMS, 0, &h->other))
			seen = has_anomaly(h, &h->other, "drawn");
		if (h->e->over || seen == ANSWER_NO)
			return h->e->over ? ANSWER_NONE : ANSWER_NO;
		shown += seen == ANSWER_YES;
	}
	return shown == DRAWN ? ANSWER_YES : ANSWER_NONE;
}

static bool has_conditions(const struct feature_set *f)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (f->values[dim])
			return true;
	}
	return false;
}

/*
 * All conditions are known now: tries the values again whose points may have lacked some. Returns true if
 * one of them has the anomaly.
 */
static bool widen(struct hunt *h)
{
	bool wider = false;

	for (unsigned dim = 0; dim < SPACE_DIMS && !h->e->over; dim++) {
		uint16_t was = h->f->values[dim];

		if (!was || !h->doubt[dim])
			continue;
		h->doubt[dim] = false;
		find_values(h, dim);
		if (h->f->values[dim])
			h->f->values[dim] |= was;
		wider |= h->f->values[dim] != was;
	}
	return wider;
}

/* Removes conditions that all valid points fit which fit the others. */
static void remove_implied(struct hunt *h)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		uint16_t values = h->f->values[dim];
		bool implied = values != 0;
		struct point p;

		h->f->values[dim] = 0;
		implied &= has_conditions(h->f);
		for (int i = 0; implied && i < IMPLIED; i++)
			implied = draw_inside(h, SPACE_DIMS, 0, &p) && values >> p.at[dim] & 1;
		h->f->values[dim] = implied ? 0 : values;
	}
}

/* Sets h->other to a healthy point that is drawn. */
static bool draw_healthy(struct hunt *h)
{
	for (int i = 0; i < REDRAW_MAX && !h->e->over; i++) {
		point_random(space_of(h), &h->other, &h->e->walk);
		if (has_anomaly(h, &h->other, "exchange") == ANSWER_NO)
			return true;
	}
	return false;
}

static bool hunt(struct hunt *h)
{
	enum answer enough = ANSWER_NO;

	memset(h->f->values, 0, sizeof(h->f->values));
	memset(h->doubt, 0, sizeof(h->doubt));
	for (int i = 0; i < ROUNDS_MAX && enough == ANSWER_NO; i++) {
		if (!add_conditions(h) || !has_conditions(h->f))
			return false;
		enough = are_enough(h);
		if (enough == ANSWER_YES && widen(h))
			enough = are_enough(h);
	}
	return enough == ANSWER_YES;
}

void find_features(struct explorer *e, struct feature_set *f)
{
	struct hunt h = {.e = e, .f = f, .base = f->point, .other = e->healthy};

	for (int i = 0; i < HUNTS && !f->whole && !e->over; i++) {
		h.base = f->point;
		if (!i || draw_healthy(&h))
			f->whole = hunt(&h);
	}
	if (f->whole)
		remove_implied(&h);
}

/* ---- sets of conditions ---- */

bool feature_fits(const struct feature_set *f, const struct point *p)
{
	bool any = false;

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (f->values[dim] && !(f->values[dim] >> p->at[dim] & 1))
			return false;
		any |= f->values[dim] != 0;
	}
	return any;
}

json_t *features_json(const struct space *s, const struct feature_set *f)
{
	json_t *all = json_object();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char name[SPACE_NAME], value[SPACE_NAME];
		json_t *list = f->values[dim] ? json_array() : NULL;

		for (unsigned at = 0; list && at < space_values(s, dim); at++) {
			space_value(s, dim, at, value);
			if (f->values[dim] >> at & 1)
				json_array_append_new(list, json_string(value));
		}
		space_name(dim, name);
		if (list)
			json_object_set_new(all, name, list);
	}
	return all;
}
