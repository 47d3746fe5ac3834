/* SPDX-License-Identifier: MIT */
/*
 * Two endpoints for Spin, as small as possible. A ring of C blocks is modelled as a list of the
 * items in it. Placement, grants and checks are the library's own functions (credit.h); this file
 * models the rest: the wire, the consumers, and the true consumer position. All variables are
 * bytes, to keep the state vector small. To keep positions small, multiples of the ring's size are
 * subtracted at both ends of a direction.
 *
 * A DEFECT_ macro plants an error that breaks one of the rules; Spin must then find a failure.
 */
#ifndef COPYRPC_MODEL_H
#define COPYRPC_MODEL_H

#include <string.h>

#include "credit.h"

#if defined(DEFECT_LARGE_MESSAGES)
#define LARGE (C / 4)
#elif defined(NESTED)
#define LARGE (C / 16)
#else
#define LARGE (C / 8) /* blocks of the largest message */
#endif

/* The credit that calls leave for nested calls. */
#if !defined(NESTED) || defined(DEFECT_NO_RESERVE)
#define RESERVE 0
#else
#define RESERVE credit_reserve(C)
#endif

enum { META = 1, MARKER, REQUEST, RESPONSE, NESTED_REQUEST, NESTED_RESPONSE };
enum { PLACED = 1, SENT, HELD, GONE }; /* GONE: released, and not in use */

struct item {
	unsigned char kind, state, size, allowance;
	unsigned char credit, consumer; /* values that META and MARKER report when they are sent */
};

#define ITEMS (C + 2)

/* One direction. The index of a direction is the number of its sending side. */
struct dir {
	struct item item[ITEMS]; /* the items after the true consumer position */
	unsigned char n;
	unsigned char base; /* the true consumer position */
	unsigned char p, rc, sent, parsed; /* positions: three of the sender, one of the receiver */
	unsigned char r, k; /* credit that the sender has granted to the other side; credit that the
			       sender has left for its own calls */
	unsigned char open, stalled;
	unsigned char owed[LARGE + 2]; /* number of detached requests that were not answered, by
					  allowance */
#ifdef NESTED
	/* the same for requests whose handlers have not made their call yet; and for requests whose
	 * handlers wait for the end of their call */
	unsigned char to_call[LARGE + 2], calling[LARGE + 2];
#endif
};

struct model {
	struct dir d[2];
	unsigned char calls[2]; /* left to make */
	unsigned char pending[2];
	unsigned char broken; /* an error was found */
};

static struct credit load(const struct dir *d)
{
	/* An open batch ends at p, which may be the ring's end. */
	return (struct credit){.p = d->p,
		.rc = d->rc,
		.c = C,
		.owed = credit_rmax(C) - d->r,
		.spent = credit_rmax(C) - d->k,
		.rmax = credit_rmax(C),
		.t = credit_threshold(C),
		.kmax = credit_rmax(C),
		.edge = d->open ? (d->p + C - 1) / C * C : 0};
}

static void store(struct dir *d, const struct credit *cr)
{
	d->p = (unsigned char)cr->p;
	d->rc = (unsigned char)cr->rc;
	d->r = (unsigned char)credit_out(cr);
	d->k = (unsigned char)credit_left(cr);
	d->open = cr->edge != 0;
}

static void normalise(struct model *m, struct dir *d)
{
	struct dir *back = &m->d[d == &m->d[0]];

	while (d->rc >= C && d->base >= C) {
		d->base -= C;
		d->p -= C;
		d->rc -= C;
		d->sent -= C;
		d->parsed -= C;
		for (int i = 0; i < back->n; i++) { /* positions that the other side has sent */
			unsigned char *told = &back->item[i].consumer;

			*told -= *told < C ? *told : C; /* a position below rc has no effect */
		}
	}
}

static void push(struct dir *d, unsigned char kind, unsigned size, unsigned allowance)
{
	struct item *i = &d->item[d->n++];

	memset(i, 0, sizeof(*i));
	i->kind = kind;
	i->state = PLACED;
	i->size = (unsigned char)size;
	i->allowance = (unsigned char)allowance;
}

static struct placement plan(const struct credit *cr, unsigned size)
{
	return credit_plan(cr, size);
}

static bool call_fits(const struct credit *cr, const struct placement *to)
{
#if defined(DEFECT_WRAP_UNCHECKED) /* leaves out the marker's blocks */
	return credit_call_fits(cr, to->end - to->wrap);
#elif defined(DEFECT_FACTOR_1)
	return to->end - cr->rc + credit_out(cr) <= C;
#else
	return credit_call_fits(cr, to->end);
#endif
}

static bool can_call(const struct model *m, int s, unsigned size, unsigned resp)
{
	struct credit cr = load(&m->d[s]);
	struct placement to = plan(&cr, size);

	return m->calls[s] && credit_left(&cr) >= credit_allowance(resp) + RESERVE &&
	       call_fits(&cr, &to);
}

static bool would_stall(const struct model *m, int s, unsigned size, unsigned resp)
{
	return m->calls[s] && !m->d[s].stalled && m->d[s].k >= credit_allowance(resp) + RESERVE &&
	       !can_call(m, s, size, resp);
}

static void place(struct model *m, int s, unsigned char kind, unsigned size, unsigned allowance)
{
	struct dir *d = &m->d[s];
	struct credit cr = load(d);
	struct placement to = plan(&cr, size);

	if (to.wrap)
		push(d, MARKER, to.wrap, 0);
	if (!to.joins) {
		push(d, META, 1, 0);
		credit_open(&cr, to.wrap);
	}
	push(d, kind, size, allowance);
	cr.p += size;
	if (cr.p != to.end || cr.p > cr.edge || to.end - d->base > C)
		m->broken = 1;
	store(d, &cr);
}

static void do_call(struct model *m, int s, unsigned size, unsigned resp)
{
	m->d[s].k -= (unsigned char)credit_allowance(resp);
	m->calls[s]--;
	m->pending[s]++;
	place(m, s, REQUEST, size, credit_allowance(resp));
}

/* The consumer position that the receiver of a direction reports. */
static unsigned char told(const struct dir *d)
{
#ifdef DEFECT_RELEASE_AT_PARSE
	return d->parsed;
#else
	return d->base;
#endif
}

/* Sends all placed batches, each with a position and a grant. */
static void do_flush(struct model *m, int s)
{
	struct dir *d = &m->d[s];
	struct credit cr = load(d);

	for (int i = 0; i < d->n; i++) {
		struct item *it = &d->item[i];

		if (it->state != PLACED)
			continue;
		it->state = SENT;
		if (it->kind > MARKER)
			continue;
		it->consumer = told(&m->d[!s]);
#ifdef DEFECT_GRANT_IGNORES_UNSENT
		it->credit = (unsigned char)credit_grantable(&cr, d->sent);
#else
		it->credit = (unsigned char)credit_grantable(&cr, cr.p);
#endif
		cr.owed -= it->credit;
	}
	cr.edge = 0;
	store(d, &cr);
	d->sent = d->p;
}

static bool can_credit_only(const struct model *m, int s)
{
	struct credit cr = load(&m->d[s]);

#ifdef DEFECT_NO_CREDIT_BATCH
	return false;
#endif
	return !cr.edge && m->d[s].sent == m->d[s].p && credit_batch_due(&cr);
}

static void do_credit_only(struct model *m, int s)
{
	struct dir *d = &m->d[s];
	unsigned before = d->r;

	push(d, META, 1, 0);
	d->p++;
	if (d->p - d->base > C)
		m->broken = 1;
	do_flush(m, s);
	/* The batch grants at least T blocks. R decreases only when a reply is placed, so this
	 * batch does not cause another one. */
	if (d->r < before + credit_threshold(C))
		m->broken = 1;
}

/* True if a READ would return a new position. Other READs change nothing, so they need no step. */
static bool can_read(const struct model *m, int s)
{
	struct credit cr = load(&m->d[s]);

#ifdef DEFECT_NO_READ
	return false;
#endif
	return told(&m->d[s]) > cr.rc && !cr.edge && credit_read_due(&cr, m->d[s].stalled);
}

static void do_read(struct model *m, int s)
{
	struct dir *d = &m->d[s];

	d->rc = told(d);
	d->stalled = 0;
	normalise(m, d);
}

/* Removes released items from the front. */
static void advance(struct model *m, struct dir *d)
{
	int gone = 0;

	while (gone < d->n && d->item[gone].state == GONE)
		d->base += d->item[gone++].size;
	if (!gone)
		return;
	memmove(d->item, d->item + gone, (size_t)(d->n - gone) * sizeof(d->item[0]));
	d->n -= (unsigned char)gone;
	memset(d->item + d->n, 0, (size_t)gone * sizeof(d->item[0]));
	normalise(m, d);
}

static int next_sent(const struct dir *d)
{
	for (int i = 0; i < d->n; i++)
		if (d->item[i].state == SENT)
			return i;
	return -1;
}

/* A handler's call has ended, so the handler can answer. */
static void nested_ended(struct dir *d)
{
#ifdef NESTED
	for (int a = 0; a < LARGE + 2; a++) {
		if (d->calling[a]) {
			d->calling[a]--;
			d->owed[a]++;
			return;
		}
	}
#endif
}

/* The oldest batch in flight from side s arrives, and all its messages are handled. */
static void do_receive(struct model *m, int s)
{
	struct dir *d = &m->d[s], *back = &m->d[!s];
	int i = next_sent(d);
	struct credit cr = load(back);

	if (d->item[i].consumer > cr.rc) {
		cr.rc = d->item[i].consumer;
		back->stalled = 0;
	}
	if (!credit_granted(&cr, d->item[i].credit))
		m->broken = 1;
	store(back, &cr);
	d->item[i].state = GONE;
	d->parsed += d->item[i].size;
	for (i++; i < d->n && d->item[i].state == SENT && d->item[i].kind > MARKER; i++) {
		d->parsed += d->item[i].size;
		if (d->item[i].kind == REQUEST || d->item[i].kind == NESTED_REQUEST) {
			d->item[i].state = HELD;
			continue;
		}
		if (d->item[i].kind == RESPONSE)
			m->pending[!s]--;
		else
			nested_ended(d);
		d->item[i].state = GONE;
	}
	normalise(m, back);
	advance(m, d);
}

/* Returns the index of the i-th held request of this kind, or -1. */
static int held(const struct dir *d, int kind, int i)
{
	for (int k = 0; k < d->n; k++)
		if (d->item[k].state == HELD && d->item[k].kind == kind && !i--)
			return k;
	return -1;
}

/* Kind of the requests that are answered immediately: with nested calls only nested requests, else
 * all. */
#ifdef NESTED
#define AT_ONCE NESTED_REQUEST
#else
#define AT_ONCE REQUEST
#endif

static bool can_reply(const struct model *m, int s, int i, unsigned size)
{
	int k = held(&m->d[s], AT_ONCE, i);

	return k >= 0 && credit_allowance(size) <= m->d[s].item[k].allowance;
}

static void answer(struct model *m, int from, unsigned char kind, unsigned size, unsigned allowance)
{
	struct dir *d = &m->d[from];

#ifdef DEFECT_CREDIT_FALLS_FIRST /* the batch that the wrap closes grants the credit too early */
	struct credit cr;

	d->r -= (unsigned char)allowance;
	cr = load(d);
	if (plan(&cr, size).wrap && cr.edge)
		do_flush(m, from);
	place(m, from, kind, size, 0);
#else
	place(m, from, kind, size, 0);
	d->r -= (unsigned char)allowance;
#endif
}

static void do_reply(struct model *m, int s, int i, unsigned size)
{
	struct dir *d = &m->d[s];
	struct item *it = &d->item[held(d, AT_ONCE, i)];

	answer(m, !s, AT_ONCE == REQUEST ? RESPONSE : NESTED_RESPONSE, size, it->allowance);
	it->state = GONE;
	advance(m, d);
}

static void do_detach(struct model *m, int s, int i)
{
	struct dir *d = &m->d[s];
	struct item *it = &d->item[held(d, REQUEST, i)];

#ifdef NESTED
	d->to_call[it->allowance]++;
#else
	d->owed[it->allowance]++;
#endif
	it->state = GONE;
	advance(m, d);
}

static void do_reply_detached(struct model *m, int s, unsigned allowance)
{
	m->d[s].owed[allowance]--;
	answer(m, !s, RESPONSE, allowance - 1, allowance);
}

/* True if a handler on side s, of a request from side !s, can make its nested call; or, with
 * @stall, if this call has credit but no room, and the stall is not noted yet. */
static bool can_nest(const struct model *m, int s, unsigned size, bool stall)
{
#ifdef NESTED
	struct credit cr = load(&m->d[s]);
	struct placement to = plan(&cr, size);

	for (int a = 0; a < LARGE + 2; a++)
		if (m->d[!s].to_call[a])
			return credit_left(&cr) >= credit_allowance(size) &&
			       call_fits(&cr, &to) != stall && !(stall && m->d[s].stalled);
#endif
	return false;
}

static void do_nest(struct model *m, int s, unsigned size)
{
#ifdef NESTED
	int a = 0;

	while (!m->d[!s].to_call[a])
		a++;
	m->d[!s].to_call[a]--;
	m->d[!s].calling[a]++;
	m->d[s].k -= (unsigned char)credit_allowance(size);
	place(m, s, NESTED_REQUEST, size, credit_allowance(size));
#endif
}

static void init(struct model *m, int at0, int at1, int calls0, int calls1)
{
	int at[2] = {at0, at1}, calls[2] = {calls0, calls1};

	memset(m, 0, sizeof(*m));
	for (int s = 0; s < 2; s++) {
		struct credit cr;

		credit_init(&cr, C, (uint64_t)at[s]);
		store(&m->d[s], &cr);
		m->d[s].base = m->d[s].sent = m->d[s].parsed = (unsigned char)at[s];
		m->calls[s] = (unsigned char)calls[s];
	}
}

/* These conditions hold in every state. */
static bool holds(const struct model *m)
{
	for (int s = 0; s < 2; s++) {
		const struct dir *d = &m->d[s];
		struct credit cr = load(d);

		/* Blocks that are not consumed are never overwritten. */
		if (d->p - d->base > C || d->rc > told(d) || d->n > C)
			return false;
		if (!credit_holds(&cr))
			return false;
	}
	return !m->broken;
}

static bool finished(const struct model *m)
{
	return !m->calls[0] && !m->calls[1] && !m->pending[0] && !m->pending[1];
}

/* Conditions for flow.pml. */
#define CAN_CALL_SMALL_0 (SMALL && can_call(&now.m, 0, 1, 1))
#define CAN_CALL_LARGE_0 ((LARGE > 1 || !SMALL) && can_call(&now.m, 0, LARGE, LARGE))
#define WOULD_STALL_0 would_stall(&now.m, 0, LARGE, LARGE)
#define UNSENT_0 (now.m.d[0].sent != now.m.d[0].p)
#define CAN_CREDIT_0 can_credit_only(&now.m, 0)
#define CAN_READ_0 can_read(&now.m, 0)
#define CAN_RECEIVE_0 (next_sent(&now.m.d[0]) >= 0)
#define CAN_REPLY_FIRST_0 can_reply(&now.m, 0, 0, 1)
#define CAN_REPLY_SECOND_0 can_reply(&now.m, 0, 1, 1)
#define CAN_REPLY_FIRST_LARGE_0 (LARGE > 1 && can_reply(&now.m, 0, 0, LARGE))
#define CAN_REPLY_SECOND_LARGE_0 (LARGE > 1 && can_reply(&now.m, 0, 1, LARGE))
#define CAN_DETACH_0 (DETACH && held(&now.m.d[0], REQUEST, 0) >= 0)
#define OWES_SMALL_0 (now.m.d[0].owed[2] > 0)
#define OWES_LARGE_0 (LARGE > 1 && now.m.d[0].owed[LARGE + 1] > 0)
#define CAN_CALL_SMALL_1 (SMALL && can_call(&now.m, 1, 1, 1))
#define CAN_CALL_LARGE_1 ((LARGE > 1 || !SMALL) && can_call(&now.m, 1, LARGE, LARGE))
#define WOULD_STALL_1 would_stall(&now.m, 1, LARGE, LARGE)
#define UNSENT_1 (now.m.d[1].sent != now.m.d[1].p)
#define CAN_CREDIT_1 can_credit_only(&now.m, 1)
#define CAN_READ_1 can_read(&now.m, 1)
#define CAN_RECEIVE_1 (next_sent(&now.m.d[1]) >= 0)
#define CAN_REPLY_FIRST_1 can_reply(&now.m, 1, 0, 1)
#define CAN_REPLY_SECOND_1 can_reply(&now.m, 1, 1, 1)
#define CAN_REPLY_FIRST_LARGE_1 (LARGE > 1 && can_reply(&now.m, 1, 0, LARGE))
#define CAN_REPLY_SECOND_LARGE_1 (LARGE > 1 && can_reply(&now.m, 1, 1, LARGE))
#define CAN_DETACH_1 (DETACH && held(&now.m.d[1], REQUEST, 0) >= 0)
#define OWES_SMALL_1 (now.m.d[1].owed[2] > 0)
#define OWES_LARGE_1 (LARGE > 1 && now.m.d[1].owed[LARGE + 1] > 0)
#define CAN_NEST_SMALL_0 (SMALL && can_nest(&now.m, 0, 1, false))
#define CAN_NEST_LARGE_0 ((LARGE > 1 || !SMALL) && can_nest(&now.m, 0, LARGE, false))
#define NEST_WOULD_STALL_0 can_nest(&now.m, 0, LARGE, true)
#define CAN_NEST_SMALL_1 (SMALL && can_nest(&now.m, 1, 1, false))
#define CAN_NEST_LARGE_1 ((LARGE > 1 || !SMALL) && can_nest(&now.m, 1, LARGE, false))
#define NEST_WOULD_STALL_1 can_nest(&now.m, 1, LARGE, true)
#define FINISHED finished(&now.m)
#define HOLDS holds(&now.m)

#endif
