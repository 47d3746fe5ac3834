/* SPDX-License-Identifier: MIT */
/* Tests when messages are published, and when a node checks for sleepers, in one thread. */
#include "common.h"

/* Makes @looks polls that find nothing, and checks that none of them flushes. */
static void look_in_vain(struct flux_node *n, uint32_t looks)
{
	uint64_t before = stats_of(n).flushes;
	struct seen s = {0};

	while (looks--) {
		CHECK_EQ(flux_poll(n, on_response, &s), 0);
		CHECK_EQ(stats_of(n).flushes, before);
	}
}

/* A node checks for sleeping peers when nothing comes, and periodically while messages come. */
TEST(when_sleepers_are_looked_for)
{
	FLUX *f = make(3, 0, 0);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	uint64_t before;

	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(stats_of(a).flushes, 0);
	look_in_vain(a, 8 - 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	CHECK_EQ(stats_of(a).flushes, 1);
	look_in_vain(a, 3 * 8); /* nothing has been published since */
	CHECK_EQ(call(a, 1, 0, 0), 0);
	look_in_vain(a, 8 - 1);
	CHECK_EQ(serve(a), 0);
	CHECK_EQ(stats_of(a).flushes, 2);
	/* A wait that finds nothing does not delay the check, however long it spins. */
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(flux_wait(a, 0), 0);
	CHECK_EQ(stats_of(a).flushes, 3);
	/*
	 * A publication restarts the count of polls that find nothing, because a fence right after
	 * the publication would wait for the publication's stores.
	 */
	CHECK_EQ(call(a, 1, 0, 0), 0);
	look_in_vain(a, 8 - 1);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	look_in_vain(a, 8 - 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	CHECK_EQ(stats_of(a).flushes, 4);
	CHECK_EQ(serve(b), 5);
	CHECK_EQ(flux_poll(a, on_response, &s), 5);
	/* Each round adds a burst and a poll that finds an answer. A check follows 64 of them. */
	for (uint32_t i = 1; i <= 64; i++) {
		CHECK_EQ(call(a, 1, 0, 0), 0);
		CHECK_EQ(serve(b), 1);
		CHECK_EQ(flux_poll(a, on_response, &s), 1);
		CHECK_EQ(stats_of(a).flushes, 4 + 2 * i / 64);
	}
	CHECK(stats_of(b).flushes > 0);
	/* A node that publishes nothing more also checks while other messages keep it busy. */
	CHECK_EQ(call(a, 2, 0, 0), 0);
	before = stats_of(a).flushes;
	for (uint32_t i = 0; i < 64; i++) {
		CHECK_EQ(call(b, 0, 0, 0), 0);
		flux_flush(b);
		CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
		take(a);
	}
	CHECK_EQ(stats_of(a).flushes, before + 1);
}

/* Returns the number of messages that the node has collected. */
static uint32_t held(const struct flux_node *n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n->n_open; i++)
		sum += cellring_burst_held(&n->open[i]->ring);
	return sum;
}

/*
 * Makes calls, the last of which are collected. Checks that the function named @how publishes them.
 */
static void burst_is_published(const char *how)
{
	FLUX *f = make(3, 64, 30);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	uint64_t value;
	uint32_t n = 0, from;

	while (held(a) < 3 || held(a) + 1 != a->out[1].burst->ring.limit)
		CHECK_EQ(call(a, 1, n++, 0), 0);
	CHECK(serve(b) < n);
	if (!strcmp(how, "poll"))
		flux_poll(a, on_response, &s);
	else if (!strcmp(how, "wait"))
		flux_wait(a, 0);
	else if (!strcmp(how, "flush"))
		flux_flush(a);
	else if (!strcmp(how, "receive"))
		CHECK_EQ(serve(a), 0);
	else if (!strcmp(how, "leave"))
		flux_leave(a);
	else
		for (; !call(a, 1, n, 0); n++)
			;
	while (recv_one(b, &from, &value, &value) == 1)
		;
	CHECK_EQ(stats_of(b).requests, n);
}

TEST(every_burst_is_published)
{
	burst_is_published("poll");
	burst_is_published("wait");
	burst_is_published("flush");
	burst_is_published("receive");
	burst_is_published("leave");
	burst_is_published("refusal");
}

/*
 * Calls are collected if the node had many in flight at its last poll (not counting polls without
 * new calls), even if it has none in flight now. They are not collected after a poll with few calls
 * in flight.
 */
TEST(calls_in_flight_are_remembered)
{
	FLUX *f = make(2, 64, 31);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};

	for (uint32_t round = 0; round < 3; round++) {
		calls(a, 1, 31);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(serve(b), 31);
		poll_all(a, &s);
		CHECK_EQ(flux_pending(a), 0);
		for (uint32_t i = 1; i < 8; i++) {
			CHECK_EQ(call(a, 1, i, 0), 0);
			CHECK_EQ(held(a), i);
		}
		CHECK_EQ(serve(b), 0);
		/* The eighth call completes the burst, because 31 calls were made in a row. */
		CHECK_EQ(call(a, 1, 0, 0), 0);
		CHECK_EQ(held(a), 0);
		CHECK_EQ(serve(b), 8);
		if (round < 2) { /* the next poll finds many calls in flight again */
			for (uint32_t i = 8; i < 31; i++)
				CHECK_EQ(call(a, 1, i, 0), 0);
			flux_flush(a);
			CHECK_EQ(serve(b), 23);
		}
		poll_all(a, &s);
	}
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(held(a), 1); /* eight were in flight at the last poll */
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	CHECK_EQ(serve(b), 1);
	poll_all(a, &s);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(held(a), 0); /* one was in flight at the last poll */
	CHECK_EQ(serve(b), 1);
}

/* The count of calls wraps at 2^32. After half of that, calls are still collected. */
TEST(calls_go_round)
{
	FLUX *f = make(2, 64, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct flux_out *o = &a->out[1];
	uint32_t *counts[] = {&o->ids_head, &o->ids_tail, &o->polled_head, &o->returned_head};
	struct seen s = {0};

	for (uint32_t round = 0; round < 4; round++) {
		CHECK_EQ(call(a, 1, 0, 0), 0);
		CHECK_EQ(held(a), round > 0);
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
			*counts[i] += 1u << 31;
		calls(a, 1, 11);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(serve(b), 12);
		poll_all(a, &s);
		CHECK(!o->burst);
	}
}

static void call_again(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	CHECK_EQ(call(arg, 1, token, token), 0);
}

/*
 * Calls that are made in succession are published in bursts of eight, and so are the answers. Calls
 * that the response function makes are published in bursts of a quarter of the calls in flight.
 */
TEST(calls_in_a_row_go_together)
{
	FLUX *f = make(2, 0, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	static struct seen s;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 16; i++) {
			CHECK_EQ(call(a, 1, i, i), 0);
			if (round == 2) /* the node has recorded sixteen calls in succession */
				CHECK_EQ(held(a), (i + 1) % 8);
		}
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(serve(b), 16);
		if (round < 2)
			poll_all(a, &s);
	}
	CHECK_EQ(b->in[0].together, 8);
	for (uint32_t turn = 0; turn < 4; turn++) {
		CHECK_EQ(flux_poll(a, call_again, a), 8);
		CHECK_EQ(serve(b), 8);
	}
	CHECK_EQ(a->out[1].burst->ring.limit, 4);
	CHECK_EQ(b->in[0].together, 4);
}

/* After a poll with few calls in flight the next call is published immediately. */
TEST(few_calls_close_an_empty_burst)
{
	FLUX *f = make(2, 0, 16);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};

	for (uint32_t i = 0; i < 16; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		if (i % 8 == 7) /* not sixteen in a row, which would be remembered */
			CHECK_EQ(flux_poll(a, on_response, &s), 0);
	}
	for (uint32_t turn = 0; turn < 4; turn++) {
		CHECK_EQ(serve(b), turn ? 8 : 16);
		CHECK_EQ(flux_poll(a, call_again, a), 8);
	}
	for (uint32_t i = 0; i < 7; i++)
		answer(b, take(b));
	flux_flush(b);
	poll_all(a, &s);
	CHECK_EQ(flux_pending(a), 1);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	flux_flush(a); /* the next burst has four calls */
	for (uint32_t i = 1; i <= 4; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		CHECK_EQ(held(a), i % 4);
	}
	CHECK_EQ(flux_poll(a, on_response, &s), 0); /* six are in flight */
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(held(a), 0);
}

/*
 * If a node answers one call and then polls, its answer stays collected until the next answers fill
 * the burst.
 */
TEST(answers_wait_for_the_next)
{
	FLUX *f = make(2, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};

	for (uint32_t round = 0; round < 2; round++) {
		poll_all(a, &s);
		calls(a, 1, 32);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		if (!round) /* from now on bursts have eight messages */
			CHECK_EQ(serve(b), 32);
	}
	for (uint32_t i = 0; i < 32; i++) {
		struct got g;

		CHECK_EQ(flux_poll(b, on_response, &s), 0);
		CHECK_EQ(held(b), i < 21 ? i % 8 : (i - 20) % 8);
		g = take(b);
		/*
		 * A second poll without an answer publishes: the caller may wait for something
		 * else.
		 */
		if (i == 20) {
			flux_poll(b, on_response, &s);
			CHECK_EQ(held(b), 0);
		}
		answer(b, g);
	}
	CHECK_EQ(flux_poll(b, on_response, &s), 0); /* nothing more to answer */
	CHECK_EQ(held(b), 0);
}

/*
 * Makes @n calls to the peer, and handles the responses. If @n is 8 or more, the next calls to this
 * peer are collected.
 */
static void warm_up(struct flux *f, struct flux_node *a, uint32_t peer, uint32_t n)
{
	static struct seen s;

	calls(a, peer, n);
	flux_poll(a, on_response, &s);
	serve(flux_get_node(f, peer));
	s.n = 0;
	poll_all(a, &s);
}

/* A call or an answer to another node publishes nothing. A poll publishes everything. */
TEST(peers_are_collected_apart)
{
	FLUX *f = make(4, 64, 32);
	struct flux_node *a = flux_get_node(f, 0);
	struct got got[3][4];
	struct seen s = {0};

	for (uint32_t p = 1; p < 4; p++)
		warm_up(f, a, p, 32);
	for (uint32_t i = 0; i < 7; i++)
		for (uint32_t p = 1; p < 4; p++)
			CHECK_EQ(call(a, p, i, i), 0);
	CHECK_EQ(held(a), 21);
	for (uint32_t p = 1; p < 4; p++)
		CHECK_EQ(serve(flux_get_node(f, p)), 0);
	CHECK_EQ(call(a, 2, 7, 7), 0); /* fills a burst; the others stay open */
	CHECK_EQ(held(a), 14);
	CHECK_EQ(serve(flux_get_node(f, 2)), 8);
	CHECK_EQ(flux_poll(a, on_response, &s), 8);
	CHECK_EQ(held(a), 0);
	CHECK_EQ(a->n_open, 3); /* few bursts are not closed */
	CHECK_EQ(serve(flux_get_node(f, 1)) + serve(flux_get_node(f, 3)), 14);
	poll_all(a, &s);
	/* Answers: the node receives four calls of each peer, then answers the peers in turn. */
	for (uint32_t p = 1; p < 4; p++)
		warm_up(f, flux_get_node(f, p), 0, 32);
	for (uint32_t p = 1; p < 4; p++) {
		calls(flux_get_node(f, p), 0, 4);
		flux_flush(flux_get_node(f, p));
	}
	for (uint32_t i = 0; i < 12; i++) {
		struct got g = take(a);

		got[g.from - 1][i % 4] = g;
	}
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t p = 1; p < 4; p++)
			answer(a, got[p - 1][i]);
	CHECK_EQ(held(a), 12);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	CHECK_EQ(held(a), 0);
	for (uint32_t p = 1; p < 4; p++)
		CHECK_EQ(flux_poll(flux_get_node(f, p), on_response, &s), 4);
}

/*
 * A poll between two answers to a peer publishes the messages that are collected for others. If the
 * burst of answers is long, the poll closes the other bursts, so that later polls between two
 * answers need not check them.
 */
static void answers_stay(uint32_t row, uint32_t open)
{
	FLUX *f = make(4, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 3);
	struct seen s = {0};

	for (uint32_t p = 1; p < 3; p++)
		warm_up(f, a, p, 32);
	warm_up(f, b, 0, 2 * row);
	for (uint32_t group = 0; group < 3; group++) {
		if (group == 2)
			serve(a);
		calls(b, 0, row);
		flux_poll(b, on_response, &s);
	}
	for (uint32_t i = 1; i < 3; i++) {
		for (uint32_t p = 1; p < 3; p++)
			CHECK_EQ(call(a, p, i, i), 0);
		answer(a, take(a));
		CHECK_EQ(held(a), i + 2);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(held(a), i);
		CHECK_EQ(a->n_open, open);
	}
}

TEST(answers_stay_alone)
{
	answers_stay(8, 1);
	answers_stay(6, 3);
}

/* When the turn of the next peer begins, the answers to the previous peer are published. */
TEST(answers_go_when_the_turn_ends)
{
	FLUX *f = make(3, 64, 32);
	struct flux_node *a = flux_get_node(f, 0);
	struct got first;
	struct seen s = {0};

	for (uint32_t p = 1; p < 3; p++)
		warm_up(f, flux_get_node(f, p), 0, 32);
	for (uint32_t p = 1; p < 3; p++) {
		CHECK_EQ(call(flux_get_node(f, p), 0, 1, 1), 0);
		flux_flush(flux_get_node(f, p));
	}
	first = take(a);
	answer(a, first);
	CHECK_EQ(held(a), 1);
	CHECK_EQ(flux_poll(flux_get_node(f, first.from), on_response, &s), 0);
	CHECK(take(a).from != first.from);
	CHECK_EQ(held(a), 0);
	CHECK_EQ(flux_poll(flux_get_node(f, first.from), on_response, &s), 1);
}

/* When a peer begins to publish its calls alone, the answers to it are published alone, too. */
TEST(answers_to_single_calls_are_single)
{
	FLUX *f = make(2, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};

	warm_up(f, a, 1, 32);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(serve(b), 1);
		CHECK_EQ(flux_poll(a, on_response, &s), 1);
	}
	CHECK_EQ(call(a, 1, 4, 4), 0);
	answer(b, take(b));
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
}

/* A node has at most 32 bursts open. Before it collects for one more peer, it publishes these. */
TEST(more_peers_than_bursts)
{
	FLUX *f = make(FLUX_MAX_NODES, 64, 32);
	struct flux_node *a = flux_get_node(f, 0);
	uint32_t most = 0;

	for (uint32_t p = 1; p < FLUX_MAX_NODES; p++)
		warm_up(f, a, p, 32);
	for (uint32_t i = 0; i < 16; i++)
		for (uint32_t p = 1; p < FLUX_MAX_NODES; p++) {
			CHECK_EQ(call(a, p, i, i), 0);
			CHECK(a->n_open <= 32);
			most = a->n_open > most ? a->n_open : most;
		}
	CHECK_EQ(most, 32);
	flux_flush(a);
	CHECK_EQ(a->n_open, 4); /* so that a poll need not check many bursts */
	for (uint32_t p = 1; p < FLUX_MAX_NODES; p++)
		CHECK_EQ(serve(flux_get_node(f, p)), 16);
	for (struct seen s = {0}; flux_pending(a); s.n = 0)
		CHECK(flux_poll(a, on_response, &s) > 0);
}

/*
 * A collected call is published at the latest by the 512th call or answer after it, whichever peers
 * these go to and however they are published.
 */
TEST(collected_calls_are_published_in_time)
{
	for (uint32_t others = 1; others <= 40; others++) {
		FLUX *f = make(43, 1024, 512);
		struct flux_node *a = flux_get_node(f, 0);
		uint32_t n = 0;

		/* Calls to every third peer are published alone. */
		for (uint32_t p = 1; p <= others + 1; p++)
			warm_up(f, a, p, p % 3 ? 32 : 4);
		CHECK_EQ(call(a, 1, 0, 0), 0);
		while (!serve(flux_get_node(f, 1))) {
			CHECK(n <= 512);
			CHECK_EQ(call(a, 2 + n % others, 0, 0), 0);
			n++;
		}
	}
}

/* Polls that leave answers to one peer collected do not put off their publication. */
TEST(collected_answers_are_published_in_time)
{
	FLUX *f = make(4, 1024, 512);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 3);
	struct seen s = {0};
	uint32_t n = 0;

	for (uint32_t p = 1; p < 3; p++)
		warm_up(f, a, p, 32);
	warm_up(f, b, 0, 32);
	calls(b, 0, 16);
	CHECK_EQ(flux_poll(b, on_response, &s), 0);
	answer(a, take(a));
	CHECK_EQ(held(a), 1);
	while (!flux_poll(b, on_response, &s)) {
		CHECK(n <= 512);
		if (a->gathered + 1 == FLUX_GATHER) { /* the next event publishes everything */
			CHECK_EQ(flux_poll(a, on_response, &s), 0);
			answer(a, take(a));
			n++;
		}
		CHECK_EQ(call(a, 1 + n % 2, 0, 0), 0);
		n++;
	}
}

/*
 * An answer that is collected for one peer is published in time, although the node serves two others
 * in turns of seven calls, whose answers it publishes at the end of each turn.
 */
TEST(answers_of_turns_are_counted)
{
	FLUX *f = make(4, 1024, 512);
	struct flux_node *a = flux_get_node(f, 0);
	struct got got, kept = {0};
	struct seen s = {0};
	uint32_t n = 0, last = 2;

	for (uint32_t p = 1; p < 4; p++) {
		calls(flux_get_node(f, p), 0, 48); /* most of which are never answered */
		flux_flush(flux_get_node(f, p));
	}
	for (uint32_t i = 0; i < 3 * 48; i++) {
		got = take(a);
		if (got.from == 1)
			kept = got;
	}
	for (uint32_t p = 2; p < 4; p++) {
		calls(flux_get_node(f, p), 0, 7);
		flux_flush(flux_get_node(f, p));
	}
	answer(a, take(a)); /* so that the turn is not that of the first peer */
	answer(a, kept);
	CHECK_EQ(held(a), 2);
	while (!flux_poll(flux_get_node(f, 1), on_response, &s)) {
		CHECK(n <= 512);
		got = take(a);
		answer(a, got);
		n++;
		if (got.from == last)
			continue;
		calls(flux_get_node(f, last), 0, 7);
		flux_flush(flux_get_node(f, last));
		last = got.from;
	}
}

/*
 * A collected call is published in time also if the node does not collect for all peers. The calls
 * to the other peers are published alone.
 */
TEST(single_calls_are_counted)
{
	FLUX *f = make(9, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	uint32_t n = 0;

	warm_up(f, a, 1, 12);
	for (uint32_t p = 2; p < 9; p++)
		warm_up(f, a, p, 1);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(held(a), 1);
	for (; !serve(b); n++)
		CHECK_EQ(call(a, 2 + n % 7, 0, 0), 0);
	CHECK_EQ(n, 31);
}

/*
 * The 32nd event publishes everything. Events are: a burst is opened or becomes full, a call or an
 * answer is published alone. The first call in this test opens a burst.
 */
TEST(events_are_counted)
{
	FLUX *f = make(9, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1),
			 *c = flux_get_node(f, 3);
	struct seen s = {0};
	uint32_t n = 0;

	warm_up(f, a, 1, 32);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	for (; !serve(b); n++) /* few calls are in flight to each of the others */
		CHECK_EQ(call(a, 2 + n % 7, 0, 0), 0);
	CHECK_EQ(n, 31);
	flux_flush(a);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	for (n = 0; !serve(b); n++) { /* the answers to node 3 are published alone, too */
		CHECK_EQ(call(c, 0, 0, 0), 0);
		answer(a, take(a));
		CHECK_EQ(flux_poll(c, on_response, &s), 1);
	}
	CHECK_EQ(n, 32); /* not 31: the burst was open already, which is no event */
}

/* Makes @n calls to nodes 1 to @peers in turn. Returns how many of them are collected. */
static uint32_t calls_in_turn(struct flux *f, uint32_t peers, uint32_t n)
{
	struct flux_node *a = flux_get_node(f, 0);
	struct seen s = {0};
	uint32_t collected;

	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(call(a, 1 + i % peers, i, i), 0);
	collected = held(a);
	flux_poll(a, on_response, &s);
	for (uint32_t p = 1; p <= peers; p++)
		serve(flux_get_node(f, p));
	poll_all(a, &s);
	CHECK_EQ(s.n, n);
	return collected;
}

/*
 * Even if few calls are in flight to each peer, calls to a peer are published together if at least
 * sixteen calls in a row were made to all peers, and at least two for each peer.
 */
static void few_calls(uint32_t peers, uint32_t all, bool together)
{
	FLUX *f = make(10, 0, 16);

	for (uint32_t round = 0; round < 3; round++)
		CHECK_EQ(calls_in_turn(f, peers, all), round && together ? all : 0);
}

TEST(few_calls_go_together_between_peers)
{
	few_calls(4, 16, true);
	few_calls(3, 18, true);
	few_calls(3, 15, false);
	few_calls(8, 16, true);
	few_calls(9, 17, false);
	few_calls(1, 7, false);
}

/* A node that made many calls in a row still collects after one poll with few calls. */
TEST(many_calls_are_remembered_once)
{
	FLUX *f = make(5, 0, 16);

	CHECK_EQ(calls_in_turn(f, 4, 16), 0);
	CHECK_EQ(calls_in_turn(f, 4, 3), 3);
	CHECK_EQ(calls_in_turn(f, 4, 3), 3);
	CHECK_EQ(calls_in_turn(f, 4, 16), 0);
}

struct sized {
	uint32_t size, n;
};

static void on_sized(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct sized *t = arg;

	t->n++;
	test_filled(payload, t->size, 100 + token);
}

/* Checks that each byte of calls and answers of these sizes arrives. */
static void size_arrives(uint32_t req, uint32_t resp)
{
	FLUX *f = make_of(2, 13, 12, req, resp);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	unsigned char *out = malloc(req + resp), *in = malloc(req + resp);
	struct sized t = {resp, 0};
	uint64_t token;
	uint32_t from;

	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 12; i++) {
			test_fill(out, req, round + i);
			CHECK_EQ(flux_call(a, 1, out, req, round + i), 0);
		}
		flux_flush(a);
		for (uint32_t i = 0; i < 12; i++) {
			CHECK_EQ(flux_try_recv_raw(b, &from, &token, in, req, NULL), 1);
			test_filled(in, req, round + i);
			test_fill(out, resp, 100 + round + i);
			CHECK_EQ(flux_reply(b, token, out, resp), 0);
		}
		flux_flush(b);
		while (flux_poll(a, on_sized, &t))
			;
		CHECK_EQ(t.n, 12 * (round + 1));
	}
	free(out);
	free(in);
}

TEST(all_sizes)
{
	static const uint32_t size[] = {1, 7, 8, 12, 16, 32, 40, 56, 57, 120, 121, 200, 4097};

	for (size_t i = 0; i < ARRAY_SIZE(size); i++)
		for (size_t k = 0; k < ARRAY_SIZE(size); k++)
			size_arrives(size[i], size[k]);
}

/* ---- payload that looks like a head ---- */

#define FORGED_WORDS 4

/* Fills @words with values that look like heads of this or of the next lap. */
static void forged(uint64_t *words, const struct flux_cursor *c, uint32_t i)
{
	for (uint32_t k = 0; k < FORGED_WORDS; k++)
		words[k] = CELLRING_HEAD(c->at.lap + (i + k) % 2, 1, 1) | (i & 7);
}

static void on_forged(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	uint32_t *taken = arg;

	CHECK_EQ(token, *taken);
	CHECK(payload);
	++*taken;
}

/*
 * Bursts begin at places where other bursts had payload one lap ago. The reader does not mistake
 * payload for a head.
 */
TEST(payload_is_no_head)
{
	FLUX *f = make_of(2, 64, 40, FORGED_WORDS * 8, FORGED_WORDS * 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	uint64_t words[FORGED_WORDS], got[FORGED_WORDS], call, seed = test_seed();
	uint32_t sent = 0, taken = 0, from;

	while (sent < 20000) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % 40), expected = sent;

		for (uint32_t i = 0; i < n; i++, sent++) {
			forged(words, &a->out[1].req, sent);
			CHECK_EQ(flux_call(a, 1, words, sizeof(words), sent), 0);
			if (test_rand(&seed) % 4 == 0)
				flux_flush(a);
		}
		flux_flush(a);
		while (flux_try_recv_raw(b, &from, &call, got, sizeof(got), NULL) == 1) {
			CHECK_EQ(got[0] & 7, expected++ & 7);
			forged(words, &b->in[0].resp, expected);
			CHECK_EQ(flux_reply(b, call, words, sizeof(words)), 0);
			if (test_rand(&seed) % 4 == 0)
				flux_flush(b);
		}
		CHECK_EQ(expected, sent);
		while (flux_poll(a, on_forged, &taken))
			;
		CHECK_EQ(taken, sent);
	}
}
