/* SPDX-License-Identifier: MIT */
#include "rail.h"

#include <math.h>

static double max(double a, double b)
{
	return a > b ? a : b;
}

static double min(double a, double b)
{
	return a < b ? a : b;
}

/* Sets the sums as if this rate had been measured for RAIL_AVERAGE_NS. */
static void set_rate(struct rail *r, double rate)
{
	r->rate = rate;
	r->sum_busy = RAIL_AVERAGE_NS;
	r->sum_bytes = rate * RAIL_AVERAGE_NS;
}

void rail_init(struct rail *r, const struct sched_rail_attr *attr)
{
	double latency = attr->latency_ns ? (double)attr->latency_ns : RAIL_LATENCY_NS;

	*r = (struct rail){
		.link_rate = attr->rate,
		.base_latency = latency,
		.latency = latency,
		.depth = attr->depth ? attr->depth : 256,
		.group = attr->group,
		.stall_min_ns = attr->stall_min_ns ? attr->stall_min_ns : RAIL_STALL_NS,
		.ewma = attr->rate,
	};
	set_rate(r, attr->rate);
}

double rail_rate(const struct rail *r, uint64_t now)
{
	double doublings, rate;

	if (r->posted || r->rate >= r->link_rate)
		return r->rate;
	doublings = floor((double)(now - r->last_at) / RAIL_STALE_NS);
	rate = r->rate * exp2(min(doublings, 64));
	return min(rate, r->link_rate);
}

/* The time at which the rail began to work on the slice at the head. */
static double head_since(const struct rail *r)
{
	return max((double)r->last_at, (double)r->busy_at + r->latency);
}

double rail_rate_seen(const struct rail *r, uint64_t now, uint64_t head_length)
{
	double rate = rail_rate(r, now), since;

	if (!r->posted || !head_length)
		return rate;
	since = (double)now - head_since(r);
	if (since > 0 && rate * since > (double)head_length)
		return (double)head_length / since;
	return rate;
}

double rail_free_at(const struct rail *r, uint64_t now, double rate)
{
	double at = (double)now + r->latency;

	if (r->posted)
		at = max(at, head_since(r) + (double)r->posted_bytes / rate);
	return at;
}

void rail_posted(struct rail *r, uint64_t now, uint64_t length)
{
	double rate = rail_rate(r, now);

	if (!r->posted) {
		if (rate > r->rate)
			set_rate(r, rate);
		r->busy_at = now;
		r->progress_at = now;
	}
	r->posted++;
	r->posted_bytes += length;
}

void rail_unposted(struct rail *r, uint64_t length)
{
	r->posted--;
	r->posted_bytes -= length;
}

/*
 * A slice takes at least the latency and the time of its bytes at the rate of the link, which gives
 * an upper bound of the latency. Only a slice that was alone on its rail shows whether the latency
 * is longer than estimated: otherwise it overlaps the transfer of the slices before it.
 */
static void learn_latency(struct rail *r, double round_trip, const struct rail_sample *sample)
{
	double most = round_trip - (double)sample->length / r->link_rate;
	double seen = round_trip - (double)sample->length / r->rate;

	if (sample->alone && seen > r->latency)
		r->latency += (seen - r->latency) * RAIL_LATENCY_GAIN;
	most = min(most, RAIL_LATENCY_MAX * r->base_latency);
	r->latency = max(min(r->latency, most), r->base_latency / RAIL_LATENCY_MAX);
}

double rail_learn(struct rail *r, uint64_t now, const struct rail_sample *sample)
{
	double posted_at = (double)sample->posted_at + sample->numa_ns;
	double since = max((double)r->last_at, posted_at + r->latency);
	double busy = (double)now - since, keep;

	/*
	 * The slice was posted on an idle rail: an estimate of the latency that is too long must
	 * not result in a rate that is too high.
	 */
	if (posted_at + r->latency > (double)r->last_at)
		busy = max(busy, (double)sample->length / r->link_rate);
	keep = RAIL_AVERAGE_NS / (RAIL_AVERAGE_NS + busy);
	r->sum_bytes = r->sum_bytes * keep + (double)sample->length;
	r->sum_busy = r->sum_busy * keep + busy;
	r->rate = r->sum_bytes / r->sum_busy;
	learn_latency(r, (double)now - posted_at, sample);
	r->last_at = now;
	r->progress_at = now;
	return busy;
}

void rail_count(struct rail *r, uint64_t length)
{
	r->bytes += length;
	r->slices++;
}

void rail_marked(struct rail *r, uint64_t now)
{
	r->last_at = now;
	r->progress_at = now;
}

void rail_reset(struct rail *r, uint64_t now)
{
	set_rate(r, r->link_rate);
	r->ewma = r->link_rate;
	r->latency = r->base_latency;
	r->last_at = now;
	r->progress_at = now;
	r->full = false;
}
