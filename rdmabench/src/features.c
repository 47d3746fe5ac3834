/* SPDX-License-Identifier: MIT */
/*
 * The conditions of an anomaly. The search begins with a point that has the anomaly, and a healthy
 * one, which has no anomaly. It exchanges values between them by bisection, and so finds, one after
 * the other, the parameters whose values bring the anomaly into the healthy point (as QuickXplain
 * by U. Junker does for constraints). Then it finds the range, or the set, of values of each of
 * these parameters. Finally it draws points that differ in all other parameters. If one of them is
 * healthy, the search continues between this point and the point with the anomaly.
 */
#include <string.h>

#include "base/rand.h"
#include "explorer.h"

#define DRAWN 10 /* points, drawn at random, that must have the anomaly */
#define IMPLIED 200 /* a condition that so many drawn points fit is implied by the others */
#define HUNTS 3 /* hunts for one anomaly; a wrong decision can end a hunt without a result */
#define ROUNDS_MAX 60 /* rounds of a hunt; each begins with a healthy point */

/* An attempt to find the conditions of an anomaly. */
struct hunt {
	struct explorer *e;
	struct feature_set *f;
	/* Has the anomaly. After add_conditions() only needed parameters differ from `other`. */
	struct point base;
	struct point other; /* healthy */
	/*
	 * Values of this parameter were tried without finding the anomaly, at points that differ
	 * from the base in other parameters as well. These points may have violated conditions that
	 * were not known yet.
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
 * Makes a point with the values of h->base in the parameters that @take marks, and those of
 * h->other in all others. If the validity of a taken value depends on a parameter, this parameter
 * is taken as well, and marked in @take.
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
 * Measures a point with the values of h->base in the needed parameters and in the first n of the
 * list. Marks these in take[], and those on which they depend.
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
 * The anomaly appears when list[n] is exchanged in addition to the parameters before it. If it also
 * appears with the parameters on which list[n] depends instead, they replace list[n]; otherwise
 * list[n] is marked as needed. Returns the new length of the list.
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
 * Returns false if the search is over, or if measurements do not allow a decision.
 */
static bool exchange(struct hunt *h, bool needed[SPACE_DIMS])
{
	unsigned list[SPACE_DIMS], n = differing(&h->base, &h->other, list);
	bool take[SPACE_DIMS];
	enum answer seen;

	memset(needed, 0, SPACE_DIMS * sizeof(*needed));
	for (;;) {
		/* With the first `low` of the list the point is healthy, with `high` it is not. */
		unsigned low = 0, high = n;

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

/*
 * Returns true if the parameter @with has the value @at, and all others fit their conditions. If
 * @with is SPACE_DIMS, all parameters must fit.
 */
static bool is_inside(const struct hunt *h, unsigned with, unsigned at, const struct point *p)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		uint16_t values = h->f->values[dim];

		if (dim == with ? p->at[dim] != at : values && !(values >> p->at[dim] & 1))
			return false;
	}
	return true;
}

/* Draws a point for which is_inside() is true. Returns false if no valid one is found. */
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
 * Spreads the values of each parameter evenly over DRAWN points: the values of its condition, or
 * all values if it has none. So a missing condition is noticed, unless almost all values fit it.
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
 * Decides whether the anomaly stays with another value of a parameter. If this value is not valid
 * in the base, or changes parameters that have conditions, another point is measured that fits the
 * conditions so far.
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

/* Returns the value farthest from @from, in the direction of @end, with which the anomaly stays. */
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

/*
 * Finds the values of a parameter with which the anomaly stays. If it stays with all of them, the
 * parameter has no condition.
 */
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

/*
 * Removes the value of h->other from the parameter's condition, because h->other is healthy with
 * it. If the values are ordered, also removes those beyond it.
 */
static void narrow(struct hunt *h, unsigned dim)
{
	unsigned at = h->base.at[dim], out = h->other.at[dim];
	uint16_t gone = (uint16_t)(1u << out);

	if (space_is_ordered(dim))
		gone = out < at ? (uint16_t)((2u << out) - 1) : (uint16_t) ~((1u << out) - 1);
	h->f->values[dim] &= (uint16_t)~gone;
}

/* ---- the conditions ---- */

/* Adds the conditions that distinguish h->base from h->other. Returns false if none are found. */
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
 * Decides whether the conditions are sufficient: whether DRAWN points that fit them, and are
 * otherwise drawn at random, all have the anomaly. For a point that cannot be decided another one
 * is drawn. After ANSWER_NO, h->other is a healthy point. ANSWER_NONE: fewer than DRAWN points were
 * decided.
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
 * Finds the values of the parameters in h->doubt again, because all conditions are known now.
 * Returns true if a condition allows more values than before.
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

/*
 * Removes conditions that follow from the others: all valid points that fit the others fit them,
 * too.
 */
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

/* Draws points until one is healthy, and stores it in h->other. Returns false if none is found. */
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
