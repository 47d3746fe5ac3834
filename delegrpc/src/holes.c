/* SPDX-License-Identifier: MIT */
/*
 * Holes: positions that a client has reserved and, because it died, never fills.
 *
 * A sweep reads head and then looks once at each client: what may it still fill, and, if
 * that matters, does it live? A position below that head was reserved before the sweep
 * began, so its owner's intent is visible. A client that takes a dead one's id later
 * reserves at or behind that head. So positions below head that no living client claimed are
 * filled by nobody after the sweep; those that a look at the slot then finds empty are holes.
 *
 * That stays true, so a sweep, and the skipping of what it found, may take several polls.
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
	 * When a claim has moved on, what was filled under it is seen by the look at the slot.
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

/* Goes on with the sweep. True at its end. */
static bool sweep_clients(struct server *s)
{
	struct sweep *sweep = &s->sweep;
	uint32_t looks = 0;

	/* A limit at the cursor: the next position may be filled yet. */
	for (; sweep->next < s->attr.max_clients && sweep->limit > s->hot.cursor; sweep->next++) {
		uint64_t from = claimed_from(s, sweep->next);

		if (from >= sweep->limit)
			continue;
		if (looks++ == DELEGRPC_POLL_LOOKS)
			return false;
		s->looks++;
		if (shm_locked(&s->region, CLIENT_BYTE(sweep->next)) != 0)
			sweep->limit = from;
	}
	return true;
}

/* Returns -EPROTO, as every poll from now on will. */
static int give_up(struct server *s)
{
	if (!s->hot.broken) {
		s->hot.broken = -EPROTO;
		announce_end(s);
	}
	return -EPROTO;
}

/* What is skipped is given back at once unless a request before it is not: nobody else will. */
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

	/* More than fits cannot be reserved by the rules: somebody broke them. */
	if (hot->broken || head - hot->cursor > hot->ring_depth)
		return give_up(s);
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

/*
 * Nothing came for long (cursor == found): is the ring empty, or is a dead client's
 * reservation in the way? Returns what poll returns.
 */
int delegrpc_priv_unstick(struct delegrpc_server *server)
{
	int more = skip_holes(server_of(server));

	if (more > 0)
		server->empty = DELEGRPC_STUCK_POLLS - 1; /* the next empty poll goes on */
	return more < 0 ? more : 0;
}
