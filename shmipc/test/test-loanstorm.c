/* SPDX-License-Identifier: MIT */
/* Calls with loans: in one thread, with steps in random order; and between two threads. */
#include <pthread.h>

#include "loans.h"

/* ---- storm: one thread, any order ---- */

#define STORM_CLIENTS 3
#define STORM_CALLS 6

struct storm_client {
	struct shmipc_client *c;
	struct {
		void *at;
		uint64_t seed;
	} out[STORM_CALLS], held[STORM_CALLS];
	uint32_t n_out, n_held, sent; /* sent: unanswered calls with loans */
	uint64_t seed; /* state of test_rand() */
};

struct storm {
	struct shmipc_server *s;
	struct storm_client client[STORM_CLIENTS];
	struct {
		struct shmipc_req r;
		const void *q;
		uint64_t seed;
	} work[2 * STORM_CLIENTS * STORM_CALLS];
	uint32_t n_work;
	uint64_t seed, answered;
};

/* Bit 0 of a token is set if the call has a loan. The first 8 bytes of a request are the token. */
static void storm_got(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct storm_client *sc = arg;

	sc->sent -= token & 1;
	if (len <= 32) { /* copied: it cannot be held */
		check(resp, len, ~token);
		return;
	}
	check(resp, len, ~token);
	if (sc->n_held < STORM_CALLS / 2 && test_rand(&sc->seed) % 2) {
		CHECK_EQ(shmipc_client_hold(sc->c, resp), 0);
		sc->held[sc->n_held].at = (void *)(uintptr_t)resp;
		sc->held[sc->n_held++].seed = ~token;
	}
}

static void storm_send(struct storm_client *sc, uint64_t seed)
{
	uint64_t token = seed | 1;
	void *at;
	int err;

	if (seed % 5 == 0) {
		token = seed & ~1ull;
		err = shmipc_client_call(sc->c, &token, sizeof(token), token);
		CHECK(err == 0 || err == -EAGAIN);
	} else if (sc->n_out && seed % 5 < 3) {
		at = sc->out[sc->n_out - 1].at;
		check(at, REQ, sc->out[sc->n_out - 1].seed); /* nobody else has written there */
		fill((char *)at + 8, REQ - 8, token);
		memcpy(at, &token, sizeof(token));
		err = shmipc_client_commit(sc->c, at, REQ, token);
		CHECK(err == 0 || err == -EAGAIN);
		if (err)
			fill(at, REQ, sc->out[sc->n_out - 1].seed);
		sc->n_out -= !err;
		sc->sent += !err;
	} else {
		err = shmipc_client_loan(sc->c, &at);
		CHECK_EQ(err, sc->n_out + sc->n_held + sc->sent < STORM_CALLS ? 0 : -EAGAIN);
		if (err)
			return;
		fill(at, REQ, seed);
		sc->out[sc->n_out].at = at;
		sc->out[sc->n_out++].seed = seed;
	}
}

static void storm_answer(struct storm *st, uint32_t i)
{
	struct shmipc_req *r = &st->work[i].r;
	uint64_t token = st->work[i].seed;
	char small[32];
	void *a;
	int err;

	if (token & 1) {
		check((const char *)st->work[i].q + 8, REQ - 8, token);
		err = shmipc_server_loan(st->s, r->client, r->id, &a);
		CHECK(err == 0 || err == -EPIPE);
		if (!err)
			fill(a, RESP, ~token);
	}
	if ((token & 1) && token >> 60) {
		err = shmipc_server_commit(st->s, r->client, r->id, RESP);
	} else {
		fill(small, sizeof(small), ~token);
		err = shmipc_server_reply(st->s, r->client, r->id, small, sizeof(small));
	}
	CHECK(err == 0 || err == -EPIPE);
	st->answered += !err;
	st->work[i] = st->work[--st->n_work];
}

static void storm_server_step(struct storm *st, uint64_t seed)
{
	shmipc_server_poll(st->s);
	while (st->n_work < ARRAY_SIZE(st->work) &&
		shmipc_server_take(st->s, &st->work[st->n_work].r, &st->work[st->n_work].q)) {
		memcpy(&st->work[st->n_work].seed, st->work[st->n_work].q, sizeof(seed));
		st->n_work++;
	}
	while (st->n_work > STORM_CLIENTS || (st->n_work && test_rand(&seed) % 3))
		storm_answer(st, (uint32_t)(test_rand(&seed) % st->n_work));
}

static bool storm_has_room(const struct shmipc_server_loans *loans)
{
	for (uint32_t i = 0; i < loans->layout.attr.max_clients; i++) {
		struct shmipc_place *place = shmipc_place(&loans->layout, loans->header, i);

		if (!(loans->header->active[0] >> i & 1) &&
			place->client_epoch != place->server_epoch)
			return true;
	}
	return false;
}

/*
 * Makes the server clean a place. connect requests this, too, but then waits for the server, which
 * runs in the same thread here.
 */
static void storm_make_room(struct storm *st)
{
	struct shmipc_header *h = st->s->loans->header;

	while (!storm_has_room(st->s->loans)) {
		h->reclaim = 1;
		h->changes++;
		storm_server_step(st, test_rand(&st->seed));
	}
}

static void storm_client_step(struct storm *st, struct storm_client *sc, uint64_t seed)
{
	if (!sc->c) {
		storm_make_room(st);
		*sc = (struct storm_client){.c = client_new(), .seed = seed};
		return;
	}
	switch (seed >> 32 & 15) {
	case 0:
		if ((seed >> 40) % 8)
			break;
		shmipc_client_disconnect(sc->c);
		sc->c = NULL;
		break;
	case 1:
	case 2:
	case 3:
		if (!sc->n_held)
			break;
		sc->n_held--;
		check(sc->held[sc->n_held].at, RESP, sc->held[sc->n_held].seed);
		CHECK_EQ(shmipc_client_release(sc->c, sc->held[sc->n_held].at), 0);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		CHECK(shmipc_client_poll(sc->c, storm_got, sc) >= 0);
		break;
	default:
		storm_send(sc, seed);
	}
}

TEST(storm)
{
	struct shmipc_attr attr = loan_attr;
	struct storm st = {.seed = test_seed()};

	/* The place of a client that has gone is not free until its loans have been answered. */
	attr.max_clients = 3 * STORM_CLIENTS;
	attr.loans = STORM_CALLS;
	st.s = server_with(&attr);
	for (uint32_t i = 0; i < 6000; i++) {
		uint64_t draw = test_rand(&st.seed);

		if (draw % 4 == 0)
			storm_server_step(&st, draw);
		else
			storm_client_step(&st, &st.client[draw / 4 % STORM_CLIENTS],
				test_rand(&st.seed));
	}
	CHECK(st.answered > 100);
	for (uint32_t i = 0; i < STORM_CLIENTS; i++)
		shmipc_client_disconnect(st.client[i].c);
	shmipc_server_destroy(st.s);
}

/* ---- two threads ---- */

static void *serve_thread(void *arg)
{
	struct shmipc_server *s = arg;

	do {
		if (!shmipc_server_serve(s, answer, s, 256))
			shmipc_server_wait(s, NSEC_PER_MSEC);
	} while (!server_stats_of(s).departures);
	return NULL;
}

TEST(threads)
{
	struct shmipc_attr attr = loan_attr;
	SERVER *s;
	struct shmipc_client *c;
	uint32_t n = 0, sent = 0;
	pthread_t t;

	attr.loans = 5;
	s = server_with(&attr);
	CHECK_EQ(pthread_create(&t, NULL, serve_thread, s), 0);
	c = client_new();
	while (n < 3000) {
		while (sent < 3000 && shmipc_client_pending(c) < 5)
			commit(c, REQ, sent++);
		if (!shmipc_client_poll(c, check_echo, &n))
			CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 1);
	}
	shmipc_client_disconnect(c);
	CHECK_EQ(pthread_join(t, NULL), 0);
}
