/* SPDX-License-Identifier: MIT */
/*
 * The flow control's arithmetic, of one direction of one endpoint: pure functions of a
 * few numbers, in blocks, that the model in test/model runs as they are.
 *
 * We write into the peer's ring. Of its C blocks, in_flight = p - rc hold what we placed
 * and the peer is not known to have consumed; R blocks of credit are the peer's to ask
 * for responses with, or are held by requests that we have not answered yet. At each
 * step
 *
 *	in_flight + 2 R <= C
 *
 * and so a reply always fits. The factor 2 is what pays for the ring's end: a reply with
 * the allowance a = blocks + 1 wastes there at most a - 1 blocks and needs a for metadata
 * and message, 2 a - 1 in all, while 2 R falls by 2 a. This holds in whatever order
 * replies come, and however long requests are held, because rc does not pass them.
 *
 * A call is admitted only when R could still rise to its maximum behind it, so that
 * calls cannot eat the room from which the peer's next credit comes.
 *
 * Progress, provided that every request is answered at some time: when all is answered,
 * a READ of the peer's position brings in_flight to 0, and a call, which needs at most
 * 2 m + 1 + 2 RMAX <= C blocks, fits. Credit comes back in a batch without messages when
 * at least T of it are due and R <= RMAX - T; otherwise R > RMAX - T >= a - 1 for every
 * allowance a, and the peer has enough of it.
 *
 * Where handlers of requests make calls themselves, both sides could use up the credit with
 * calls whose handlers then have none. So calls from outside of handlers leave a reserve,
 * one nested call's allowance and T - 1, as so much may stay due without being granted:
 * then, with S the allowances of those calls, S <= RMAX - a - (T - 1), and when no nested
 * call is under way K = R - S >= RMAX - (T - 1) - S >= a. All this fits if no message takes
 * more than a sixteenth of the ring: RMAX - (T - 1) >= 2 a + (T - 1).
 */
#ifndef COPYRPC_CREDIT_H
#define COPYRPC_CREDIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct credit {
	uint64_t p; /* producer: the end of all that was placed, sent or not */
	uint64_t rc; /* the peer's consumer position, as far as known */
	uint32_t c; /* blocks of the ring, a power of two; both directions have as many */
	uint32_t r; /* credit granted to the peer and not yet answered by a reply */
	uint32_t k; /* credit that the peer granted us */
	uint32_t rmax, t; /* credit_rmax() and credit_threshold() of c */
	uint64_t edge; /* the ring's end that the open batch, up to p, may reach; 0: none open */
};

/* Largest message (and where handlers call), largest R, the least that is worth a batch. */
static inline uint32_t credit_message_max(uint32_t c)
{
	return c / 8;
}

static inline uint32_t credit_nested_message_max(uint32_t c)
{
	return c / 16;
}

static inline uint32_t credit_rmax(uint32_t c)
{
	return c / 4;
}

static inline uint32_t credit_threshold(uint32_t c)
{
	return c >= 16 ? c / 16 : 1;
}

/* What a response of so many blocks may cost: itself and the metadata of a batch. */
static inline uint32_t credit_allowance(uint32_t blocks)
{
	return blocks + 1;
}

/* What calls from outside of handlers leave, where handlers call. */
static inline uint32_t credit_reserve(uint32_t c)
{
	return credit_allowance(credit_nested_message_max(c)) + credit_threshold(c) - 1;
}

/* Both ends start with all the credit there is; `at` is 0 but in tests. */
static inline void credit_init(struct credit *cr, uint32_t c, uint64_t at)
{
	*cr = (struct credit){.p = at,
		.rc = at,
		.c = c,
		.r = credit_rmax(c),
		.k = credit_rmax(c),
		.rmax = credit_rmax(c),
		.t = credit_threshold(c)};
}

static inline bool credit_holds(const struct credit *cr)
{
	return cr->p >= cr->rc && cr->p - cr->rc + 2ull * cr->r <= cr->c;
}

/* Where a message goes: it ends at `end`. */
struct placement {
	uint64_t end;
	uint32_t wrap; /* blocks up to the ring's end that a marker has to skip first */
	bool joins; /* the open batch; else a new one begins in front of it */
};

/* Does a message fit behind the open batch? No batch crosses the ring's end. */
static inline bool credit_joins(const struct credit *cr, uint32_t size)
{
	return cr->p + size <= cr->edge;
}

/* Nothing is changed. */
static inline struct placement credit_plan(const struct credit *cr, uint32_t size)
{
	uint32_t off = (uint32_t)cr->p & (cr->c - 1);
	uint32_t left = off ? cr->c - off : 0;

	if (credit_joins(cr, size))
		return (struct placement){cr->p + size, 0, true};
	if (!off || (!cr->edge && left > size))
		return (struct placement){cr->p + 1 + size, 0, false};
	return (struct placement){cr->p + left + 1 + size, left, false};
}

/* Where a call may end: with 2 RMAX, which is half of the ring, left behind it. */
static inline uint64_t credit_call_end(const struct credit *cr)
{
	return cr->rc + cr->c / 2;
}

static inline bool credit_call_fits(const struct credit *cr, uint64_t end)
{
	return end <= credit_call_end(cr);
}

/* A batch begins behind the marker, if there is one: its metadata is placed. */
static inline void credit_open(struct credit *cr, uint32_t wrap)
{
	cr->p += wrap;
	cr->edge = (cr->p & ~(uint64_t)(cr->c - 1)) + cr->c;
	cr->p++;
	assert(cr->p - cr->rc <= cr->c);
}

/* What can be granted in a batch, when everything up to p counts as placed. */
static inline uint32_t credit_grantable(const struct credit *cr, uint64_t p)
{
	uint32_t taken = (uint32_t)(p - cr->rc) + 2 * cr->r;
	uint32_t room = cr->c > taken ? (cr->c - taken) / 2 : 0;
	uint32_t policy = cr->rmax - cr->r;

	return room < policy ? room : policy;
}

/* Only when the batch is certain to be sent: what is lost here is lost for good. */
static inline uint32_t credit_grant(struct credit *cr)
{
	uint32_t g = credit_grantable(cr, cr->p);

	cr->r += g;
	assert(credit_holds(cr));
	return g;
}

/* A reply with the allowance a has been placed. Not earlier: a grant in between would
 * count on the same room twice. */
static inline void credit_replied(struct credit *cr, uint32_t a)
{
	cr->r -= a;
	assert(credit_holds(cr));
}

/* Enough credit is owed, when everything up to p counts as placed, not to wait for a
 * batch that carries messages. */
static inline bool credit_due(const struct credit *cr, uint64_t p)
{
	return cr->r + cr->t <= cr->rmax && credit_grantable(cr, p) >= cr->t;
}

/* A batch without a message is worth sending; nothing else waits to be sent. It takes
 * one block, which fits before the ring's end anywhere. */
static inline bool credit_batch_due(const struct credit *cr)
{
	return credit_due(cr, cr->p + 1);
}

/* The peer's position is worth a READ: a call found no room, or credit is withheld. */
static inline bool credit_read_due(const struct credit *cr, bool stalled)
{
	return (stalled || cr->r + cr->t <= cr->rmax) && cr->rc != cr->p;
}

/* The peer says that it has consumed up to pos; it cannot have more than was sent.
 * An older position than the known one is no news, and no fault. */
static inline bool credit_consumed(struct credit *cr, uint64_t pos, uint64_t sent)
{
	if (pos > sent)
		return false;
	if (pos > cr->rc)
		cr->rc = pos;
	return true;
}

/* The peer grants n; never more than RMAX is out at a time. */
static inline bool credit_granted(struct credit *cr, uint64_t n)
{
	if (n > cr->rmax - cr->k)
		return false;
	cr->k += (uint32_t)n;
	return true;
}

#endif
