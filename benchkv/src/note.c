/* SPDX-License-Identifier: MIT */
#include "note.h"

#include <string.h>

#include "control.h"

static enum decision_reason why_polled(const struct control *c, const struct control_polls *p)
{
	switch (c->spec.kind) {
	case CONTROL_BUDGET:
		return p->responses >= c->spec.n ? BECAUSE_RESPONSES : BECAUSE_POLLS;
	case CONTROL_THRESHOLD:
		return p->last >= c->spec.threshold ? BECAUSE_THRESHOLD : BECAUSE_POLLS;
	default:
		return p->cqes ? BECAUSE_COMPLETION : BECAUSE_POLLS;
	}
}

static void add(struct control *c, enum decision_what what, enum decision_reason why, uint32_t rank,
	uint32_t decided, const double seen[DECISION_VALUES])
{
	struct decision x = {.what = what, .reason = why, .rank = rank, .decided = decided};

	memcpy(x.seen, seen, sizeof(x.seen));
	decisions_add(c->log, &x);
}

void note_polls(struct control *c, const struct control_polls *p)
{
	const double seen[DECISION_VALUES] = {p->polls, p->last, p->responses, p->cqes,
		c->adaptive.u};

	if (c->spec.kind == CONTROL_BUDGET || c->spec.kind == CONTROL_THRESHOLD ||
		c->spec.kind == CONTROL_ADAPTIVE)
		add(c, DECISION_POLL, why_polled(c, p), DECISION_NO_RANK, p->polls, seen);
}

void note_flush(struct control *c, const struct control_load *load, uint64_t age_ns,
	uint32_t unconsumed, enum decision_reason why)
{
	const double seen[DECISION_VALUES] = {load->calls, load->replies, (double)age_ns,
		unconsumed};

	add(c, DECISION_FLUSH, why, load->ep, why != BECAUSE_WINDOW && why != BECAUSE_UNCONSUMED,
		seen);
}

void note_hold(struct control *c, uint32_t held, uint64_t age_ns, uint32_t outstanding,
	bool released)
{
	const struct hold *h = &c->hold;
	const double seen[DECISION_VALUES] = {held, (double)age_ns, outstanding, h->ns,
		h->adaptive && h->healthy};
	enum decision_reason why = !released               ? BECAUSE_MORE :
				   held >= h->full         ? BECAUSE_RANKS :
				   !outstanding            ? BECAUSE_LAST :
				   (double)age_ns >= h->ns ? BECAUSE_TIME :
							     BECAUSE_HEALTHY;

	add(c, DECISION_HOLD, why, DECISION_NO_RANK, released, seen);
}

void note_budget(struct control *c, uint32_t u_before)
{
	const struct adaptive *a = &c->adaptive;
	const double of_loops[DECISION_VALUES] = {a->b_ema, a->e_ema, a->loop_ema_us, a->rtt_ema_us,
		u_before, a->step_up, a->u_max};
	const double of_halves[DECISION_VALUES] = {a->b0, a->e0, a->r0, a->b1, a->e1, a->step_up,
		a->u_max};

	if (a->why < BECAUSE_PROBE_OFF)
		add(c, DECISION_BUDGET, a->why, DECISION_NO_RANK, a->u, of_loops);
	else
		add(c, DECISION_IDENTIFY, a->why, DECISION_NO_RANK, a->u, of_halves);
}

void note_batching(struct control *c)
{
	const struct little *l = &c->little;
	const struct little_epoch *e = &l->last;
	const double seen[DECISION_VALUES] = {(double)e->ended, (double)e->area,
		(double)e->peers_ended, (double)e->peers_area, l->latency_ns[false],
		l->latency_ns[true], e->batching};

	add(c, DECISION_BATCHING, e->why, DECISION_NO_RANK, l->batching, seen);
}
