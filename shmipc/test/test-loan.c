/* SPDX-License-Identifier: MIT */
/* Loans: requests and responses that are not copied. */
#include "support/spawn.h"
#include "loans.h"

/* The response that the response function got. If `hold` is set, the function holds it. */
struct got {
	struct shmipc_client *c;
	uint64_t token;
	const void *resp;
	uint32_t len, n;
	bool hold;
};

static void get(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct got *g = arg;

	g->token = token;
	g->resp = resp;
	g->len = len;
	g->n++;
	if (g->hold)
		CHECK_EQ(shmipc_client_hold(g->c, resp), 0);
}

static struct shmipc_req take(struct shmipc_server *s, const void **payload_p)
{
	struct shmipc_req r = {0};

	CHECK(shmipc_server_poll(s) > 0);
	CHECK_EQ(shmipc_server_take(s, &r, payload_p), 1);
	return r;
}

static uint64_t bad_requests(struct shmipc_server *s)
{
	return server_stats_of(s).bad_requests;
}

/* Returns how many chunks the client can still take, and gives them back. */
static uint32_t chunks_free(struct shmipc_client *c)
{
	void *at[LOANS];
	uint32_t n = 0;

	while (n < LOANS && shmipc_client_loan(c, &at[n]) == 0)
		n++;
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(shmipc_client_release(c, at[i]), 0);
	return n;
}

TEST(sizes)
{
	static const struct {
		uint32_t loans, req, resp;
		int err;
	} row[] = {
		{0, 0, 0, 0},
		{1, 1, 0, 0},
		{1, 0, 1, 0},
		{SHMIPC_MAX_LOANS, 1, 1, 0},
		{1, SHMIPC_MAX_LOAN, SHMIPC_MAX_LOAN, 0},
		{1, 0, 0, -EINVAL},
		{0, 1, 0, -EINVAL},
		{0, 0, 1, -EINVAL},
		{SHMIPC_MAX_LOANS + 1, 1, 1, -EINVAL},
		{1, SHMIPC_MAX_LOAN + 1, 1, -EINVAL},
		{1, 1, SHMIPC_MAX_LOAN + 1, -EINVAL},
	};
	struct shmipc_layout l, plain;
	struct shmipc_attr a = {.max_clients = 1};

	CHECK_EQ(shmipc_layout_plan(&a, &plain), 0);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		a.loans = row[i].loans;
		a.loan_req_size = row[i].req;
		a.loan_resp_size = row[i].resp;
		CHECK_EQ(shmipc_layout_plan(&a, &l), row[i].err);
		if (!row[i].err)
			CHECK_EQ(l.size - plain.size,
				row[i].loans *
					(align_up(row[i].req, 64) + align_up(row[i].resp, 64)));
	}
}

TEST(connect_compares_sizes)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = NULL;
	struct shmipc_attr a;

	CHECK(s);
	for (uint32_t i = 0; i < 3; i++) {
		a = loan_attr;
		(&a.loans)[i]++;
		CHECK_EQ(shmipc_client_connect(test_name, &a, &c), -EPROTO);
	}
	CHECK_EQ(shmipc_client_connect(test_name, &loan_attr, &c), 0);
	shmipc_client_get_attr(c, &a, sizeof(a));
	CHECK(a.loans == LOANS && a.loan_req_size == REQ && a.loan_resp_size == RESP);
}

TEST(both_directions_in_place)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c, .hold = true};
	const void *q = NULL;
	struct shmipc_req r;
	void *a = NULL;

	for (uint64_t i = 1; i < 30; i++) {
		commit(c, REQ, i);
		r = take(s, &q);
		CHECK_EQ(r.len, REQ);
		CHECK_EQ((uintptr_t)q % 64, 0);
		check(q, r.len, i);
		CHECK_EQ(shmipc_server_loan(s, r.client, r.id, &a), 0);
		CHECK_EQ((uintptr_t)a % 64, 0);
		fill(a, RESP, ~i);
		check(q, r.len, i); /* the response does not overwrite the request */
		CHECK_EQ(shmipc_server_commit(s, r.client, r.id, RESP), 0);
		CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
		CHECK(g.token == i && g.len == RESP);
		CHECK_EQ(shmipc_client_hold(c, g.resp), -EINVAL); /* the function has returned */
		CHECK_EQ(chunks_free(c), LOANS - 1);
		check(g.resp, RESP, ~i);
		CHECK_EQ(shmipc_client_release(c, g.resp), 0);
		CHECK_EQ(chunks_free(c), LOANS);
	}
	CHECK_EQ(shmipc_client_pending(c), 0);
}

/* The request's chunk comes back with the response, whether the response is in a loan or not. */
TEST(chunks_come_back)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c};
	struct shmipc_req r;
	const void *q = NULL;
	void *at = NULL;

	for (uint32_t i = 0; i < LOANS; i++)
		commit(c, 8, i);
	CHECK_EQ(shmipc_client_loan(c, &at), -EAGAIN);
	CHECK_EQ(shmipc_server_poll(s), 1);
	for (uint32_t i = 0; i < LOANS; i++) {
		CHECK_EQ(shmipc_server_take(s, &r, &q), 1);
		check(q, 8, i);
		if (i % 2)
			CHECK_EQ(shmipc_server_commit(s, r.client, r.id, 0), 0);
		else
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &i, sizeof(i)), 0);
		CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
		CHECK(g.token == i && g.len == (i % 2 ? 0 : sizeof(i)));
		CHECK_EQ(chunks_free(c), i + 1);
	}
}

static void take_for_next(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct got *g = arg;

	/* The response to an even token is in the ring. */
	CHECK_EQ(shmipc_client_hold(g->c, resp), token % 2 ? 0 : -EINVAL);
	if (token % 2)
		CHECK_EQ(shmipc_client_release(g->c, resp), 0);
	CHECK_EQ(shmipc_client_hold(g->c, resp), -EINVAL);
	commit(g->c, 16, token + 1);
	g->n++;
}

TEST(response_function_may_commit)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c};
	struct shmipc_req r;
	const void *q = NULL;

	commit(c, 16, 0);
	for (uint64_t i = 0; i < 300; i++) {
		r = take(s, &q);
		check(q, 16, i);
		if (i % 2)
			CHECK_EQ(shmipc_server_commit(s, r.client, r.id, RESP), 0);
		else
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, NULL, 0), 0);
		CHECK_EQ(shmipc_client_poll(c, take_for_next, &g), 1);
		CHECK_EQ(chunks_free(c), LOANS - 1);
	}
}

TEST(beside_other_calls)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct shmipc_req r;
	char small[32], copy[REQ];
	uint32_t n = 0;

	for (uint64_t i = 0; i < 900; i += 3) {
		for (uint64_t k = 0; k < 3; k++) {
			fill(small, sizeof(small), i + k);
			if (k % 2)
				CHECK_EQ(shmipc_client_call(c, small, sizeof(small), i + k), 0);
			else
				commit(c, REQ, i + k);
		}
		while (n < i + 3) {
			shmipc_server_serve(s, answer, s, 2);
			CHECK(shmipc_client_poll(c, check_echo, &n) >= 0);
		}
	}
	commit(c, REQ, 7); /* recv copies a request in a loan */
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, copy, 100), 1);
	CHECK_EQ(r.len, REQ);
	check(copy, 100, 7);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, copy, 0), 0);
	commit(c, REQ, 8);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, copy, sizeof(copy)), 1);
	check(copy, REQ, 8);
}

/* Calls with loans are published in bursts, and at most depth of them are in flight. */
TEST(depth_limits_calls_with_loans)
{
	struct shmipc_attr a = loan_attr;
	SERVER *s;
	CLIENT *c;
	void *at;
	uint32_t n = 0;

	a.loans = 20;
	s = server_with(&a);
	c = client_new();
	for (uint64_t round = 0; round < 200; round++) {
		for (uint64_t i = 0; i < a.depth; i++) {
			at = loan(c);
			fill(at, 24, round + i);
			CHECK_EQ(shmipc_client_commit(c, at, 24, round + i), 0);
		}
		at = loan(c);
		CHECK_EQ(shmipc_client_commit(c, at, 24, 0), -EAGAIN);
		CHECK_EQ(shmipc_client_release(c, at), 0);
		for (n = 0; n < a.depth;) {
			shmipc_server_serve(s, answer, s, 256);
			CHECK(shmipc_client_poll(c, check_echo, &n) >= 0);
		}
	}
}

TEST(misuse_is_refused)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c};
	const void *q = NULL;
	struct shmipc_req r;
	char *at = loan(c);
	void *a = NULL;

	CHECK_EQ(shmipc_client_commit(c, at, REQ + 1, 0), -EMSGSIZE);
	CHECK_EQ(shmipc_client_commit(c, at + 64, 8, 0), -EINVAL); /* not where a request begins */
	CHECK_EQ(shmipc_client_commit(c, at - 1, 8, 0), -EINVAL);
	CHECK_EQ(shmipc_client_commit(c, &g, 8, 0), -EINVAL);
	CHECK_EQ(shmipc_client_release(c, at + 256), -EINVAL); /* no response is held there */
	CHECK_EQ(shmipc_client_hold(c, at), -EINVAL);
	CHECK_EQ(shmipc_client_hold(c, NULL), -EINVAL);
	CHECK_EQ(shmipc_client_commit(c, at, 8, 1), 0);
	CHECK_EQ(shmipc_client_commit(c, at, 8, 1), -EINVAL); /* committed */
	CHECK_EQ(shmipc_client_release(c, at), -EINVAL);
	shmipc_client_flush(c);
	r = take(s, &q);
	CHECK_EQ(shmipc_server_loan(s, r.client + 1, r.id, &a), -EPIPE);
	CHECK_EQ(shmipc_server_loan(s, 4095, r.id, &a), -EINVAL);
	CHECK_EQ(shmipc_server_loan(s, r.client, loan_attr.depth, &a), -EINVAL);
	CHECK_EQ(shmipc_server_loan(s, r.client, r.id + 1, &a), -EINVAL);
	CHECK_EQ(shmipc_server_commit(s, r.client + 1, r.id, 8), -EPIPE);
	CHECK_EQ(shmipc_server_commit(s, r.client, r.id, RESP + 1), -EMSGSIZE);
	CHECK_EQ(shmipc_server_commit(s, r.client, r.id, 8), 0);
	CHECK_EQ(shmipc_server_commit(s, r.client, r.id, 8), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, NULL, 0), -EINVAL);
	CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
	CHECK_EQ(shmipc_client_release(c, g.resp), -EINVAL); /* not held */
	CHECK_EQ(shmipc_client_release(c, at), -EINVAL); /* free */
	CHECK_EQ(chunks_free(c), LOANS);
}

TEST(regions_without_loans)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct loan_message m = {0, 8};
	struct shmipc_req r;
	const void *q = NULL;
	void *at = NULL;

	CHECK_EQ(shmipc_client_loan(c, &at), -EINVAL);
	CHECK_EQ(shmipc_client_commit(c, &r, 8, 0), -EINVAL);
	CHECK_EQ(shmipc_client_hold(c, &r), -EINVAL);
	CHECK_EQ(shmipc_client_release(c, &r), -EINVAL);
	cellring_put(&c->req, LOAN_BIT, &m, sizeof(m));
	CHECK_EQ(call_tag(c, 1), 0);
	r = take(s, &q); /* the forged request is dropped */
	msg_check(q);
	CHECK_EQ(bad_requests(s), 1);
	CHECK_EQ(shmipc_server_loan(s, r.client, r.id, &at), -EINVAL);
	CHECK_EQ(shmipc_server_commit(s, r.client, r.id, 8), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, NULL, 0), 0);
}

/* ---- hostile peers ---- */

/*
 * Requests that no correct client makes are dropped. When they are sent, a call with id 1 and chunk
 * 1 is open.
 */
TEST(forged_requests_are_dropped)
{
	static const struct {
		uint32_t id;
		struct loan_message m;
	} row[] = {
		{LOAN_BIT, {LOANS, 8}}, /* behind the client's pool */
		{LOAN_BIT, {UINT32_MAX, 8}},
		{LOAN_BIT, {0, REQ + 1}},
		{LOAN_BIT, {0, UINT32_MAX}},
		{LOAN_BIT, {1, 8}}, /* the server owns the chunk */
		{LOAN_BIT | 1, {0, 8}}, /* the call is open */
		{LOAN_BIT | 8, {0, 8}}, /* beyond the depth */
		{LOAN_BIT - 1, {0, 8}},
		{8, {0, 8}},
	};
	struct loan_message good = {1, REQ};
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new(), *other = client_new();
	struct shmipc_req r, held;
	const void *q = NULL, *p;
	uint32_t n = 0;

	cellring_put(&c->req, LOAN_BIT | 1, &good, sizeof(good));
	held = take(s, &q);
	CHECK(held.id == 1 && held.len == REQ);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		cellring_put(&c->req, row[i].id, &row[i].m, sizeof(row[i].m));
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(shmipc_server_take(s, &r, &p), 0);
		CHECK_EQ(bad_requests(s), i + 1);
	}
	commit(other, REQ, 5);
	answer(s, &(struct shmipc_req){held.client, 1, 8}, q);
	r = take(s, &p);
	CHECK_EQ(SHMIPC_CLIENT_INDEX(r.client), 1);
	check(p, REQ, 5);
	answer(s, &r, p);
	CHECK_EQ(shmipc_client_poll(other, check_echo, &n), 1);
	cellring_put(&c->req, LOAN_BIT | 2, &good, sizeof(good)); /* the chunk is free again */
	CHECK_EQ(take(s, &q).id, 2);
}

/* Responses that no server sends end the connection. */
TEST(forged_responses_are_refused)
{
	static const struct {
		bool loan; /* the call has a loan */
		uint32_t id, len; /* of the response */
	} row[] = {
		{true, LOAN_BIT, RESP + 1}, {true, LOAN_BIT, UINT32_MAX},
		{true, LOAN_BIT | 1, 8}, /* the call is not open */
		{true, LOAN_BIT | 8, 8}, {true, 1, 8},
		{false, LOAN_BIT, 8}, /* in a loan that the call does not have */
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		SERVER *s = server_with(&loan_attr);
		CLIENT *c = client_new();
		struct loan_message m = {0, row[i].len};
		struct got g = {.c = c};
		const void *q = NULL;

		if (row[i].loan)
			commit(c, 8, 1);
		else
			CHECK_EQ(shmipc_client_call(c, "abc", 3, 1), 0);
		CHECK_EQ(take(s, &q).id, 0);
		cellring_put(&s->peers[0].resp, row[i].id, &m, sizeof(m));
		CHECK_EQ(shmipc_client_poll(c, get, &g), -EPROTO);
		CHECK_EQ(g.n, 0);
		CHECK_EQ(shmipc_client_abort(c, get, &g), 1);
		CHECK(g.token == 1 && !g.resp);
		CHECK_EQ(chunks_free(c), LOANS);
	}
}

/*
 * A forged response behind a good one in the same burst ends the connection, after the good one was
 * delivered.
 */
TEST(forged_response_in_a_burst)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct loan_message m = {0, UINT32_MAX}, good = {0, 8};
	struct got g = {.c = c};
	struct cellring_burst b;
	const void *q = NULL;

	commit(c, 8, 1);
	CHECK_EQ(take(s, &q).id, 0);
	CHECK(cellring_burst_open(&b, &s->peers[0].resp, 2));
	cellring_burst_add(&b, LOAN_BIT, &good, sizeof(good));
	cellring_burst_add(&b, LOAN_BIT | (LOAN_BIT - 1), &m, sizeof(m));
	cellring_burst_write_full(&b);
	CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
	CHECK_EQ(g.n, 1);
	CHECK_EQ(shmipc_client_poll(c, get, &g), -EPROTO);
}

/* A copied response to a call with a loan may not be longer than resp_size. */
TEST(forged_length_of_a_copied_response)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c};
	char big[40] = {0};
	const void *q = NULL;

	commit(c, 8, 1);
	take(s, &q);
	cellring_put(&s->peers[0].resp, 0, big, 33);
	CHECK_EQ(shmipc_client_poll(c, get, &g), -EPROTO);
	CHECK_EQ(g.n, 0);
}

/* ---- clients and servers that end ---- */

/*
 * No other client gets the chunks of a client that has gone until the server has answered or, with
 * events, has taken the event of its end.
 */
static void gone_client(bool events, bool by_commit)
{
	struct shmipc_attr attr = loan_attr;
	struct shmipc_event e;
	struct shmipc_req r[2];
	const void *q[2];
	CLIENT *c, *other;
	SERVER *s;
	struct shmipc_place *place;
	uint64_t epoch;
	void *a;

	attr.events = events;
	s = server_with(&attr);
	c = client_new();
	place = shmipc_place(&s->loans->layout, s->loans->header, 0);
	commit(c, REQ, 1);
	commit(c, REQ, 2);
	r[0] = take(s, &q[0]);
	CHECK_EQ(shmipc_server_take(s, &r[1], &q[1]), 1);
	if (events)
		CHECK_EQ(shmipc_server_event(s, &e, sizeof(e)), 1);
	shmipc_client_disconnect(c);
	shmipc_server_poll(s);
	epoch = place->server_epoch;
	other = client_new();
	CHECK_EQ(shmipc_client_index(other), 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(shmipc_server_loan(s, r[i].client, r[i].id, &a), -EPIPE);
		for (int k = 0; k < 3; k++) /* the second and the third answer have no effect */
			CHECK_EQ(by_commit ? shmipc_server_commit(s, r[i].client, r[i].id, 8) :
					     shmipc_server_reply(s, r[i].client, r[i].id, NULL, 0),
				-EPIPE);
		s->budget = 0;
		shmipc_server_wait(s, 0);
		check(q[1], REQ, 2);
		if (!i || events) /* with events, only taking the event cleans the place */
			CHECK_EQ(place->server_epoch, epoch);
	}
	while (events && e.kind == SHMIPC_EVENT_CAME)
		while (shmipc_server_event(s, &e, sizeof(e)) > 0 && e.index == 1)
			;
	while (place->server_epoch == epoch)
		shmipc_server_wait(s, NSEC_PER_MSEC);
	c = client_new();
	CHECK_EQ(shmipc_client_index(c), 0);
	commit(c, REQ, 3);
	for (int i = 0; i < 2; i++) /* a late answer has no effect on the next client */
		CHECK_EQ(shmipc_server_commit(s, r[i].client, r[i].id, 8), -EPIPE);
	check(take(s, &q[0]).len ? q[0] : NULL, REQ, 3);
}

TEST_WITH(gone_client_replied, gone_client, false, false);
TEST_WITH(gone_client_committed, gone_client, false, true);
TEST_WITH(gone_client_with_events, gone_client, true, true);

static void send_two(void)
{
	struct shmipc_client *c = client_new();

	commit(c, REQ, 1);
	commit(c, REQ, 2);
}

/*
 * The requests of a dead client are received once, although its bit in shmipc_header.active is set
 * until they are answered.
 */
static void dead_client(bool by_commit)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *other = NULL;
	struct shmipc_req r[2];
	const void *q[2];
	pid_t pid = spawn(send_two);

	r[0] = take(s, &q[0]);
	CHECK_EQ(shmipc_server_take(s, &r[1], &q[1]), 1);
	test_kill(pid);
	do
		shmipc_server_wait(s, NSEC_PER_MSEC);
	while (server_stats_of(s).clients);
	CHECK_EQ(server_stats_of(s).reclaimed, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(by_commit ? shmipc_server_commit(s, r[i].client, r[i].id, 8) :
				     shmipc_server_reply(s, r[i].client, r[i].id, NULL, 0),
			-EPIPE);
	other = client_new();
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(server_stats_of(s).connects, 2);
	CHECK_EQ(server_stats_of(s).clients, 1);
	CHECK_EQ(shmipc_client_index(other), 0); /* the place is free at once */
	commit(other, REQ, 3);
	check(take(s, &q[0]).len ? q[0] : NULL, REQ, 3);
}

TEST_WITH(dead_client_replied, dead_client, false);
TEST_WITH(dead_client_committed, dead_client, true);

/* A server that takes the event of a client's end need not answer the client's requests. */
TEST(event_ends_the_loans)
{
	struct shmipc_attr attr = loan_attr;
	struct shmipc_event e;
	const void *q = NULL;
	struct shmipc_req r;
	struct shmipc_client *c;
	SERVER *s;

	attr.events = 1;
	attr.max_clients = 1;
	s = server_with(&attr);
	for (int i = 0; i < 3; i++) {
		c = client_new();
		commit(c, REQ, 1);
		r = take(s, &q);
		CHECK_EQ(shmipc_server_event(s, &e, sizeof(e)), 1);
		shmipc_client_disconnect(c);
		shmipc_server_poll(s);
		CHECK_EQ(shmipc_server_event(s, &e, sizeof(e)), 1);
		CHECK_EQ(e.kind, SHMIPC_EVENT_LEFT);
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, NULL, 0), -EPIPE);
	}
}

TEST(server_ends)
{
	SERVER *s = server_with(&loan_attr);
	CLIENT *c = client_new();
	struct got g = {.c = c, .hold = true};
	struct shmipc_req r;
	const void *q = NULL;
	void *at;

	commit(c, 8, 1);
	r = take(s, &q);
	CHECK_EQ(shmipc_server_commit(s, r.client, r.id, 8), 0);
	CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
	commit(c, 8, 2);
	at = loan(c);
	shmipc_server_destroy(s);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), -EPIPE);
	CHECK_EQ(shmipc_client_commit(c, at, 8, 0), -EPIPE);
	s = server_with(&loan_attr);
	q = g.resp;
	g.hold = false;
	CHECK_EQ(shmipc_client_abort(c, get, &g), 1);
	CHECK(g.token == 2 && !g.resp);
	CHECK_EQ(chunks_free(c), 1);
	CHECK_EQ(shmipc_client_reconnect(c, 0), -EBUSY);
	CHECK_EQ(shmipc_client_release(c, q), 0);
	CHECK_EQ(shmipc_client_reconnect(c, 0), -EBUSY);
	CHECK_EQ(shmipc_client_release(c, at), 0);
	CHECK_EQ(shmipc_client_reconnect(c, SHMIPC_FOREVER), 0);
	CHECK_EQ(chunks_free(c), LOANS);
	commit(c, REQ, 3);
	r = take(s, &q);
	check(q, REQ, 3);
	answer(s, &r, q);
	CHECK_EQ(shmipc_client_poll(c, get, &g), 1);
	check(g.resp, REQ, 3);
}
