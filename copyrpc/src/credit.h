/* SPDX-License-Identifier: MIT */
/*
 * Flow control of one direction of one endpoint: pure functions of a few numbers, in blocks.
 * The model in test/model runs this code unchanged.
 *
 * This side writes into a ring of C blocks in the peer's memory. in_flight = p - rc blocks have
 * been placed and are not known to be consumed. R blocks of credit have been granted to the peer
 * and not been used up by replies: the peer may still use them for calls, or has used them for
 * requests that this side has not answered. At each step
 *
 *	in_flight + 2 R <= C
 *
 * so a reply always fits. The factor 2 covers the ring's end: a reply with the allowance
 * a = blocks + 1 wastes at most a - 1 blocks there and needs a blocks for metadata and message,
 * together 2 a - 1, while 2 R decreases by 2 a. This holds for every order of replies, and however
 * long requests are held, because rc does not advance past a held request.
 *
 * A call is accepted only if R can still rise to its maximum RMAX after the call: calls must leave
 * the room for the next grant to the peer.
 *
 * Progress, if every request is answered eventually: when all requests are answered, a READ of the
 * peer's position sets in_flight to 0. Then a call with a message of m blocks fits, because it
 * needs at most 2 m + 1 + 2 RMAX <= C blocks. A batch without messages returns credit when at least
 * T (credit_threshold()) blocks are owed, that is R <= RMAX - T, and the batch can grant at least T
 * blocks. If in_flight is 0, it can grant all blocks that are owed. If fewer than T blocks are
 * owed, R > RMAX - T >= a - 1 for every allowance a, so the peer has enough credit for a call.
 *
 * If handlers of requests make (nested) calls, other calls of both sides could use up the credit,
 * and the handlers would have none. Calls that are not nested therefore leave a reserve: the
 * largest allowance a of a nested call, plus T - 1, because up to T - 1 blocks may be owed without
 * being granted. Let S be the sum of the allowances of the pending calls that are not nested. RMAX,
 * T and R are those of the peer's side from here on. Then
 *
 *	S <= RMAX - a - (T - 1)
 *
 * and if no nested call is pending, the credit left for calls is
 *
 *	K = R - S >= RMAX - (T - 1) - S >= a
 *
 * If no call is pending, K >= RMAX - (T - 1). This must suffice for a call that is not nested,
 * whose allowance may be a as well, and for the reserve:
 *
 *	RMAX - (T - 1) >= a + a + (T - 1)
 *
 * This holds because with nested calls a message has at most a sixteenth of the ring
 * (credit_nested_message_max()).
 *
 * The two rings of an endpoint may differ in size: C, R and in_flight belong to the ring that this
 * side writes, and K, S and the size of a response to the ring that the peer writes (kmax is the
 * RMAX of the peer's side). A ring becomes larger at a position where no batch is open (grow.h).
 * Blocks that are still in the former ring are then counted against the new one, so the computed
 * room is smaller than the real room. The peer gets the additional credit by grants.
 */
#ifndef COPYRPC_CREDIT_H
#define COPYRPC_CREDIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct credit {
	uint64_t p; /* producer position: end of the placed messages, sent or not */
	uint64_t rc; /* the peer's consumer position, as far as known */
	uint32_t c; /* blocks of the ring, a power of two */
	uint32_t owed; /* RMAX - R: credit that this side can grant to the peer again */
	uint64_t spent; /* KMAX - K: credit that calls have used and the peer has not granted
			  again */
	uint32_t rmax, t; /* credit_rmax() and credit_threshold() of c */
	uint32_t kmax; /* credit_rmax() of the peer's ring */
	uint64_t edge; /* position of the ring's end after the open batch; 0: no batch is open */
};

/* The next four functions return, for a ring of @c blocks: the largest message without nested
 * calls, and with them; RMAX; and T, the least grant for which a batch without messages is sent. */
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

/* The credit for a response of @blocks blocks: its size and the metadata of a batch. */
static inline uint32_t credit_allowance(uint32_t blocks)
{
	return blocks + 1;
}

/* The credit that calls leave for nested calls, if these are enabled. */
static inline uint32_t credit_reserve(uint32_t c)
{
	return credit_allowance(credit_nested_message_max(c)) + credit_threshold(c) - 1;
}

/* Both ends start with the full credit. `at` is 0 except in tests. */
static inline void credit_init(struct credit *cr, uint32_t c, uint64_t at)
{
	*cr = (struct credit){.p = at,
		.rc = at,
		.c = c,
		.rmax = credit_rmax(c),
		.t = credit_threshold(c),
		.kmax = credit_rmax(c)};
}

/* Called when this side has moved to a larger ring, of c blocks. */
static inline void credit_grow(struct credit *cr, uint32_t c)
{
	cr->owed += credit_rmax(c) - cr->rmax;
	cr->rmax = credit_rmax(c);
	cr->t = credit_threshold(c);
	cr->c = c;
}

/* Called when the peer has moved to a larger ring, of c blocks. */
static inline void credit_peer_grows(struct credit *cr, uint32_t c)
{
	cr->spent += credit_rmax(c) - cr->kmax;
	cr->kmax = credit_rmax(c);
}

/* R: credit granted to the peer and not yet used by a reply. */
static inline uint32_t credit_out(const struct credit *cr)
{
	return cr->rmax - cr->owed;
}

/* K: credit for calls. */
static inline uint32_t credit_left(const struct credit *cr)
{
	return cr->kmax - (uint32_t)cr->spent;
}

static inline bool credit_holds(const struct credit *cr)
{
	return cr->p >= cr->rc && cr->owed <= cr->rmax &&
	       cr->p - cr->rc + 2ull * credit_out(cr) <= cr->c;
}

/* Where a message is placed. */
struct placement {
	uint64_t end; /* the position after the message */
	uint32_t wrap; /* blocks up to the ring's end that a marker has to skip first */
	bool joins; /* it joins the open batch; else it begins a new one */
};

/* True if a message fits into the open batch. No batch crosses the ring's end. */
static inline bool credit_joins(const struct credit *cr, uint32_t size)
{
	return cr->p + size <= cr->edge;
}

/* Computes where a message is placed. Changes nothing. */
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

/* The position up to which calls may be placed: 2 RMAX, half of the ring, must remain. */
static inline uint64_t credit_call_end(const struct credit *cr)
{
	return cr->rc + cr->c / 2;
}

static inline bool credit_call_fits(const struct credit *cr, uint64_t end)
{
	return end <= credit_call_end(cr);
}

/* Begins a batch, after the marker if there is one: places its metadata. */
static inline void credit_open(struct credit *cr, uint32_t wrap)
{
	cr->p += wrap;
	cr->edge = (cr->p & ~(uint64_t)(cr->c - 1)) + cr->c;
	cr->p++;
	assert(cr->p - cr->rc <= cr->c);
}

/* True if a batch can grant all owed credit, if everything up to p counts as placed. */
static inline bool credit_grants_all(const struct credit *cr, uint64_t p)
{
	return (uint32_t)(p - cr->rc) + 2 * cr->rmax <= cr->c;
}

/* The credit that a batch can grant, if everything up to p counts as placed. */
static inline uint32_t credit_grantable(const struct credit *cr, uint64_t p)
{
	uint32_t in_flight = (uint32_t)(p - cr->rc), taken = in_flight + 2 * credit_out(cr);

	if (credit_grants_all(cr, p))
		return cr->owed;
	/* A grant of g blocks takes 2 g blocks of room; there is not enough room to grant all. */
	return cr->c > taken ? (cr->c - taken) / 2 : 0;
}

/* Grants credit. The batch must be certain to be sent: lost credit cannot be recovered. */
static inline uint32_t credit_grant(struct credit *cr)
{
	uint32_t g = credit_grantable(cr, cr->p);

	cr->owed -= g;
	assert(credit_holds(cr));
	return g;
}

/* Does the same as credit_grant(). credit_grants_all() must be true. */
static inline uint32_t credit_grant_all(struct credit *cr)
{
	uint32_t g = cr->owed;

	cr->owed = 0;
	assert(credit_holds(cr));
	return g;
}

/* Must be called after a reply with the allowance @a has been placed. If it was called before, a
 * grant could take the room that the reply needs. */
static inline void credit_replied(struct credit *cr, uint32_t a)
{
	cr->owed += a;
	assert(credit_holds(cr));
}

/* True if a batch without messages is worthwhile: at least T blocks of credit are owed, and as many
 * can be granted, if everything up to p counts as placed. */
static inline bool credit_due(const struct credit *cr, uint64_t p)
{
	return cr->owed >= cr->t && credit_grantable(cr, p) >= cr->t;
}

/* True if a batch without messages should be sent. No batch may be open. It needs one
 * block, which always fits before the ring's end. */
static inline bool credit_batch_due(const struct credit *cr)
{
	return credit_due(cr, cr->p + 1);
}

/* True if there is room for a batch without messages, even if no credit is due. */
static inline bool credit_batch_fits(const struct credit *cr)
{
	return cr->p + 1 - cr->rc + 2ull * credit_out(cr) <= cr->c;
}

/* True if a READ of the peer's position is useful: a call found no room, or at least T blocks of
 * credit are owed, and the peer may have consumed more than is known. */
static inline bool credit_read_due(const struct credit *cr, bool stalled)
{
	return (stalled || cr->owed >= cr->t) && cr->rc != cr->p;
}

/* Stores the consumer position @pos that the peer has reported. Returns false if @pos is above
 * @sent, the position up to which this side has sent. A position below the known one is valid and
 * changes nothing. */
static inline bool credit_consumed(struct credit *cr, uint64_t pos, uint64_t sent)
{
	if (pos > sent)
		return false;
	if (pos > cr->rc)
		cr->rc = pos;
	return true;
}

/* Applies a grant of n blocks by the peer. Returns false if K would exceed its maximum KMAX. */
static inline bool credit_granted(struct credit *cr, uint64_t n)
{
	if (n > cr->spent)
		return false;
	cr->spent -= n;
	return true;
}

#endif
