/* SPDX-License-Identifier: MIT */
#include "odds.h"

#include <math.h>

#define MOMENTS 64 /* of a run, over which the average is taken */
#define SINGLE 256 /* keys that are looked at one by one; others in groups of like popularity */
#define GROWTH 1.1 /* from one group to the next */

/* What of the formula depends on the key. */
struct key {
	double ops; /* of a run */
	double meanwhile; /* v */
	bool followed;
};

static double at_moment(const struct odds *o, const struct key *k, double t)
{
	double p = 1 - o->load->read_ratio, a = (1 - p) / o->ranks, clients = o->ranks * o->clients;
	double after = k->ops * (1 - t), first = a / (a + p), e = exp(-p * k->ops * t);
	double seen = (1 - t) * (double)o->ops <= (double)o->window * clients ? 1.0 / o->runs : 0;
	double known = k->meanwhile * (1.0 / o->ranks + (1 - 1.0 / o->ranks) * first);
	double none = exp(-(a + p) * after);

	if (!k->followed)
		return (e + (1 - e) / clients) * exp(-p * after) * seen;
	return (e + (1 - e) * known) * (k->meanwhile * first * (1 - none) + none * seen);
}

/* The average over the run of a key that gets this share of the operations. */
static double of_key(const struct odds *o, double share, bool followed)
{
	double p = 1 - o->load->read_ratio, under_way = (double)o->ranks * o->clients * o->depth;
	struct key k = {.ops = share * (double)o->ops,
		.meanwhile = exp(-p * share * under_way),
		.followed = followed};
	double sum = 0;

	for (uint32_t i = 0; i < MOMENTS; i++)
		sum += at_moment(o, &k, (i + 0.5) / MOMENTS);
	return sum / MOMENTS;
}

static double uniform(const struct odds *o)
{
	double range = (double)o->load->key_range, followed = (double)o->keys / range;

	return followed * of_key(o, 1 / range, true) + (1 - followed) * of_key(o, 1 / range, false);
}

/*
 * The next group: one key, or those up to GROWTH times the first, but none that is followed with
 * one that is not.
 */
static double group_end(const struct odds *o, double first)
{
	double end = first < SINGLE ? first + 1 : ceil(first * GROWTH);

	if (first <= (double)o->keys && end > (double)o->keys + 1)
		end = (double)o->keys + 1;
	return fmin(end, (double)o->load->key_range + 1);
}

static double zipf(const struct odds *o)
{
	double sum = 0, weights = 0, end;

	for (double first = 1; first <= (double)o->load->key_range; first = end) {
		end = group_end(o, first);
		weights += (end - first) * pow((first + end - 1) / 2, -o->load->zipf_theta);
	}
	for (double first = 1; first <= (double)o->load->key_range; first = end) {
		double share;

		end = group_end(o, first);
		share = pow((first + end - 1) / 2, -o->load->zipf_theta) / weights;
		sum += (end - first) * share * of_key(o, share, first <= (double)o->keys);
	}
	return sum;
}

double odds_one(const struct odds *o)
{
	if (!o->ops || o->load->read_ratio >= 1)
		return 0;
	return o->load->zipf_theta > 0 ? zipf(o) : uniform(o);
}

double odds_rate(const struct odds *o, double rate)
{
	double puts = (1 - o->load->read_ratio) * (double)o->ops * o->runs;

	return 1 - exp(puts * log1p(-rate * odds_one(o)));
}
