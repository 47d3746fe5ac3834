/* SPDX-License-Identifier: MIT */
/* Server and clients in one thread, so that each step of a call can be checked. */
#include <errno.h>

#include "common.h"
#include "support/rpccases.h"
#include "support/rpcsizes.h"

TEST(round_trip)
{
	uint8_t seen[1] = {0};
	struct tally t = {.first = 7, .size = 1, .seen = seen};
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();

	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 0);
	CHECK_EQ(call_tag(c, 7), 0);
	CHECK_EQ(shmipc_client_pending(c), 1);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(serve_once(s), 0);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
	CHECK_EQ(t.n, 1);
	CHECK_EQ(shmipc_client_pending(c), 0);
}

TEST(depth_bounds_what_is_in_flight)
{
	static uint8_t seen[64];
	struct tally t = {.size = 64, .seen = seen};
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	int n = 0;

	calls(c, msg_attr.depth);
	CHECK_EQ(call_tag(c, 99), -EAGAIN);
	while (serve_once(s))
		;
	CHECK_EQ(call_tag(c, 99), -EAGAIN); /* the calls are answered, but not polled */
	while ((n = shmipc_client_poll(c, tally_take, &t)) > 0)
		CHECK(n <= SHMIPC_POLL_MAX);
	CHECK_EQ(t.n, msg_attr.depth);
	CHECK_EQ(call_tag(c, 32), 0);
}

struct again {
	struct shmipc_client *c;
	uint64_t next, sum;
};

static void call_again(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct again *a = arg;
	const struct msg *m = resp;

	/* The payload stays valid while the function makes calls. */
	CHECK_EQ(call_tag(a->c, a->next++), 0);
	msg_check(m);
	CHECK(m->tag == msg_answer(token));
	a->sum++;
}

TEST(callback_may_call_at_full_depth)
{
	SERVER *s = server_with(&msg_attr);
	struct again a = {.c = client_new()};

	while (a.next < msg_attr.depth)
		CHECK_EQ(call_tag(a.c, a.next++), 0);
	/* Makes many laps of both rings. */
	while (a.sum < 20000) {
		serve_once(s);
		CHECK(shmipc_client_poll(a.c, call_again, &a) >= 0);
		CHECK_EQ(shmipc_client_pending(a.c), msg_attr.depth);
	}
	shmipc_client_disconnect(a.c);
}

TEST(replies_in_any_order)
{
	static uint8_t seen[2000];
	struct tally t = {.size = ARRAY_SIZE(seen), .seen = seen};
	struct shmipc_req held[32];
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	uint64_t seed = test_seed(), tags[32], next = 0;
	uint32_t n = 0;

	memset(seen, 0, sizeof(seen));
	while (t.n < t.size) {
		struct msg q, a;
		uint32_t i;

		while (next < t.size && call_tag(c, next) == 0)
			next++;
		shmipc_server_poll(s);
		while (shmipc_server_recv(s, &held[n], &q, sizeof(q)) > 0)
			tags[n++] = q.tag;
		for (uint32_t k = (uint32_t)(test_rand(&seed) % (n + 1)); k > 0; k--) {
			i = (uint32_t)(test_rand(&seed) % n);
			a = msg_of(msg_answer(tags[i]));
			CHECK_EQ(shmipc_server_reply(s, held[i].client, held[i].id, &a, sizeof(a)),
				0);
			held[i] = held[--n];
			tags[i] = tags[n];
		}
		CHECK(shmipc_client_poll(c, tally_take, &t) >= 0);
	}
	CHECK_EQ(shmipc_client_pending(c), 0);
}

TEST(wrong_replies_are_refused)
{
	SERVER *s = server_with(&msg_attr);
	struct shmipc_client *c = client_new();
	struct shmipc_server_stats st;
	struct shmipc_req r;
	char big[sizeof(struct msg) + 1] = {0};
	struct msg m;

	CHECK_EQ(shmipc_client_call(c, big, sizeof(big), 0), -EMSGSIZE);
	CHECK_EQ(call_tag(c, 1), 0);
	r = take_msg(s, &m);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, big, sizeof(big)), -EMSGSIZE);
	CHECK_EQ(shmipc_server_reply(s, r.client + 1, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, 4095, r.id, &m, sizeof(m)), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, UINT32_MAX, r.id, &m, sizeof(m)), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, 1, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), -EINVAL);
	shmipc_client_disconnect(c);
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), -EPIPE);
	CHECK(!shmipc_server_extra(s, r.client));
	shmipc_server_get_stats(s, &st, sizeof(st));
	CHECK_EQ(st.requests, 1);
	CHECK_EQ(st.replies, 1);
	CHECK_EQ(st.connects, 1);
	CHECK_EQ(st.departures, 1);
	CHECK_EQ(st.clients, 0);
}

TEST(visits_are_capped_and_rotate)
{
	SERVER *s = server_with(&msg_attr);
	struct shmipc_client *c[3];
	struct shmipc_req r;
	struct msg m;
	uint32_t first[3] = {0};

	for (int i = 0; i < 3; i++)
		c[i] = client_new();
	calls(c[0], 20);
	CHECK_EQ(call_tag(c[1], 100), 0);
	shmipc_client_flush(c[0]);
	CHECK_EQ(shmipc_server_poll(s), 2); /* one client with many requests, one with few */
	for (int i = 0; i < SHMIPC_VISIT_MAX + 1; i++)
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 0);
	for (int turn = 0; turn < 30; turn++) {
		CHECK(call_tag(c[0], 0) == 0 || turn > 5);
		shmipc_client_flush(c[0]);
		for (int i = 1; i < 3; i++)
			CHECK_EQ(call_tag(c[i], 0), 0);
		shmipc_server_poll(s);
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
		first[SHMIPC_CLIENT_INDEX(r.client)]++;
		do
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
		while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0);
		for (int i = 0; i < 3; i++) {
			struct shmipc_client *one = c[i];

			/* Takes each response without checking its payload. */
			while (one->resp.slot != one->resp.ready ||
				shmipc_priv_client_look(one) == 1) {
				uint32_t id = CELLRING_ID(cellring_head(one->resp.slot));

				one->calls[id].state = SHMIPC_CALL_FREE;
				one->calls[(one->depth + one->answered++) & one->calls_mask].free =
					id;
				cellring_next(&one->resp);
			}
		}
	}
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(first[i], 10);
		shmipc_client_disconnect(c[i]);
	}
}

/*
 * If a server polls before each receive, the requests of a client still come in succession. A poll
 * with `skip` reads the rings again. The requests of a client that leaves are not received.
 */
TEST(polls_continue_with_what_is_left)
{
	SERVER *s = server_with(&msg_attr);
	struct shmipc_client *c[3];
	uint64_t all = ~0ull, client = 0;
	struct shmipc_req r;
	struct msg m;

	for (int i = 0; i < 3; i++) {
		c[i] = client_new();
		calls(c[i], 10);
		shmipc_client_flush(c[i]);
	}
	for (int i = 0; i < 3 * SHMIPC_VISIT_MAX; i++) {
		CHECK_EQ(shmipc_server_poll(s), 3 - i / SHMIPC_VISIT_MAX);
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
		CHECK((r.client == client) == (i % SHMIPC_VISIT_MAX != 0));
		client = r.client;
	}
	CHECK_EQ(shmipc_server_poll(s), 3);
	CHECK_EQ(shmipc_server_poll_with_skip(s, &all), 0);
	CHECK_EQ(shmipc_server_poll(s), 3);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	shmipc_client_disconnect(c[SHMIPC_CLIENT_INDEX(r.client)]);
	c[SHMIPC_CLIENT_INDEX(r.client)] = NULL;
	CHECK_EQ(shmipc_server_poll(s), 2);
	client = r.client;
	while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
		CHECK(r.client != client);
	for (int i = 0; i < 3; i++)
		shmipc_client_disconnect(c[i]);
}

TEST(skipped_clients_keep_their_requests)
{
	struct shmipc_attr many = msg_attr;
	SERVER *s;
	struct shmipc_client *c[70];
	uint64_t skip[2] = {1ull << 5, 1ull << 3};
	struct shmipc_req r;
	struct msg m;

	many.max_clients = 70;
	s = server_with(&many);
	for (int i = 0; i < 70; i++) {
		c[i] = client_new();
		CHECK_EQ(call_tag(c[i], (uint64_t)i), 0);
	}
	CHECK_EQ(shmipc_server_poll_with_skip(s, skip), 68);
	while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
		CHECK(m.tag != 5 && m.tag != 67 && m.tag == SHMIPC_CLIENT_INDEX(r.client));
	skip[0] = 0;
	CHECK_EQ(shmipc_server_poll_with_skip(s, skip), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(m.tag, 5);
	r = take_msg(s, &m);
	CHECK_EQ(m.tag, 67);
	for (int i = 0; i < 70; i++)
		shmipc_client_disconnect(c[i]);
}

/* Both rings work when their lap numbers wrap, because laps are compared for equality only. */
TEST(laps_may_wrap)
{
	SERVER *s = server_with(&msg_attr);
	struct again a = {.c = client_new()};

	shmipc_server_poll(s);
	a.c->req.lap = s->peers[0].req.lap = CELLRING_LAP_LAST - 1;
	a.c->resp.lap = s->peers[0].resp.lap = CELLRING_LAP_LAST - 1;
	while (a.next < msg_attr.depth)
		CHECK_EQ(call_tag(a.c, a.next++), 0);
	while (a.sum < 128 * 5) {
		serve_once(s);
		CHECK(shmipc_client_poll(a.c, call_again, &a) >= 0);
	}
	CHECK(a.c->req.lap < 5 && a.c->resp.lap < 5);
	shmipc_client_disconnect(a.c);
}

TEST(waits_end_at_once_or_in_time)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();

	CHECK_EQ(shmipc_server_wait(s, 0), 0);
	do /* a wait yields before it sleeps; on a busy machine the yields can take all the time */
		CHECK_EQ(shmipc_server_wait(s, NSEC_PER_MSEC), 0);
	while (!server_stats_of(s).sleeps);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 0); /* nothing is pending */
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(shmipc_client_wait(c, 0), 0);
	do
		CHECK_EQ(shmipc_client_wait(c, NSEC_PER_MSEC), 0);
	while (!client_stats_of(c).sleeps);
	CHECK_EQ(shmipc_server_wait(s, SHMIPC_FOREVER), 1);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 1);
}

TEST(forged_responses_end_the_connection)
{
	static const uint32_t ids[] = {0, 1, 31, 32, 4095, CELLRING_ID_MASK - 1, CELLRING_ID_MASK};
	uint8_t seen[2] = {0};
	struct tally t = {.size = 2, .seen = seen};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		SERVER *s = server_with(&msg_attr);
		CLIENT *c = client_new();
		struct cellring_message *slot = (struct cellring_message *)c->resp.slot;

		/* None of these ids is in flight. */
		slot->head = CELLRING_HEAD(1, 1, 1) | ids[i];
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), -EPROTO);
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), -EPROTO);
		CHECK_EQ(call_tag(c, 0), -EPROTO);
		CHECK_EQ(t.n, 0);
	}
}

/* A client writes more requests than it may. The server takes one request of each valid id. */
TEST(flood_is_bounded_by_depth)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct shmipc_req r[256];
	struct msg m = msg_of(1);
	uint32_t n = 0, cells = (uint32_t)(c->req.end - c->req.begin) / c->req.cell;

	CHECK(cells > msg_attr.depth);
	for (uint32_t i = 0; i < cells; i++) /* the whole ring */
		cellring_put(&c->req,
			i < msg_attr.depth ? i :
			i + 1 < cells      ? CELLRING_ID_MASK - i :
					     0 /* twice */,
			&m, sizeof(m));
	while (shmipc_server_poll(s))
		while (shmipc_server_recv(s, &r[n], &m, sizeof(m)) > 0)
			n++;
	CHECK_EQ(n, msg_attr.depth);
	CHECK_EQ(server_stats_of(s).requests, n);
	CHECK_EQ(server_stats_of(s).bad_requests, cells - n);
	CHECK_EQ(shmipc_server_reply(s, r[0].client, r[0].id, &m, sizeof(m)), 0);
	cellring_put(&c->req, r[0].id, &m, sizeof(m));
	r[0] = take_msg(s, &m);
}

static void look_in_vain(struct shmipc_client *c, uint32_t looks)
{
	uint32_t before = c->unfenced, got = 0;

	while (looks--) {
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
		CHECK_EQ(c->unfenced, before);
	}
}

/*
 * A wake test is a fence and a check whether the peer sleeps. It is due after SHMIPC_VAIN polls
 * without a message, and otherwise after SHMIPC_UNFENCED bursts and polls.
 */
TEST(when_sleepers_are_looked_for)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	uint32_t most = 0, got = 0;

	CHECK_EQ(call_tag(c, 0), 0);
	CHECK_EQ(c->unfenced, 1);
	look_in_vain(c, SHMIPC_VAIN - 1);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
	CHECK_EQ(c->unfenced, 0);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(s->unfenced, 1);
	for (uint32_t i = 1; i < SHMIPC_VAIN; i++) {
		CHECK_EQ(shmipc_server_poll(s), 0);
		CHECK_EQ(s->unfenced, 1);
	}
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(s->unfenced, 0);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
	/* A wait that finds nothing makes the wake test immediately. */
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(shmipc_client_wait(c, 0), 0);
	CHECK_EQ(c->unfenced, 0);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(s->unfenced, 1);
	CHECK_EQ(shmipc_server_wait(s, 0), 0);
	CHECK_EQ(s->unfenced, 0);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
	/* A publication restarts the count of polls that find nothing, because a fence right after
	 * the publication would wait for the publication's stores. */
	CHECK_EQ(call_tag(c, 2), 0);
	look_in_vain(c, SHMIPC_VAIN - 1);
	CHECK_EQ(call_tag(c, 3), 0);
	look_in_vain(c, SHMIPC_VAIN - 1);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
	CHECK_EQ(c->unfenced, 0);
	CHECK_EQ(serve_once(s), 2);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 2);
	shmipc_server_flush(s);
	CHECK_EQ(s->unfenced, 0);
	for (uint32_t i = 0; i < 2 * SHMIPC_UNFENCED; i++) { /* each poll finds something */
		CHECK_EQ(call_tag(c, i), 0);
		CHECK_EQ(serve_once(s), 1);
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
		CHECK(c->unfenced < SHMIPC_UNFENCED && s->unfenced < SHMIPC_UNFENCED);
		most = c->unfenced > most ? c->unfenced : most;
	}
	CHECK(most > SHMIPC_UNFENCED / 2);
	/* The server continues to find requests, but has replied only once. */
	CHECK_EQ(call_tag(c, 0), 0);
	CHECK_EQ(serve_once(s), 1);
	for (int i = 0; s->unfenced; i++) {
		CHECK(i < SHMIPC_UNFENCED);
		if (i < 7) /* each call is published alone, but the last one opens a burst */
			CHECK_EQ(call_tag(c, 0), 0);
		CHECK_EQ(shmipc_server_poll(s), 1);
	}
}

/*
 * Writes a request whose forged head announces a burst. The other messages of that burst were never
 * published.
 */
static void forged_burst(struct shmipc_server *s, struct shmipc_client *c, uint32_t together,
	uint32_t count)
{
	struct cellring_cursor *req = &s->peers[0].req;
	uint32_t n = 0, honest = count && count <= req->most ? count : 1;
	uint64_t forged = CELLRING_HEAD(c->req.lap, count, together) |
			  CELLRING_MESSAGE(0, sizeof(struct msg));
	uint64_t rest = CELLRING_HEAD(CELLRING_LAP_LAST, 15, 15);
	unsigned char *cell = c->req.slot;
	struct msg m = msg_of(1);
	struct shmipc_req r;

	cellring_put(&c->req, 0, &m, sizeof(m)); /* also advances the cursor */
	for (uint32_t i = 1; i < req->most; i++)
		((struct cellring_message *)(cell + i * req->stride))->head =
			rest | CELLRING_MESSAGE(i, sizeof(m));
	((struct cellring_message *)cell)->head = forged;
	CHECK_EQ(shmipc_server_poll(s), 1);
	while (shmipc_server_recv(s, &r, &m, sizeof(m)) == 1) {
		CHECK_EQ(r.id, n);
		CHECK(req->slot < req->end && req->ready <= req->end);
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
		CHECK(cellring_burst_held(&s->burst) + burst_room(&s->burst) <= CELLRING_BURST);
		n++;
	}
	CHECK_EQ(n, honest);
	CHECK(req->slot - req->begin == c->req.slot - c->req.begin); /* in the next cell */
	CHECK_EQ(cellring_burst_held(&s->burst), 0);
}

/* The server does not trust the two numbers in a head: messages in the burst, replies per burst. */
TEST(hostile_bursts_are_bounded)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();

	for (uint32_t i = 0; i < 16 * 256; i++)
		forged_burst(s, c, i % 16, i / 16 % 16);
}

/* A client uses one id for all its calls. The server drops all but the first. */
TEST(an_id_in_use_is_refused)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct shmipc_req r;
	struct msg m = msg_of(1);
	uint32_t n = 0;

	c->open_max = UINT32_MAX; /* disables the limit on calls in flight */
	c->calls_mask = 0;
	calls(c, 2 * msg_attr.depth);
	shmipc_client_flush(c);
	while (shmipc_server_poll(s))
		while (shmipc_server_recv(s, &r, &m, sizeof(m)) == 1)
			n++;
	CHECK_EQ(n, 1);
	CHECK_EQ(server_stats_of(s).bad_requests, 2 * msg_attr.depth - 1);
}

/* A server writes a burst with an impossible count: the connection ends, and nothing is read. */
TEST(hostile_counts_end_the_connection)
{
	for (uint32_t count = 0; count < 16; count++) {
		SERVER *s = server_with(&msg_attr);
		CLIENT *c = client_new();
		struct cellring_message *slot;
		uint32_t got = 0;
		int r = count == 0 || count > CELLRING_BURST ? -EPROTO : 1;

		CHECK_EQ(call_tag(c, 0), 0);
		CHECK_EQ(serve_once(s), 1);
		slot = (struct cellring_message *)c->resp.slot;
		slot->head = CELLRING_HEAD(CELLRING_LAP(slot->head), count, 1) |
			     CELLRING_MESSAGE(CELLRING_ID(slot->head), sizeof(struct msg));
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), r);
		CHECK_EQ(got, r == 1);
		/* If count is greater than 1, the second message answers no call. */
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), count == 1 ? 0 : -EPROTO);
		CHECK_EQ(call_tag(c, 1), count == 1 ? 0 : -EPROTO);
	}
}

#define WORDS 4

/* Fills @words with values that look like heads of this or of the next lap. */
static void forge_words(uint64_t *words, const struct cellring_cursor *at, uint32_t i)
{
	for (uint32_t k = 0; k < WORDS; k++)
		words[k] = CELLRING_HEAD(at->lap + (i + k) % 2, 1, 1) | (i & 7);
}

static void take_in_order(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK_EQ(token, *(uint32_t *)arg);
	++*(uint32_t *)arg;
}

/*
 * Bursts of all lengths, with payloads that look like heads. The reader does not mistake them for
 * heads.
 */
TEST(payload_is_no_head)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	uint64_t words[WORDS], seed = test_seed();
	uint32_t sent = 0, taken = 0;
	struct shmipc_req r;

	while (sent < 20000) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % msg_attr.depth), got = 0;

		for (uint32_t i = 0; i < n; i++, sent++) {
			forge_words(words, &c->req, sent);
			CHECK_EQ(shmipc_client_call(c, words, sizeof(words), sent), 0);
			if (test_rand(&seed) % 4 == 0)
				shmipc_client_flush(c);
		}
		shmipc_client_flush(c);
		while (shmipc_server_poll(s))
			while (shmipc_server_recv(s, &r, words, sizeof(words)) == 1) {
				CHECK_EQ(CELLRING_ID(words[0]), (sent - n + got++) & 7);
				forge_words(words, &s->peers[0].resp, got);
				CHECK_EQ(shmipc_server_reply(s, r.client, r.id, words,
						 sizeof(words)),
					0);
				if (test_rand(&seed) % 4 == 0)
					shmipc_server_flush(s);
			}
		CHECK_EQ(got, n);
		while (shmipc_client_poll(c, take_in_order, &taken) > 0)
			;
		CHECK_EQ(taken, sent);
	}
}

TEST(all_sizes)
{
	static const uint32_t size[] = {1, 7, 8, 16, 24, 56, 57, 120, 121, 4097};

	for (size_t i = 0; i < ARRAY_SIZE(size); i++)
		for (size_t k = 0; k < ARRAY_SIZE(size); k++)
			size_arrives(size[i], size[k]);
}
