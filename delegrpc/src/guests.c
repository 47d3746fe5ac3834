/* SPDX-License-Identifier: MIT */
/*
 * Finds the clients that came, left or died, for a server that takes events.
 *
 * A client that takes an id finds `taken` 0 and sets it. Only the server writes 0 again, when the
 * event of this client's end has been taken, or if the client died while it connected. So no client
 * is missed, however briefly it was connected. A client has ended if its lock is free. Requests
 * that it had published may still be in the ring, at positions below the value of head that is read
 * after the lock was found free. The end is reported when all these requests have been received.
 */
#include <errno.h>
#include <stdlib.h>

#include "server.h"

#define TEST_NS (10 * NSEC_PER_MSEC) /* between tests of the locks */
#define CALLS 64 /* calls of guests_look() between two readings of the clock */

struct guest {
	uint64_t until; /* if `leaving`: all requests of the client have smaller positions */
	bool leaving;
	uint8_t end; /* enum member_kind */
};

int guests_init(struct server *s)
{
	s->hot.tells = 1;
	s->guests.of = calloc(s->attr.max_clients, sizeof(*s->guests.of));
	return s->guests.of && members_init(&s->members, s->attr.max_clients) ? 0 : -ENOMEM;
}

/* Acquire: pairs with the release stores in introduce(), take_over() and place_leave(). */
static uint32_t taken_of(const struct server *s, uint32_t i)
{
	return __atomic_load_n(&s->lines[i].taken, __ATOMIC_ACQUIRE);
}

static bool is_here(const struct server *s, uint32_t i)
{
	return s->members.of[i].here && !s->members.of[i].ended && !s->guests.of[i].leaving;
}

/* If the client is here, tests its lock to find out whether it has ended. */
static void test_lock(struct server *s, uint32_t i)
{
	struct guest *g = &s->guests.of[i];

	if (!is_here(s, i) || shm_locked(&s->w.region, CLIENT_BYTE(i)) != 0)
		return;
	g->end = taken_of(s, i) == DELEGRPC_LEFT ? MEMBER_LEFT : MEMBER_DIED;
	g->leaving = true;
	/* Acquire: the client made its reservations before the kernel freed its lock. */
	g->until = __atomic_load_n(&s->hot.control->head, __ATOMIC_ACQUIRE);
	s->guests.leaving++;
}

static void free_id(struct server *s, uint32_t i)
{
	/* Release: pairs with the acquire in id_is_free(). */
	__atomic_store_n(&s->lines[i].taken, 0, __ATOMIC_RELEASE);
}

/*
 * Forgets a client that died while its `taken` was DELEGRPC_COMING. If its lock is free, the second
 * load of `taken` returns the last value that the client wrote.
 */
static void test_coming(struct server *s, uint32_t i)
{
	if (s->members.of[i].here || taken_of(s, i) != DELEGRPC_COMING ||
		shm_locked(&s->w.region, CLIENT_BYTE(i)) != 0 || taken_of(s, i) != DELEGRPC_COMING)
		return;
	members_forget(&s->members, i);
	free_id(s, i);
}

/* Looks at all clients, after some have connected or disconnected. */
static void look_at_all(struct server *s)
{
	for (uint32_t i = 0; i < s->attr.max_clients; i++) {
		uint32_t taken = taken_of(s, i);

		if (!s->members.of[i].here && taken && taken != DELEGRPC_COMING)
			members_admit(&s->members, &s->w, i);
		test_coming(s, i);
		if (taken_of(s, i) == DELEGRPC_LEFT)
			test_lock(s, i);
	}
}

/* Queues the events of clients that have ended and whose requests have all been received. */
static void tell_ends(struct server *s)
{
	for (uint32_t i = 0; i < s->attr.max_clients; i++) {
		struct guest *g = &s->guests.of[i];

		if (!g->leaving || (int64_t)(s->hot.cursor - g->until) < 0)
			continue;
		g->leaving = false;
		s->guests.leaving--;
		members_ended(&s->members, i, g->end);
	}
}

static void test_some(struct server *s)
{
	struct guests *g = &s->guests;
	uint32_t n = s->attr.max_clients;

	for (uint32_t i = 0; i < DELEGRPC_POLL_LOOKS && i < n; i++) {
		test_lock(s, g->next);
		test_coming(s, g->next);
		g->next = g->next + 1 < n ? g->next + 1 : 0;
	}
}

bool guests_look(struct server *s, bool sleeps)
{
	struct guests *g = &s->guests;
	/* Acquire: pairs with the release in tell_server(); the fields `taken` are visible then. */
	uint32_t changes = __atomic_load_n(&s->header->changes, __ATOMIC_ACQUIRE);
	uint64_t now = 0;

	if (!s->members.of)
		return false;
	if (changes != g->seen) {
		g->seen = changes;
		members_meet(&s->members, &s->w);
		look_at_all(s);
	}
	if (sleeps || ++g->calls >= CALLS) {
		g->calls = 0;
		now = clock_ns();
	}
	if (now && now - g->tested_ns >= TEST_NS) {
		g->tested_ns = now;
		members_meet(&s->members, &s->w);
		test_some(s);
	}
	if (g->leaving)
		tell_ends(s);
	return s->members.count;
}

/*
 * Looks for events, and returns true if any have not been taken. Afterwards, for each request that
 * a poll has found, the event of its client's arrival is queued or has been taken.
 */
bool delegrpc_priv_untold(struct delegrpc_server *server)
{
	return guests_look(server_of(server), false);
}

int delegrpc_server_event(struct delegrpc_server *server, struct delegrpc_event *event_p,
	size_t size)
{
	struct server *s = server_of(server);
	struct member_event event;

	if (!s->members.of)
		return -EINVAL;
	guests_look(s, false);
	if (!members_take(&s->members, &event))
		return 0;
	if (event.kind != MEMBER_CAME)
		free_id(s, event.index);
	sized_out(event_p, size, &event, sizeof(event));
	return 1;
}
