/* SPDX-License-Identifier: MIT */
#include "little.h"

#include <errno.h>
#include <stdlib.h>

int little_init(struct little *l, uint32_t peers)
{
	*l = (struct little){.peers = calloc(peers ? peers : 1, sizeof(*l->peers))};
	return l->peers ? 0 : -ENOMEM;
}

void little_fini(struct little *l)
{
	free(l->peers);
}

/* ---- exchange of counters ---- */

uint32_t little_word(struct little *l, uint32_t peer)
{
	struct little_peer *p = &l->peers[peer];

	p->telling = !p->telling;
	if (!p->telling)
		return LITTLE_VALID | LITTLE_AREA | p->told_area;
	p->told_area = (uint32_t)(l->area >> LITTLE_SHIFT) & LITTLE_MASK;
	return LITTLE_VALID | ((uint32_t)l->ended & LITTLE_MASK);
}

static void take_report(struct little *l, struct little_peer *p, uint32_t ended, uint32_t area)
{
	if (p->known && l->now_ns - p->heard_ns < LITTLE_STALE_NS) {
		l->peers_ended += (ended - p->ended) & LITTLE_MASK;
		l->peers_area += (uint64_t)((area - p->area) & LITTLE_MASK) << LITTLE_SHIFT;
	}
	p->known = true;
	p->ended = ended;
	p->area = area;
	p->heard_ns = l->now_ns;
}

void little_heard(struct little *l, uint32_t peer, uint32_t word)
{
	struct little_peer *p = &l->peers[peer];

	if (!(word & LITTLE_VALID))
		return;
	if (word & LITTLE_AREA && p->hearing)
		take_report(l, p, p->half, word & LITTLE_MASK);
	p->hearing = !(word & LITTLE_AREA);
	p->half = word & LITTLE_MASK;
}

/* ---- epochs ---- */

static void begin_epoch(struct little *l)
{
	l->since_ns = l->now_ns;
	l->since_ended = l->ended;
	l->since_area = l->area;
	l->peers_ended = l->peers_area = 0;
}

/* The average latency of the requests of both ends in an epoch, by Little's law. */
static double average_latency_ns(const struct little_epoch *e)
{
	return (double)(e->area + e->peers_area) / (double)(e->ended + e->peers_ended);
}

static bool choose(struct little *l)
{
	bool other = !l->batching, was_trial = l->trying;
	bool known = l->latency_ns[other] > 0;

	l->trying = !was_trial && (!known || ++l->epochs >= LITTLE_AGAIN);
	l->last.why = !l->trying ? BECAUSE_LOWER : known ? BECAUSE_OLD : BECAUSE_UNKNOWN;
	if (!l->trying)
		return l->latency_ns[true] < l->latency_ns[false];
	l->epochs = 0;
	return other;
}

static void end_epoch(struct little *l)
{
	double *known = &l->latency_ns[l->batching], seen;
	bool next;

	l->n_epochs++;
	l->last = (struct little_epoch){.ended = l->ended - l->since_ended,
		.area = l->area - l->since_area,
		.peers_ended = l->peers_ended,
		.peers_area = l->peers_area,
		.batching = l->batching};
	seen = average_latency_ns(&l->last);
	*known = *known > 0 ? (1 - LITTLE_WEIGHT) * *known + LITTLE_WEIGHT * seen : seen;
	next = choose(l);
	l->settling = next == l->batching ? 0 : l->under_way;
	l->batching = next;
	begin_epoch(l);
}

void little_count(struct little *l, uint64_t now_ns, uint32_t under_way, uint32_t ended)
{
	if (l->now_ns)
		l->area += l->under_way * (now_ns - l->now_ns);
	else
		l->since_ns = now_ns;
	l->now_ns = now_ns;
	l->under_way = under_way;
	l->ended += ended;
	if (l->settling) {
		l->settling -= ended < l->settling ? ended : l->settling;
		begin_epoch(l);
	} else if (now_ns - l->since_ns >= LITTLE_EPOCH_NS &&
		   l->ended - l->since_ended >= LITTLE_ENOUGH) {
		end_epoch(l);
	}
}
