/* SPDX-License-Identifier: MIT */
/* Modes baseline and smart choose a rail for each slice at submit. */
#include <assert.h>

#include "base/rand.h"
#include "sched_priv.h"

#define PROBE_EVERY 100

/*
 * Counts slices as the published scheduler (see defects.h) does: it rounds the block length up, so
 * the last slices may be empty.
 */
static uint64_t defective_count(uint64_t length, uint32_t max_slices)
{
	uint64_t n = (length + PLAN_GRANULE - 1) / PLAN_GRANULE;

	return n < max_slices ? n : max_slices;
}

uint64_t bind_count(const struct plan *p, uint32_t max_slices)
{
	if (DEFECTS)
		return defective_count(p->length, max_slices);
	return plan_count(p, plan_block(p->length, max_slices));
}

static uint32_t next_in_turn(struct sched *s, uint32_t location, uint8_t tier)
{
	for (uint32_t i = 0; i < s->n_rails; i++) {
		uint32_t r = s->round_robin;

		s->round_robin = (r + 1) % s->n_rails;
		if (sched_usable(s, location, r) &&
			(tier == TENT_TIERS || sched_tier(s, location, r) == tier))
			return r;
	}
	return NO_RAIL;
}

/* Finds the best tier with a usable rail. Each call returns the next rail of this tier. */
static uint32_t baseline_pick(struct sched *s, uint32_t location)
{
	uint8_t best = TENT_TIERS;

	for (uint32_t r = 0; r < s->n_rails; r++) {
		if (sched_usable(s, location, r) && sched_tier(s, location, r) < best)
			best = sched_tier(s, location, r);
	}
	return best == TENT_TIERS ? NO_RAIL : next_in_turn(s, location, best);
}

static uint32_t smart_scores(struct sched *s, uint32_t location, uint64_t length,
	struct score scores[SCHED_MAX_RAILS])
{
	const struct tent_config *c = &s->config;
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n_rails; r++) {
		const struct rail *rail = &s->rails[r];
		double value;

		if (!sched_usable(s, location, r))
			continue;
		/* rail->ewma is in bytes per ns; the score and the jitter are in seconds. */
		value = score_value(rail->inflight, length, rail->ewma * 1e9,
			c->numa_penalties[sched_tier(s, location, r)]);
		value += rand_unit(&s->random) * c->score_jitter_range;
		scores[n++] = (struct score){value, r};
	}
	return n;
}

/*
 * True: this decision ignores the scores and uses the rails in turn, so that rails that seem to be
 * slow are measured again.
 */
static bool probe_turn(struct sched *s)
{
	return ++s->calls % PROBE_EVERY == 0;
}

static uint32_t best_score(const struct score *scores, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++) {
		if (score_before(&scores[i], &scores[best]))
			best = i;
	}
	return best;
}

static uint32_t smart_pick(struct sched *s, uint32_t location, uint64_t length)
{
	struct score scores[SCHED_MAX_RAILS];
	uint32_t n;

	if (!DEFECTS && probe_turn(s))
		return next_in_turn(s, location, TENT_TIERS);
	n = smart_scores(s, location, length, scores);
	return n ? scores[best_score(scores, n)].rail : NO_RAIL;
}

static uint32_t pick(struct sched *s, uint32_t location, uint64_t length)
{
	if (s->config.mode == TENT_BASELINE)
		return baseline_pick(s, location);
	return smart_pick(s, location, length);
}

static void bind(struct sched *s, uint32_t id, uint32_t rail, uint64_t charge)
{
	uint32_t priority = slice_priority(s, id);

	ledger_charge(s, id, rail, charge);
	list_append(s, sched_bound(s, rail, priority), id);
	class_grow(s, priority, 1);
}

void bind_undo(struct sched *s, uint32_t id)
{
	uint32_t priority = slice_priority(s, id);

	list_remove(s, sched_bound(s, s->slices[id].rail, priority), id);
	class_shrink(s, priority, 1);
	ledger_release(s, id);
}

void bind_again(struct sched *s, uint32_t id)
{
	const struct slice *sl = &s->slices[id];
	uint32_t rail = pick(s, s->requests[sl->request].location, sl->length);

	if (rail == NO_RAIL)
		slice_wait(s, id);
	else
		bind(s, id, rail, sl->length);
}

/* One decision for all slices of a request: the first share[0] go to rail[0], and so on. */
struct bulk {
	uint32_t rail[SCHED_MAX_RAILS], share[SCHED_MAX_RAILS];
	uint32_t n, at, given;
	bool in_turn; /* one slice per rail in turn, see probe_turn() */
};

/*
 * Computes the shares from the weights, rounded down. The best rail comes first and gets the
 * remaining slices.
 */
static void bulk_init(struct sched *s, uint32_t location, uint64_t length, uint32_t slices,
	struct bulk *b)
{
	struct score scores[SCHED_MAX_RAILS], first;
	double all = 0, epsilon = s->config.score_epsilon;
	uint32_t left = slices, best;

	*b = (struct bulk){.in_turn = probe_turn(s)};
	if (b->in_turn)
		return;
	b->n = smart_scores(s, location, length, scores);
	best = best_score(scores, b->n);
	first = scores[best];
	scores[best] = scores[0];
	scores[0] = first;
	for (uint32_t i = 0; i < b->n; i++)
		all += score_weight(scores[i].value, epsilon);
	for (uint32_t i = 0; i < b->n; i++) {
		b->rail[i] = scores[i].rail;
		b->share[i] = score_share(score_weight(scores[i].value, epsilon), all, slices);
		left -= b->share[i];
	}
	b->share[0] += left;
}

static uint32_t bulk_next(struct sched *s, uint32_t location, struct bulk *b)
{
	if (b->in_turn)
		return next_in_turn(s, location, TENT_TIERS);
	while (b->given == b->share[b->at]) {
		b->at++;
		b->given = 0;
	}
	b->given++;
	return b->rail[b->at];
}

/* Cuts the next slice of a request. */
static uint32_t cut(struct sched *s, uint32_t request, uint64_t block)
{
	uint64_t offset = 0, length = plan_next(&s->requests[request].plan, block, &offset);

	assert(DEFECTS || length);
	return slice_new(s, request, offset, length);
}

void bind_request(struct sched *s, uint32_t request, uint32_t max_slices)
{
	struct request *q = &s->requests[request];
	uint64_t block = plan_block(q->plan.length, max_slices), length = q->plan.length, charge;
	uint32_t n = (uint32_t)bind_count(&q->plan, max_slices), rail, id;
	bool bulk = s->config.mode == TENT_SMART && n >= max_slices / 2;
	bool reachable = sched_reachable(s, q->location);
	struct bulk b = {0};

	if (bulk && reachable)
		bulk_init(s, q->location, block, n, &b);
	for (uint32_t i = 0; i < n; i++) {
		id = cut(s, request, block);
		if (!reachable) {
			slice_wait(s, id);
			continue;
		}
		rail = bulk ? bulk_next(s, q->location, &b) :
			      pick(s, q->location, s->slices[id].length);
		charge = DEFECTS ? (length + n - 1) / n : s->slices[id].length;
		bind(s, id, rail, charge);
	}
}
