/* SPDX-License-Identifier: MIT */
#include "note.h"

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

void note_polls(struct control *c, const struct control_polls *p)
{
	const struct decision x = {.what = DECISION_POLL,
		.reason = why_polled(c, p),
		.rank = DECISION_NO_RANK,
		.decided = p->polls,
		.seen = {p->polls, p->last, p->responses, p->cqes, c->adaptive.u}};

	if (c->spec.kind == CONTROL_BUDGET || c->spec.kind == CONTROL_THRESHOLD ||
		c->spec.kind == CONTROL_ADAPTIVE)
		decisions_add(c->log, &x);
}

void note_flush(struct control *c, const struct control_load *load, uint64_t age_ns,
	uint32_t unconsumed, enum decision_reason why)
{
	const struct decision x = {.what = DECISION_FLUSH,
		.reason = why,
		.rank = load->ep,
		.decided = why != BECAUSE_WINDOW && why != BECAUSE_UNCONSUMED,
		.seen = {load->calls, load->replies, (double)age_ns, unconsumed}};

	decisions_add(c->log, &x);
}

void note_hold(struct control *c, uint32_t held, uint64_t age_ns, uint32_t outstanding,
	bool released)
{
	const struct hold *h = &c->hold;
	const struct decision x = {.what = DECISION_HOLD,
		.reason = !released               ? BECAUSE_MORE :
			  held >= h->full         ? BECAUSE_RANKS :
			  !outstanding            ? BECAUSE_LAST :
			  (double)age_ns >= h->ns ? BECAUSE_TIME :
						    BECAUSE_HEALTHY,
		.rank = DECISION_NO_RANK,
		.decided = released,
		.seen = {held, (double)age_ns, outstanding, h->ns, h->adaptive && h->healthy}};

	decisions_add(c->log, &x);
}

void note_budget(struct control *c, uint32_t u_before)
{
	static const enum decision_reason reasons[] = {
		[ADAPTIVE_SHORT] = BECAUSE_SHORT,
		[ADAPTIVE_EMPTY] = BECAUSE_EMPTY,
		[ADAPTIVE_LONG] = BECAUSE_LONG,
		[ADAPTIVE_COLLAPSED] = BECAUSE_COLLAPSED,
		[ADAPTIVE_FIRST] = BECAUSE_PROBE_OFF,
		[ADAPTIVE_SECOND] = BECAUSE_PROBE_ON,
		[ADAPTIVE_IDENTIFIED] = BECAUSE_IDENTIFIED,
	};
	const struct adaptive *a = &c->adaptive;
	bool loops = a->why < ADAPTIVE_FIRST;
	const struct decision of_loops = {.what = DECISION_BUDGET,
		.reason = reasons[a->why],
		.rank = DECISION_NO_RANK,
		.decided = a->u,
		.seen = {a->b_ema, a->e_ema, a->loop_ema_us, a->rtt_ema_us, u_before, a->step_up,
			a->u_max}};
	const struct decision of_halves = {.what = DECISION_IDENTIFY,
		.reason = reasons[a->why],
		.rank = DECISION_NO_RANK,
		.decided = a->u,
		.seen = {a->b0, a->e0, a->r0, a->b1, a->e1, a->step_up, a->u_max}};

	decisions_add(c->log, loops ? &of_loops : &of_halves);
}

void note_batching(struct control *c)
{
	static const enum decision_reason reasons[] = {
		[LITTLE_LOWER] = BECAUSE_LOWER,
		[LITTLE_UNKNOWN] = BECAUSE_UNKNOWN,
		[LITTLE_OLD] = BECAUSE_OLD,
	};
	const struct little *l = &c->little;
	const struct little_epoch *e = &l->last;
	const struct decision x = {.what = DECISION_BATCHING,
		.reason = reasons[e->why],
		.rank = DECISION_NO_RANK,
		.decided = l->batching,
		.seen = {(double)e->ended, (double)e->area, (double)e->peers_ended,
			(double)e->peers_area, l->latency_ns[false], l->latency_ns[true],
			e->batching}};

	decisions_add(c->log, &x);
}
