/* SPDX-License-Identifier: MIT */
#include "blame.h"

#include "base/clock.h"
#include "engine.h"

#define ARRIVE_NS (100 * NSEC_PER_MSEC)

const char *tent_fault_name(enum tent_fault fault)
{
	static const char *const names[] = {
		[TENT_FAULT_NONE] = "none",
		[TENT_FAULT_UNKNOWN] = "unknown",
		[TENT_FAULT_OWN_PORT] = "own port",
		[TENT_FAULT_PATH] = "path",
		[TENT_FAULT_PEER_PORT] = "peer's port",
		[TENT_FAULT_REFUSED] = "refused",
	};

	return (size_t)fault < sizeof(names) / sizeof(names[0]) ? names[fault] : "?";
}

enum tent_fault blame_verdict(enum blame_message ours, enum blame_message theirs)
{
	if (ours == MESSAGE_ARRIVED && theirs == MESSAGE_ARRIVED)
		return TENT_FAULT_PATH;
	if (ours == MESSAGE_ARRIVED && theirs == MESSAGE_LOST)
		return TENT_FAULT_PEER_PORT;
	if (ours == MESSAGE_LOST && theirs == MESSAGE_ARRIVED)
		return TENT_FAULT_OWN_PORT;
	return TENT_FAULT_UNKNOWN;
}

void blame_suspect(struct tent_segment *s, uint32_t pair)
{
	s->pairs[pair].fault = TENT_FAULT_UNKNOWN;
	if (s->t->ports[s->pairs[pair].local]->transport->blames && !s->lost)
		s->blame.todo |= 1u << pair;
}

void blame_known(struct tent_segment *s, uint32_t pair, enum tent_fault fault)
{
	s->pairs[pair].fault = fault;
	s->blame.todo &= ~(1u << pair);
	if (s->blame.pair == pair)
		s->blame.until = 0;
}

/* ---- the two messages ---- */

static bool open_rail(const struct tent_segment *s, bool own, uint32_t rail)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		const struct pair *p = &s->pairs[i];

		if (sched_rail_in_use(s->sched, i) && (own ? p->local : p->remote) == rail)
			return true;
	}
	return false;
}

/*
 * Finds a rail of the peer that is in use, is not p->remote, and is in the subnet of p->local.
 * With @own, finds a rail of this engine for p->remote in the same way.
 */
static bool find_partner(const struct tent_segment *s, const struct pair *p, bool own,
	uint32_t *rail_p)
{
	const struct tent *t = s->t;
	uint32_t n = own ? t->topo.n_rails : s->desc.n_rails;

	for (uint32_t r = 0; r < n; r++) {
		const struct rail_id *here = &t->rails[own ? r : p->local];
		const struct rail_id *there = &s->desc.rails[own ? p->remote : r];

		if (r != (own ? p->local : p->remote) && open_rail(s, own, r) &&
			rails_meet(here, there)) {
			*rail_p = r;
			return true;
		}
	}
	return false;
}

/* Makes our end of the link for message @i, and requests the other end from the peer. */
static void try_end(struct tent_segment *s, uint32_t i, uint32_t local, uint32_t remote)
{
	struct blame_end *e = &s->blame.ends[i];
	struct ctl_msg msg = {.type = CTL_CONNECT,
		.pair = TENT_MAX_RAILS + i,
		.rail = remote,
		.epoch = s->blame.epoch};

	if (!peer_connect(s, local, &msg, &e->link))
		e->message = MESSAGE_LOST; /* until it arrives */
}

static void begin(struct tent_segment *s, uint32_t pair, uint64_t now)
{
	const struct pair *p = &s->pairs[pair];
	struct blame *b = &s->blame;
	uint32_t rail = 0;

	b->todo &= ~(1u << pair);
	b->pair = pair;
	b->epoch++;
	b->until = now + ARRIVE_NS;
	for (uint32_t i = 0; i < BLAME_ENDS; i++)
		b->ends[i] = (struct blame_end){0};
	if (find_partner(s, p, false, &rail))
		try_end(s, 0, p->local, rail);
	if (find_partner(s, p, true, &rail))
		try_end(s, 1, rail, p->remote);
}

void blame_answer(struct tent_segment *s, const struct ctl_msg *msg)
{
	uint32_t i = msg->pair - TENT_MAX_RAILS;
	struct blame_end *e = &s->blame.ends[i];

	if (s->blame.pair == BLAME_NONE || msg->epoch != s->blame.epoch || !e->link || e->connected)
		return;
	e->connected = true;
	e->answered = peer_connected(e->link, msg, token_probe(i)) != 0;
}

static void on_done(void *arg, uint64_t token, int status)
{
	struct blame_end *e = arg;

	e->answered = true;
	if (!status)
		e->message = MESSAGE_ARRIVED;
}

/* ---- the end of the examination ---- */

static void close_end(struct tent_segment *s, uint32_t i)
{
	struct blame_end *e = &s->blame.ends[i];
	struct ctl_msg msg = {.type = CTL_FENCE,
		.pair = TENT_MAX_RAILS + i,
		.epoch = s->blame.epoch};

	if (!e->link)
		return;
	loop_close_link(s->t, &e->link);
	if (!s->lost)
		peer_send(s, &msg);
}

static void end(struct tent_segment *s)
{
	struct blame *b = &s->blame;
	struct pair *p = &s->pairs[b->pair];

	if (b->until && p->fault == TENT_FAULT_UNKNOWN)
		p->fault = blame_verdict(b->ends[0].message, b->ends[1].message);
	for (uint32_t i = 0; i < BLAME_ENDS; i++)
		close_end(s, i);
	b->pair = BLAME_NONE;
}

static bool answered(const struct blame *b)
{
	for (uint32_t i = 0; i < BLAME_ENDS; i++) {
		if (b->ends[i].link && !b->ends[i].answered)
			return false;
	}
	return true;
}

/* Examines the next pair whose fence has ended. To do this earlier would delay the fence. */
static bool begin_next(struct tent_segment *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if ((s->blame.todo >> i & 1) && sched_rail_state(s->sched, i) != RAIL_FENCING) {
			begin(s, i, now);
			return true;
		}
	}
	return false;
}

bool blame_progress(struct tent_segment *s, uint64_t now)
{
	struct blame *b = &s->blame;
	bool some = false;

	if (b->pair == BLAME_NONE && !(b->todo && begin_next(s, now)))
		return false;
	for (uint32_t i = 0; i < BLAME_ENDS; i++) {
		struct blame_end *e = &b->ends[i];

		some |= e->link && e->link->ops->poll(e->link, on_done, e) > 0;
	}
	if (answered(b) || now >= b->until || s->lost) {
		end(s);
		some = true;
	}
	return some;
}

uint64_t blame_due(const struct tent_segment *s)
{
	return s->blame.pair == BLAME_NONE ? SCHED_NEVER : s->blame.until;
}

void blame_fini(struct tent_segment *s)
{
	for (uint32_t i = 0; i < BLAME_ENDS; i++)
		loop_close_link(s->t, &s->blame.ends[i].link);
}
