/* SPDX-License-Identifier: MIT */
/*
 * Holes: positions that a client has reserved and, because it died, never fills.
 *
 * A sweep reads head and then checks each client once: which positions the client may still fill
 * and, if that matters, whether it is alive. A position below that value of head was reserved
 * before the sweep began, so the intent (DELEGRPC_CLAIM_INTENT) of the client that reserved it is
 * visible. A client that later takes a dead client's id reserves at or after that value. So after
 * the sweep only living clients fill positions below head, and only those that they claimed. An
 * unclaimed position below head is a hole if its slot is found empty after the sweep.
 *
 * A hole remains a hole, so a sweep and the skipping of holes may take several polls. One poll
 * checks at most DELEGRPC_POLL_LOOKS locks and skips at most DELEGRPC_POLL_SKIPS positions,
 * whatever clients have written.
 */
#include <errno.h>

#include "server.h"

/*
 * Returns the first position at or after the cursor that client i may still fill if it is alive;
 * UINT64_MAX if there is none.
 */
static uint64_t claimed_from(const struct server *s, uint32_t i)
{
	/*
	 * Acquire: pairs with the release stores in delegrpc_priv_publish() and take_over().
	 * If a claim has been replaced, a later read of the slots sees what was filled under the
	 * old claim.
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

/* Continues the sweep. Returns true when all clients have been checked. */
static bool sweep_clients(struct server *s)
{
	struct sweep *sweep = &s->sweep;
	uint32_t looks = 0;

	/* If the limit is the cursor, the next position may still be filled and is not a hole. */
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
 * Skips holes. If all earlier requests have been given back, the holes are given back immediately,
 * because the user need not call delegrpc_server_advance_tail() for them. Otherwise they are given
 * back together with those requests.
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
	/*
	 * Acquire: pairs with the addition in delegrpc_priv_publish(). The intents of the clients
	 * that reserved positions below head are visible then.
	 */
	uint64_t head = __atomic_load_n(&hot->control->head, __ATOMIC_ACQUIRE);

	/* A correct client never reserves more positions than the ring has. */
	if (hot->broken || head - hot->cursor > hot->ring_depth)
		return hot->broken = -EPROTO;
	if (hot->cursor == head || delegrpc_priv_filled(hot, hot->cursor))
		return 0;
	if (hot->cursor >= s->void_end) {
		/* Reads the introductions, because an unread one keeps its client's lock. */
		members_meet(&s->members, &s->w);
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
