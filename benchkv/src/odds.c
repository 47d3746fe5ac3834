/* SPDX-License-Identifier: MIT */
#include "odds.h"

#include <math.h>

#define MOMENTS 64 /* number of moments of a run over which the average is computed */
#define SINGLE                                                                                     \
	256 /* number of keys that are computed singly, the others in groups of similar popularity */
#define GROWTH 1.1 /* last key of a group / first key of the group */

/* A put that is lost at moment t of the run, in the terms of odds.h. */
struct loss {
	double puts; /* p */
	double before, after; /* operations on the key: b and m */
	double audited; /* probability that the audit reads the key */
};

/* q of odds.h: the probability that one of n parties knows that the remaining value is old. */
static double known(const struct loss *l, double gets, double n)
{
	double both = gets + l->puts, other = 1 - exp(-l->puts * l->before);

	return 1 - other + other / n +
	       (1 - 1 / n) * (other - l->puts / both * (1 - exp(-both * l->before)));
}

/* F(n) of odds.h: the probability that one of n parties finds the loss. */
static double followed(const struct loss *l, double n)
{
	double gets = (1 - l->puts) / n, both = gets + l->puts, none = exp(-both * l->after);

	return known(l, gets, n) * (gets / both * (1 - none) + none * l->audited);
}

/* The probability that the audit finds the loss of a put of a key that is not followed. */
static double unfollowed(const struct loss *l, double clients)
{
	double e = exp(-l->puts * l->before);

	return (e + (1 - e) / clients) * exp(-l->puts * l->after) * l->audited;
}

/* The average over the moments of the run, for a key that gets this share of the operations. */
static double of_key(const struct odds *o, double share, bool is_followed)
{
	double clients = (double)o->ranks * o->clients, ops = share * (double)o->ops, sum = 0;
	double p = 1 - o->load->read_ratio, alone = exp(-p * share * clients * o->depth);

	for (uint32_t i = 0; i < MOMENTS; i++) {
		double t = (i + 0.5) / MOMENTS;
		bool seen = (1 - t) * (double)o->ops <= (double)o->window * clients;
		const struct loss l = {.puts = p,
			.before = ops * t,
			.after = ops * (1 - t),
			.audited = seen ? 1.0 / o->runs : 0};

		sum += is_followed ? alone * followed(&l, o->ranks) +
					     (1 - alone) * followed(&l, clients) :
				     unfollowed(&l, clients);
	}
	return sum / MOMENTS;
}

/*
 * The first key after the group that begins with key @first. A group is one key, or all keys up to
 * GROWTH * @first. It does not mix followed keys with others, or hot keys with others.
 */
static double group_end(const struct odds *o, double first)
{
	double end = first < SINGLE ? first + 1 : ceil(first * GROWTH);
	double hot = (double)workload_hot(o->load);

	if (first <= (double)o->keys && end > (double)o->keys + 1)
		end = (double)o->keys + 1;
	if (o->load->keys == KEYS_HOTSPOT && first <= hot && end > hot + 1)
		end = hot + 1;
	return fmin(end, (double)o->load->key_range + 1);
}

/* The weight of a key in a group: uniform keys have theta 0. */
static double weight(const struct odds *o, double first, double end)
{
	const struct workload *w = o->load;
	double hot = (double)workload_hot(w), cold = (double)w->key_range - hot;

	if (w->keys != KEYS_HOTSPOT)
		return pow((first + end - 1) / 2, -w->zipf_theta);
	return first <= hot ? (cold > 0 ? w->hot_ops : 1) / hot : (1 - w->hot_ops) / cold;
}

/* The average over the keys. */
static double of_keys(const struct odds *o)
{
	double sum = 0, weights = 0, end;

	for (double first = 1; first <= (double)o->load->key_range; first = end) {
		end = group_end(o, first);
		weights += (end - first) * weight(o, first, end);
	}
	for (double first = 1; first <= (double)o->load->key_range; first = end) {
		double share;

		end = group_end(o, first);
		share = weight(o, first, end) / weights;
		sum += (end - first) * share * of_key(o, share, first <= (double)o->keys);
	}
	return sum;
}

bool odds_known(const struct workload *load)
{
	return !load->rmw && (load->keys == KEYS_DRAWN || load->keys == KEYS_HOTSPOT);
}

double odds_one(const struct odds *o)
{
	if (!o->ops || o->load->read_ratio >= 1)
		return 0;
	return of_keys(o);
}

double odds_rate(const struct odds *o, double rate)
{
	double puts = (1 - o->load->read_ratio) * (double)o->ops * o->runs;

	return 1 - exp(puts * log1p(-rate * odds_one(o)));
}
