/* SPDX-License-Identifier: MIT */
#include "bound.h"

#include <math.h>

#define FOR_EVER 1e15 /* ns: eleven days */

/* The sums of the rates of a group's local rails and of its remote rails, at one time. */
struct load {
	double local, remote;
};

/* The number of steps at or before this time. */
static uint32_t steps_by(const struct bound_rail *r, double at)
{
	uint32_t low = 0, high = r->n_steps;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (r->steps[mid].at > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/*
 * Returns the rate of a group, at most @most. Adds the remote part of it to *remote_p. This part is
 * the least possible, because the local rails are used first.
 */
static double add_load(const struct load *l, double most, double *remote_p)
{
	double local = fmin(l->local, most), all = fmin(l->local + l->remote, most);

	*remote_p += all - local;
	return all;
}

/*
 * Returns the total rate at time @at. Leaves out the rails with a latency so long that bytes sent
 * at @at would complete after @until.
 */
static double rate_of_all(const struct bound *b, double at, double until, double *remote_p)
{
	struct load groups[BOUND_GROUPS] = {0};
	double sum = 0;

	*remote_p = 0;
	for (uint32_t i = 0; i < b->n_rails; i++) {
		const struct bound_rail *r = &b->rails[i];
		double rate = at <= until - r->latency ? r->steps[steps_by(r, at) - 1].rate : 0;
		struct load alone = {r->remote ? 0 : rate, r->remote ? rate : 0};

		if (r->group == BOUND_NO_GROUP) {
			sum += add_load(&alone, INFINITY, remote_p);
		} else {
			groups[r->group].local += alone.local;
			groups[r->group].remote += alone.remote;
		}
	}
	for (uint32_t g = 0; g < BOUND_GROUPS; g++)
		sum += add_load(&groups[g], b->group_rates[g], remote_p);
	return sum;
}

/*
 * Returns the next time after @at at which rate_of_all() changes: a rail's rate changes, or bytes
 * that a rail sends later would complete after @until. At most @until.
 */
static double next_change(const struct bound *b, double at, double until)
{
	double next = until;

	for (uint32_t i = 0; i < b->n_rails; i++) {
		const struct bound_rail *r = &b->rails[i];
		uint32_t n = steps_by(r, at);

		if (until - r->latency > at)
			next = fmin(next, until - r->latency);
		if (n < r->n_steps)
			next = fmin(next, r->steps[n].at);
	}
	return next;
}

double bound_bytes(const struct bound *b, double from, double span, double *remote_p)
{
	double at = from, until = from + span, bytes = 0, remote;

	*remote_p = 0;
	while (at < until) {
		double next = next_change(b, at, until);
		double rate = rate_of_all(b, (at + next) / 2, until, &remote);

		bytes += rate * (next - at);
		*remote_p += remote * (next - at);
		at = next;
	}
	return bytes;
}

double bound_time(const struct bound *b, double from, double bytes)
{
	double low = 0, high = 1, remote;

	while (bound_bytes(b, from, high, &remote) < bytes) {
		low = high;
		high *= 2;
		if (high > FOR_EVER)
			return INFINITY;
	}
	while (high - low > 1e-9 * high) {
		double mid = (low + high) / 2;

		if (bound_bytes(b, from, mid, &remote) < bytes)
			low = mid;
		else
			high = mid;
	}
	return high;
}

double bound_remote_share(const struct bound *b, double from, double bytes)
{
	double remote, all = bound_bytes(b, from, bound_time(b, from, bytes), &remote);

	return remote / all;
}

double bound_rate(const struct bound *b, double at, double span)
{
	double remote;

	return rate_of_all(b, at, at + span, &remote);
}
