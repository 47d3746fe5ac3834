/* SPDX-License-Identifier: MIT */
/*
 * delegrpc's rings in one thread: reserved slots that are never filled (holes), ids that are used
 * again, counters at their wrap, and data that no correct client writes.
 */
#include "solo.h"

/* A slot that a living client has reserved holds back the requests after it until it is filled. */
TEST(hole_is_waited_for)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c = client_new();
	uint64_t pos;
	uint32_t v = 0;
	RAW *raw = raw_open(test_name);

	pos = raw_reserve(raw, 2, 2);
	call_out(c, 100);
	CHECK_EQ(poll_stuck(s), 0);
	CHECK_EQ(poll_stuck(s), 0);
	raw_fill(raw, pos + 1, 2, RAW_ID(1, 1), 8);
	CHECK_EQ(poll_stuck(s), 0);
	raw_fill(raw, pos, 2, RAW_ID(1, 0), 7);
	CHECK_EQ(delegrpc_server_poll(s), 3);
	take(s, 7);
	take(s, 8);
	take(s, 100);
	CHECK_EQ(delegrpc_client_call(c, &v, 4, 0), 0);
}

/* A dead client has filled one of its two slots. This slot is served, the other is skipped. */
TEST(hole_of_the_dead_is_skipped)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c = client_new();
	struct raw *raw;
	uint64_t pos;

	for (uint32_t lap = 0; lap < 3 * 256 / 4; lap++) {
		raw = raw_open(test_name);
		pos = raw_reserve(raw, 2, 2);
		raw_fill(raw, pos + lap % 2, 2, RAW_ID(lap + 1, 0), 7);
		call_out(c, 100);
		CHECK_EQ(poll_stuck(s), lap % 2 ? 0 : 1);
		raw_close(raw); /* the client dies */
		if (lap % 2 == 0)
			take(s, 7);
		CHECK(poll_stuck(s) >= 1);
		if (lap % 2)
			take(s, 7);
		while (delegrpc_server_poll(s) == 0)
			;
		take(s, 100);
		delegrpc_server_advance_tail(s);
		delegrpc_client_disconnect(c);
		c = client_new();
		CHECK_EQ(server_stats_of(s).holes, lap + 1);
		CHECK_EQ(server_stats_of(s).bad_requests, 0);
	}
}

/*
 * One client died before it stored a position in its claim, another one before it stored any claim.
 */
TEST(nameless_holes_are_skipped)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c = client_new();
	struct raw *raw = raw_open(test_name);

	raw_reserve(raw, 2, 3);
	raw->lines[2].claim = DELEGRPC_CLAIM_INTENT;
	__atomic_fetch_add(&raw->control->head, 5, __ATOMIC_ACQ_REL);
	call_out(c, 100);
	CHECK_EQ(poll_stuck(s), 0);
	raw_close(raw);
	while (delegrpc_server_poll(s) == 0)
		;
	take(s, 100);
}

/*
 * A client died and left holes. Its successor can make calls although the server does not call
 * delegrpc_server_advance_tail(), because it has received no request.
 */
TEST(skipped_places_are_given_back)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c;
	struct delegrpc_req held;
	struct raw *raw = raw_open(test_name);

	raw_reserve(raw, 0, 3);
	raw_close(raw); /* the client dies */
	c = client_new();
	call(c, 100);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	for (uint32_t i = 0; i < 1000 && s->tail != 3; i++)
		CHECK_EQ(delegrpc_server_wait(s, NSEC_PER_MSEC), 0);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK_EQ(delegrpc_server_wait(s, UINT64_MAX), 1);
	held = take(s, 100);
	delegrpc_client_disconnect(c);
	raw = raw_open(test_name);
	raw_reserve(raw, 0, 3);
	raw_close(raw);
	c = client_new();
	call(c, 101);
	/* Holes after a held request are given back only together with that request. */
	CHECK_EQ(poll_stuck(s), 0);
	CHECK_EQ(s->cursor, 7);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	CHECK_EQ(value_of(&held), 100);
	delegrpc_server_advance_tail(s);
	CHECK_EQ(delegrpc_client_flush(c), 0);
}

/*
 * The slots of dropped requests, too, are given back without delegrpc_server_advance_tail(), if all
 * slots before them have been given back.
 */
TEST(dropped_places_are_given_back)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c;
	struct delegrpc_req r;
	uint64_t pos;
	struct raw *raw = raw_open(test_name);

	pos = raw_reserve(raw, 0, 3);
	raw_fill(raw, pos, 9, RAW_ID(1, 0), 7);
	raw_fill(raw, pos + 1, 0, RAW_ID(1, 0), 7);
	raw_fill(raw, pos + 2, 0, RAW_ID(1, 0), 8); /* the same id */
	raw_close(raw);
	CHECK_EQ(delegrpc_server_poll(s), 3);
	take(s, 7);
	CHECK_EQ(s->tail, 1);
	delegrpc_server_advance_tail(s);
	CHECK_EQ(delegrpc_server_recv(s, &r), 0);
	CHECK_EQ(s->tail, 3);
	c = client_new();
	call_out(c, 100);
}

/*
 * All slots of the ring are reserved, but not by a client. The claim of every id except 0 says that
 * the client with this id may fill some of them. One poll does a limited part of the search for
 * living clients among them; the whole search tests the lock of each of these ids once.
 */
TEST(search_is_bounded)
{
	SERVER *s = server_new(1024, 0, 64);
	CLIENT *c = client_new();
	uint64_t looks = 0, cursor = 0;
	uint32_t polls = 0;
	RAW *raw = raw_open(test_name);

	for (uint32_t i = 1; i < 1024; i++)
		raw->lines[i].claim = i % 2 ? DELEGRPC_CLAIM_INTENT : DELEGRPC_CLAIM_AT(i, 63);
	__atomic_fetch_add(&raw->control->head, 1024 * 64, __ATOMIC_ACQ_REL);
	while (s->cursor != 1024 * 64) {
		CHECK_EQ(delegrpc_server_poll(s), 0);
		CHECK(server_stats_of(s).looks - looks <= 64); /* DELEGRPC_POLL_LOOKS */
		CHECK(s->cursor - cursor <= 1024); /* DELEGRPC_POLL_SKIPS */
		looks = server_stats_of(s).looks;
		cursor = s->cursor;
		CHECK(++polls < 1000);
	}
	CHECK_EQ(looks, 1023);
	CHECK_EQ(server_stats_of(s).holes, 1024 * 64);
	call_out(c, 100);
	CHECK_EQ(serve(s), 1);
}

/* The search also ends if it is done in a wait. */
TEST(search_of_a_wait_ends)
{
	SERVER *s = server_new(256, 0, 64);
	RAW *raw = raw_open(test_name);

	for (uint32_t i = 0; i < 256; i++)
		raw->lines[i].claim = DELEGRPC_CLAIM_INTENT;
	__atomic_fetch_add(&raw->control->head, 256 * 64, __ATOMIC_ACQ_REL);
	while (s->tail != 256 * 64)
		CHECK_EQ(delegrpc_server_wait(s, NSEC_PER_MSEC), 0);
	CHECK_EQ(server_stats_of(s).looks, 256);
}

/* Slots that a living client has claimed are waited for; holes before and after are skipped. */
TEST(claims_of_the_living_count)
{
	struct delegrpc_server *s = server_new(8, 0, 16);
	struct raw *dead, *alive;
	uint64_t pos;

	dead = raw_open(test_name);
	alive = raw_open(test_name);
	raw_reserve(dead, 1, 3);
	pos = raw_reserve(alive, 2, 2);
	raw_reserve(dead, 1, 3);
	raw_close(dead);
	CHECK_EQ(poll_stuck(s), 0);
	CHECK_EQ(s->cursor, pos);
	CHECK_EQ(poll_stuck(s), 0);
	CHECK_EQ(s->cursor, pos);
	raw_fill(alive, pos, 2, RAW_ID(1, 0), 7);
	raw_fill(alive, pos + 1, 2, RAW_ID(1, 1), 8);
	CHECK_EQ(delegrpc_server_poll(s), 2);
	take(s, 7);
	take(s, 8);
	CHECK_EQ(poll_stuck(s), 0);
	CHECK_EQ(s->cursor, 8);
	raw_close(alive);
	delegrpc_server_destroy(s);
}

/*
 * A client takes over an id. It reserves slots only after the requests of its predecessor have been
 * given back, and does not take the responses to them for its own.
 */
TEST(id_is_reused)
{
	SERVER *s = server_new(1, 0, 4);
	CLIENT *c = client_new();
	struct delegrpc_req old[3], r;
	struct seen seen = {0};
	uint32_t v = 9;

	calls_out(c, 3);
	delegrpc_client_disconnect(c);
	c = client_new();
	CHECK_EQ(delegrpc_client_call(c, &v, 4, v), 0);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN); /* the ring has older requests */
	CHECK_EQ(delegrpc_server_poll(s), 3);
	for (uint32_t i = 0; i < 3; i++)
		old[i] = take(s, i);
	answer(s, &old[0], 1); /* no client reads it */
	delegrpc_server_advance_tail(s);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	answer(s, &old[1], 1); /* nor this one */
	r = take(s, 9);
	CHECK_EQ(delegrpc_server_reply(s, old[2].client, old[2].id, &v, 4), -EPIPE);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	answer(s, &r, 1009);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	CHECK_EQ(seen.token[0], 9);
	CHECK_EQ(seen.value[0], 1009);
}

/*
 * The server holds a request of a client that has left, whose generation was @generation. @more
 * generations later another client with the same id connects, and gets generation @next. The server
 * has received no request of the clients in between. A reply to the held request is not read if it
 * is made before the server receives a request of the present client, and refused with -EPIPE if it
 * is made after that. The present client gets the response to its own request.
 */
static void held_while_others_come(uint64_t generation, uint64_t more, uint64_t next)
{
	SERVER *s = server_new(1, 256, 4);
	CLIENT *c;
	struct delegrpc_req held, r;
	struct seen seen = {0};
	RAW *raw = raw_open(test_name);

	raw->lines[0].generation = generation - 1;
	c = client_new();
	held = pass(c, s, 1);
	CHECK(held.id >> DELEGRPC_ID_SHIFT == generation);
	delegrpc_server_advance_tail(s);
	delegrpc_client_disconnect(c);
	raw->lines[0].generation = generation + more - 1;
	raw->lines[0].published += 100; /* a client in between published, the later ones did not */
	c = client_new();
	CHECK(raw->lines[0].generation == next);
	call_out(c, 5);
	/* No client reads it. */
	CHECK_EQ(delegrpc_server_reply(s, held.client, held.id, "late", 4), 0);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	r = take(s, 5);
	CHECK_EQ((uint16_t)r.id, (uint16_t)held.id);
	CHECK_EQ(delegrpc_server_reply(s, held.client, held.id, "late", 4), -EPIPE);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	answer(s, &r, 1005);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	CHECK_EQ(seen.value[0], 1005);
}

TEST(held_request_of_a_predecessor)
{
	held_while_others_come(1, 1, 2);
	held_while_others_come(1, 65535, 65536);
	held_while_others_come(1, 65536, 65538); /* not 65537: its lower 16 bits are those of 1 */
	held_while_others_come(65535, 65536, 131072);
	held_while_others_come(7, 1ull << 32, (1ull << 32) + 8);
	held_while_others_come(7, 5ull << 40, (5ull << 40) + 8);
	held_while_others_come(DELEGRPC_GENERATION_MAX - 1, 1, DELEGRPC_GENERATION_MAX);
	held_while_others_come(DELEGRPC_GENERATION_MAX, 1, 1);
}

/*
 * The server holds requests of four clients that had the same id. The generations of the first and
 * the third have the same lower 16 bits, and those of the second and the fourth, too.
 */
TEST(held_while_others_call)
{
	static const uint64_t after[] = {0, 0, 65534, 1ull << 32}, is[] = {1, 2, 65537, 4295032834};
	SERVER *s = server_new(1, 256, 4);
	struct delegrpc_req held[ARRAY_SIZE(is)];
	RAW *raw = raw_open(test_name);

	for (uint32_t i = 0; i < ARRAY_SIZE(is); i++) {
		CLIENT *c;
		struct seen seen = {0};

		raw->lines[0].generation += after[i];
		c = client_new();
		CHECK(raw->lines[0].generation == is[i]);
		held[i] = pass(c, s, i);
		delegrpc_server_advance_tail(s);
		for (uint32_t k = 0; k < i; k++)
			CHECK_EQ(delegrpc_server_reply(s, 0, held[k].id, "late", 4), -EPIPE);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		if (i + 1 == ARRAY_SIZE(is))
			answer(s, &held[i], 7);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), i + 1 == ARRAY_SIZE(is));
	}
}

/*
 * A client has published a request and left. The server receives the request only after many
 * successors. The stamp of a response contains the lower 16 bits of the client's generation. Those
 * of the last successor differ, so it does not take the response to that request for its own.
 */
TEST(unreceived_request_of_a_predecessor)
{
	SERVER *s = server_new(1, 256, 4);
	CLIENT *c = client_new();
	struct delegrpc_req late, r;
	struct seen seen = {0};
	RAW *raw = raw_open(test_name);

	call_out(c, 1);
	delegrpc_client_disconnect(c);
	raw->lines[0].generation += 65535;
	c = client_new();
	call(c, 5);
	CHECK_EQ(delegrpc_client_flush(c), -EAGAIN);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	late = take(s, 1);
	delegrpc_server_advance_tail(s);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	answer(s, &late, 666);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	r = take(s, 5);
	answer(s, &r, 1005);
	delegrpc_server_flush(s);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	CHECK_EQ(seen.value[0], 1005);
}

/* Laps and generations at the end of their range. */
TEST(counters_wrap)
{
	SERVER *s = server_new(1, 256, 4);
	CLIENT *c;
	uint64_t at = ((1ull << 32) - 3) * 256 + 128;
	RAW *raw = raw_open(test_name);

	raw->control->head = at;
	raw->control->tail = at;
	s->cursor = s->found = s->tail = at;
	raw->lines[0].generation = 65530;
	for (uint32_t k = 0; k < 12; k++) {
		c = client_new();
		for (uint32_t i = 0; i < 100; i++) {
			struct seen seen = {0};

			call_out(c, i);
			CHECK_EQ(serve(s), 1);
			CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
			CHECK_EQ(seen.value[0], i + 1000);
		}
		delegrpc_client_disconnect(c);
	}
	CHECK_EQ(raw->lines[0].generation, 65542);
	CHECK_EQ(s->cursor, at + 1200);
	/*
	 * A stamp has 16 bits for the lap of the response's position. These bits wrap, too; the
	 * positions are set to shortly before that.
	 */
	c = client_new();
	call_out(c, 1);
	CHECK_EQ(serve(s), 1);
	s->peers[0].next = c->done = c->sent = 4 * 65534ull;
	CHECK_EQ(serve(s), 0);
	c->sent++;
	s->peers[0].next++;
	c->done++;
	c->calls[0].next = c->free_id;
	c->free_id = 0;
	c->pending = 0;
	for (uint32_t i = 0; i < 40; i++) {
		struct seen seen = {0};

		call_out(c, i);
		CHECK_EQ(serve(s), 1);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	}
}

/* Requests that no correct client makes are dropped, and the next one is served. */
TEST(bad_requests)
{
	SERVER *s = server_new(4, 0, 16);
	CLIENT *c = client_new();
	struct delegrpc_req r;
	uint64_t pos;
	RAW *raw = raw_open(test_name);

	pos = raw_reserve(raw, 1, 7);
	raw_fill(raw, pos, 4, RAW_ID(1, 0), 1); /* wrong client */
	raw_fill(raw, pos + 1, UINT32_MAX, RAW_ID(1, 0), 1);
	raw_fill(raw, pos + 2, 1, RAW_ID(1, 16), 1); /* wrong id */
	raw_fill(raw, pos + 3, 1, 3, 1); /* wrong generation */
	raw_fill(raw, pos + 4, 1, RAW_ID(1, 3), 1); /* correct */
	raw_fill(raw, pos + 5, 1, RAW_ID(1, 3), 1); /* the same id again */
	raw_fill_length(raw, pos + 6, 1, RAW_ID(1, 4), 1, 49); /* wrong length */
	call_out(c, 5);
	CHECK_EQ(delegrpc_server_poll(s), 8);
	r = take(s, 1);
	CHECK_EQ(r.client, 1);
	CHECK_EQ(r.id, RAW_ID(1, 3));
	take(s, 5);
	CHECK_EQ(delegrpc_server_recv(s, &r), 0);
	CHECK_EQ(server_stats_of(s).bad_requests, 6);
	CHECK_EQ(server_stats_of(s).requests, 2);
}

/* If the indices have values that correct clients cannot cause, all processes get an error. */
TEST(broken_indices)
{
	static const uint64_t by[] = {257, 1ull << 40, UINT64_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(by); i++) {
		SERVER *s = server_new(4, 0, 16);
		CLIENT *c = client_new();
		struct seen seen = {0};
		RAW *raw = raw_open(test_name);

		raw->control->head += by[i];
		CHECK_EQ(poll_stuck(s), -EPROTO);
		CHECK_EQ(delegrpc_server_poll(s), -EPROTO);
		CHECK_EQ(delegrpc_server_wait(s, UINT64_MAX), -EPROTO);
		while (delegrpc_client_poll(c, note, &seen) == 0)
			;
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), -EPIPE);
	}
}
