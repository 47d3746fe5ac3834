/* SPDX-License-Identifier: MIT */
/*
 * Holes: positions that a client has reserved and, because it died, never fills.
 *
 * A sweep reads head and then checks each client once: which positions it may still fill and, if
 * that matters, whether it lives. A position below that head was reserved before the sweep
 * began, so its owner's intent is visible. A client that takes a dead client's id later
 * reserves at or behind that head. So after the sweep nobody fills a position below head that no
 * living client claimed. Those of them whose slot is then found empty are holes.
 *
 * They remain holes, so a sweep, and the skipping of the holes, may take several polls.
 * One poll looks at DELEGRPC_POLL_LOOKS locks at most, and skips DELEGRPC_POLL_SKIPS
 * positions at most, whatever clients have written.
 */
#include <errno.h>

#include "server.h"

/* The first position from the cursor on that client i fills if it lives; UINT64_MAX: none. */
static uint64_t claimed_from(const struct server *s, uint32_t i)
{
	/*
	 * Acquire: pairs with the release stores in delegrpc_priv_publish() and take_over().
	 * If a claim has moved on, the look at the slot sees the positions filled under it.
	 */
	uint64_t claim = __atomic_load_n(&s->lines[i].claim, __ATOMIC_ACQUIRE);
	uint64_t first = claim >> 8, n = claim >> 2 & 0x3f, cursor = s->hot.cursor;

	if (claim == DELEGRPC_CLAIM_NONE)
		return UINT64_MAX;
	if (claim == DELEGRPC_CLAIM_INTENT)
		return cursor;
	if (first + n <= cursor)
		return UINT64_MAX;
	return first > cursor ? first : cursor;
}

/* Continues the sweep. Returns true at its end. */
static bool sweep_clients(struct server *s)
{
	struct sweep *sweep = &s->sweep;
	uint32_t looks = 0;

	/* With the limit at the cursor, the next position may still be filled. */
	for (; sweep->next < s->attr.max_clients && sweep->limit > s->hot.cursor; sweep->next++) {
		uint64_t from = claimed_from(s, sweep->next);

		if (from >= sweep->limit)
			continue;
		if (looks++ == DELEGRPC_POLL_LOOKS)
			return false;
		s->looks++;
		if (shm_locked(&s->w.region, CLIENT_BYTE(sweep->next)) != 0)
			sweep->limit = from;
	}
	return true;
}

/*
 * Skips holes. They are given back at once, because no later call does it, unless a request before
 * them has not been given back.
 */
static void skip(struct server *s)
{
	struct delegrpc_server *hot = &s->hot;
	bool give_back = hot->tail == hot->cursor;

	for (uint32_t i = 0; i < DELEGRPC_POLL_SKIPS && hot->cursor < s->void_end &&
			     !delegrpc_priv_filled(hot, hot->cursor);
		i++) {
		s->holes++;
		hot->cursor++;
	}
	hot->found = hot->cursor;
	if (give_back)
		delegrpc_server_advance_tail(hot);
}

static bool is_void(const struct server *s)
{
	return s->hot.cursor < s->void_end && !delegrpc_priv_filled(&s->hot, s->hot.cursor);
}

int skip_holes(struct server *s)
{
	struct delegrpc_server *hot = &s->hot;
	/* Acquire: pairs with the reservation in delegrpc_priv_publish(); its intent is visible then. */
	uint64_t head = __atomic_load_n(&hot->control->head, __ATOMIC_ACQUIRE);

	/* A client that keeps the rules never reserves more positions than the ring has. */
	if (hot->broken || head - hot->cursor > hot->ring_depth)
		return hot->broken = -EPROTO;
	if (hot->cursor == head || delegrpc_priv_filled(hot, hot->cursor))
		return 0;
	if (hot->cursor >= s->void_end) {
		if (!s->sweep.begun)
			s->sweep = (struct sweep){.limit = head, .begun = true};
		if (!sweep_clients(s))
			return 1;
		s->sweep.begun = false;
		s->void_end = s->sweep.limit;
	}
	skip(s);
	return is_void(s);
}
