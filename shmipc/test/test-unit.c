/* SPDX-License-Identifier: MIT */
/* One thread plays both sides, so that each step is seen alone. */
#include <errno.h>
#include <sys/stat.h>

#include "common.h"
#include "layout.h"

static struct shmipc_server *serve(const char *what, const struct shmipc_attr *attr)
{
	struct shmipc_server *s = NULL;

	CHECK_EQ(shmipc_server_create(test_name(what), attr, &s), 0);
	return s;
}

static struct shmipc_client *join(const char *what)
{
	struct shmipc_client *c = NULL;

	CHECK_EQ(shmipc_client_connect(test_name(what), NULL, &c), 0);
	return c;
}

static uint64_t clients_of(const struct shmipc_server *s)
{
	struct shmipc_server_stats st;

	shmipc_server_get_stats(s, &st);
	return st.clients;
}

static void layout_has_one_writer_per_line(void)
{
	struct shmipc_layout l;
	struct shmipc_attr a = { .max_clients = 3, .depth = 300, .req_size = 57, .extra_size = 1 };

	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	CHECK_EQ(l.req_stride, 128);
	CHECK_EQ(l.resp_stride, 64);
	CHECK_EQ(l.req_slots, 512);
	CHECK_EQ(l.resp_slots, 512);
	CHECK_EQ(l.resp_ring % CACHE_LINE, 0);
	CHECK_EQ(l.extra % CACHE_LINE, 0);
	CHECK_EQ(l.area % CACHE_LINE, 0);
	CHECK_EQ(l.area, 128 + 512 * 128 + 2048 + 512 * 64 + 64);
	CHECK_EQ(l.size, 704 + 3 * l.area);
	a.depth = 255;
	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	CHECK_EQ(l.resp_slots, 256); /* depth + 1 fits exactly */
	a.depth = 256;
	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	CHECK_EQ(l.resp_slots, 512);
}

static void sizes_are_checked(void)
{
	static const struct shmipc_attr bad[] = {
		{ .max_clients = SHMIPC_MAX_CLIENTS + 1 },
		{ .depth = SHMIPC_MAX_DEPTH + 1 },
		{ .req_size = SHMIPC_MAX_PAYLOAD + 1 },
		{ .resp_size = SHMIPC_MAX_PAYLOAD + 1 },
	};
	struct shmipc_server *s = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(shmipc_server_create(test_name("bad"), &bad[i], &s), -EINVAL);
	CHECK_EQ(shmipc_server_create("a/b", NULL, &s), -EINVAL);
	CHECK_EQ(shmipc_server_create("", NULL, &s), -EINVAL);
	CHECK(!s);
	shmipc_server_destroy(NULL);
	shmipc_client_disconnect(NULL);
}

static void defaults_and_both_views_of_the_sizes(void)
{
	struct shmipc_server *s = serve("attr", NULL);
	struct shmipc_client *c = join("attr");
	struct shmipc_attr a, b;

	shmipc_server_get_attr(s, &a);
	shmipc_client_get_attr(c, &b);
	CHECK_EQ(memcmp(&a, &b, sizeof(a)), 0);
	CHECK_EQ(a.max_clients, 64);
	CHECK_EQ(a.depth, 64);
	CHECK_EQ(a.req_size, 56);
	CHECK_EQ(a.resp_size, 56);
	CHECK_EQ(a.extra_size, 0);
	CHECK(!shmipc_client_extra(c));
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void connect_says_why_not(void)
{
	struct shmipc_attr want = msg_attr;
	struct shmipc_client *c = NULL;
	struct shmipc_server *s, *other = NULL;

	CHECK_EQ(shmipc_client_connect(test_name("why"), NULL, &c), -ENOENT);
	s = serve("why", &msg_attr);
	CHECK_EQ(shmipc_server_create(test_name("why"), NULL, &other), -EADDRINUSE);
	for (int i = 0; i < 5; i++) {
		want = msg_attr;
		(&want.max_clients)[i]++;
		CHECK_EQ(shmipc_client_connect(test_name("why"), &want, &c), -EPROTO);
	}
	CHECK_EQ(shmipc_client_connect(test_name("why"), &msg_attr, &c), 0);
	shmipc_client_disconnect(c);
	c = NULL;
	CHECK_EQ(shmipc_server_unlink(s), 0);
	CHECK_EQ(shmipc_server_unlink(s), 0);
	CHECK_EQ(shmipc_client_connect(test_name("why"), NULL, &c), -ENOENT);
	shmipc_server_destroy(s);
	CHECK(!c && !other);
}

static void round_trip(void)
{
	uint8_t seen[1] = { 0 };
	struct tally t = { .first = 7, .size = 1, .seen = seen };
	struct shmipc_server *s = serve("trip", &msg_attr);
	struct shmipc_client *c = join("trip");

	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 0);
	CHECK_EQ(call_tag(c, 7), 0);
	CHECK_EQ(shmipc_client_pending(c), 1);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(serve_once(s), 0);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
	CHECK_EQ(t.n, 1);
	CHECK_EQ(shmipc_client_pending(c), 0);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void depth_bounds_what_is_in_flight(void)
{
	static uint8_t seen[64];
	struct tally t = { .size = 64, .seen = seen };
	struct shmipc_server *s = serve("depth", &msg_attr);
	struct shmipc_client *c = join("depth");
	int n = 0;

	for (uint32_t i = 0; i < msg_attr.depth; i++)
		CHECK_EQ(call_tag(c, i), 0);
	CHECK_EQ(call_tag(c, 99), -EAGAIN);
	while (serve_once(s))
		;
	CHECK_EQ(call_tag(c, 99), -EAGAIN); /* answered, but not polled */
	while ((n = shmipc_client_poll(c, tally_take, &t)) > 0)
		CHECK(n <= SHMIPC_POLL_MAX);
	CHECK_EQ(t.n, msg_attr.depth);
	CHECK_EQ(call_tag(c, 32), 0);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

struct again {
	struct shmipc_client *c;
	uint64_t next, sum;
};

static void call_again(void *arg, uint64_t token, const void *resp)
{
	struct again *a = arg;
	const struct msg *m = resp;

	/* The payload stays while this call, and those before it, are under way. */
	CHECK_EQ(call_tag(a->c, a->next++), 0);
	msg_check(m);
	CHECK(m->tag == msg_answer(token));
	a->sum++;
}

static void callback_may_call_at_full_depth(void)
{
	struct shmipc_server *s = serve("again", &msg_attr);
	struct again a = { .c = join("again") };

	while (a.next < msg_attr.depth)
		CHECK_EQ(call_tag(a.c, a.next++), 0);
	/* Many turns of both rings. */
	while (a.sum < 20000) {
		serve_once(s);
		CHECK(shmipc_client_poll(a.c, call_again, &a) >= 0);
		CHECK_EQ(shmipc_client_pending(a.c), msg_attr.depth);
	}
	shmipc_client_disconnect(a.c);
	shmipc_server_destroy(s);
}

static void replies_in_any_order(void)
{
	static uint8_t seen[2000];
	struct tally t = { .size = ARRAY_SIZE(seen), .seen = seen };
	struct shmipc_req held[32];
	struct shmipc_server *s = serve("order", &msg_attr);
	struct shmipc_client *c = join("order");
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
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void wrong_replies_are_refused(void)
{
	struct shmipc_server *s = serve("wrong", &msg_attr);
	struct shmipc_client *c = join("wrong");
	struct shmipc_server_stats st;
	struct shmipc_req r;
	char big[sizeof(struct msg) + 1] = { 0 };
	struct msg m;

	CHECK_EQ(shmipc_client_call(c, big, sizeof(big), 0), -EMSGSIZE);
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, big, sizeof(big)), -EMSGSIZE);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, big, sizeof(big)), -EMSGSIZE);
	CHECK_EQ(shmipc_server_reply(s, r.client + 1, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, 4095, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, UINT32_MAX, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, 1, r.id, &m, sizeof(m)), -EPIPE);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), -EINVAL);
	shmipc_client_disconnect(c);
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), -EPIPE);
	CHECK(!shmipc_server_extra(s, r.client));
	shmipc_server_get_stats(s, &st);
	CHECK_EQ(st.requests, 1);
	CHECK_EQ(st.replies, 1);
	CHECK_EQ(st.connects, 1);
	CHECK_EQ(st.departures, 1);
	CHECK_EQ(st.clients, 0);
	shmipc_server_destroy(s);
}

/* What the first client in a place left behind does not reach the second one. */
static void places_are_reused_clean(void)
{
	struct shmipc_attr one = msg_attr;
	struct shmipc_server *s;
	struct shmipc_client *c;
	struct shmipc_req old = { 0 }, new;
	struct msg m = msg_of(0);
	uint32_t last = UINT32_MAX;

	one.max_clients = 1;
	s = serve("reuse", &one);
	for (uint64_t life = 0; life < 50; life++) {
		uint8_t seen[1] = { 0 };
		struct tally t = { .first = life, .size = 1, .seen = seen };

		shmipc_server_poll(s); /* cleans */
		CHECK_EQ(clients_of(s), 0);
		c = join("reuse");
		CHECK_EQ(shmipc_client_index(c), 0);
		CHECK_EQ(call_tag(c, life), 0);
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(shmipc_server_recv(s, &new, &m, sizeof(m)), 1);
		CHECK_EQ(m.tag, life);
		CHECK(new.client != last);
		if (life) /* a late reply to one that is gone */
			CHECK_EQ(shmipc_server_reply(s, old.client, old.id, &m, sizeof(m)), -EPIPE);
		m = msg_of(msg_answer(life));
		CHECK_EQ(shmipc_server_reply(s, new.client, new.id, &m, sizeof(m)), 0);
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
		/* Leaves a received call, an unreceived one, and an untaken response. */
		CHECK_EQ(call_tag(c, 1000), 0);
		CHECK_EQ(call_tag(c, 1001), 0);
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(shmipc_server_recv(s, &old, &m, sizeof(m)), 1);
		CHECK_EQ(call_tag(c, 1002), 0);
		last = old.client;
		shmipc_client_disconnect(c);
	}
	shmipc_server_destroy(s);
}

static void every_place_can_be_taken(void)
{
	struct shmipc_server *s = serve("places", &msg_attr);
	struct shmipc_client *c[8], *more = NULL;

	for (uint32_t i = 0; i < 8; i++) {
		c[i] = join("places");
		CHECK_EQ(shmipc_client_index(c[i]), i);
	}
	CHECK_EQ(shmipc_client_connect(test_name("places"), NULL, &more), -EAGAIN);
	shmipc_server_poll(s);
	CHECK_EQ(clients_of(s), 8);
	shmipc_client_disconnect(c[3]);
	shmipc_server_poll(s);
	CHECK_EQ(clients_of(s), 7);
	c[3] = join("places");
	CHECK_EQ(shmipc_client_index(c[3]), 3);
	for (uint32_t i = 0; i < 8; i++)
		shmipc_client_disconnect(c[i]);
	shmipc_server_poll(s);
	CHECK_EQ(clients_of(s), 0);
	shmipc_server_destroy(s);
}

static void visits_are_capped_and_rotate(void)
{
	struct shmipc_server *s = serve("fair", &msg_attr);
	struct shmipc_client *c[3];
	struct shmipc_req r;
	struct msg m;
	uint32_t first[3] = { 0 };

	for (int i = 0; i < 3; i++)
		c[i] = join("fair");
	for (uint64_t tag = 0; tag < 20; tag++)
		CHECK_EQ(call_tag(c[0], tag), 0);
	CHECK_EQ(call_tag(c[1], 100), 0);
	CHECK_EQ(shmipc_server_poll(s), 2); /* one greedy, one modest */
	for (int i = 0; i < SHMIPC_VISIT_MAX + 1; i++)
		CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 0);
	for (int turn = 0; turn < 30; turn++) {
		CHECK(call_tag(c[0], 0) == 0 || turn > 5);
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
			struct shmipc_slot *slot = (struct shmipc_slot *)one->resp.slot;

			while (slot->lap == one->resp.lap) { /* takes it without a check */
				one->calls[slot->id].state = SHMIPC_CALL_FREE;
				one->calls[one->n_free++].free = slot->id;
				one->answered++;
				shmipc_cursor_advance(&one->resp);
				slot = (struct shmipc_slot *)one->resp.slot;
			}
		}
	}
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(first[i], 10);
		shmipc_client_disconnect(c[i]);
	}
	shmipc_server_destroy(s);
}

static void skipped_clients_keep_their_requests(void)
{
	struct shmipc_attr many = msg_attr;
	struct shmipc_server *s;
	struct shmipc_client *c[70];
	uint64_t skip[2] = { 1ull << 5, 1ull << 3 };
	struct shmipc_req r;
	struct msg m;

	many.max_clients = 70;
	s = serve("skip", &many);
	for (int i = 0; i < 70; i++) {
		c[i] = join("skip");
		CHECK_EQ(call_tag(c[i], (uint64_t)i), 0);
	}
	CHECK_EQ(shmipc_server_poll_with_skip(s, skip), 68);
	while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
		CHECK(m.tag != 5 && m.tag != 67 && m.tag == SHMIPC_CLIENT_INDEX(r.client));
	skip[0] = 0;
	CHECK_EQ(shmipc_server_poll_with_skip(s, skip), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(m.tag, 5);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, &m, sizeof(m)), 1);
	CHECK_EQ(m.tag, 67);
	for (int i = 0; i < 70; i++)
		shmipc_client_disconnect(c[i]);
	shmipc_server_destroy(s);
}

/* Both rings across the wrap of the 32-bit lap: laps are only compared for equality. */
static void laps_may_wrap(void)
{
	struct shmipc_server *s = serve("laps", &msg_attr);
	struct again a = { .c = join("laps") };

	shmipc_server_poll(s);
	a.c->req.lap = s->peers[0].req.lap = UINT32_MAX - 1;
	a.c->resp.lap = s->peers[0].resp.lap = UINT32_MAX - 1;
	while (a.next < msg_attr.depth)
		CHECK_EQ(call_tag(a.c, a.next++), 0);
	while (a.sum < 256 * 5) {
		serve_once(s);
		CHECK(shmipc_client_poll(a.c, call_again, &a) >= 0);
	}
	CHECK(a.c->req.lap < 5 && a.c->resp.lap < 5);
	shmipc_client_disconnect(a.c);
	shmipc_server_destroy(s);
}

static void extra_buffers_are_shared_and_apart(void)
{
	struct shmipc_attr attr = msg_attr;
	struct shmipc_server *s;
	struct shmipc_client *c[2];
	struct shmipc_req r;
	struct msg m;

	attr.extra_size = 5000;
	s = serve("extra", &attr);
	for (int i = 0; i < 2; i++) {
		c[i] = join("extra");
		CHECK_EQ((uintptr_t)shmipc_client_extra(c[i]) % 64, 0);
		memset(shmipc_client_extra(c[i]), 'a' + i, attr.extra_size);
		CHECK_EQ(call_tag(c[i], (uint64_t)i), 0);
	}
	CHECK_EQ(shmipc_server_poll(s), 2);
	while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0) {
		const char *e = shmipc_server_extra(s, r.client);

		for (uint32_t k = 0; k < attr.extra_size; k++)
			CHECK_EQ(e[k], 'a' + (int)m.tag);
	}
	for (int i = 0; i < 2; i++)
		shmipc_client_disconnect(c[i]);
	shmipc_server_destroy(s);
}

static void blocking_call_gives_up_and_recovers(void)
{
	struct shmipc_server *s = serve("block", &msg_attr);
	struct shmipc_client *c = join("block");
	struct msg q = msg_of(5), a;
	uint8_t seen[1] = { 0 };
	struct tally t = { .first = 8, .size = 1, .seen = seen };

	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a) + 1, 0), -EMSGSIZE);
	for (uint32_t i = 0; i < msg_attr.depth; i++)
		CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 1000),
			-ETIMEDOUT);
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0), -EAGAIN);
	CHECK_EQ(shmipc_client_pending(c), msg_attr.depth);
	/* Their responses come late, and are dropped. */
	while (serve_once(s))
		;
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 0);
	CHECK_EQ(shmipc_client_pending(c), 0);
	CHECK_EQ(call_tag(c, 8), 0);
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0), -EBUSY);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void waits_end_at_once_or_in_time(void)
{
	struct shmipc_server *s = serve("wait", &msg_attr);
	struct shmipc_client *c = join("wait");
	struct shmipc_server_stats st;
	struct shmipc_client_stats ct;

	CHECK_EQ(shmipc_server_wait(s, 0), 0);
	do { /* on a busy machine the yields alone can take that long */
		CHECK_EQ(shmipc_server_wait(s, NSEC_PER_MSEC), 0);
		shmipc_server_get_stats(s, &st);
	} while (!st.sleeps);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 0); /* nothing pending */
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(shmipc_client_wait(c, 0), 0);
	do {
		CHECK_EQ(shmipc_client_wait(c, NSEC_PER_MSEC), 0);
		shmipc_client_get_stats(c, &ct);
	} while (!ct.sleeps);
	CHECK_EQ(shmipc_server_wait(s, SHMIPC_FOREVER), 1);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 1);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void closed_server_ends_every_call_once(void)
{
	static uint8_t seen[32];
	struct tally t = { .size = 32, .seen = seen };
	struct shmipc_server *s = serve("close", &msg_attr);
	struct shmipc_client *c = join("close");
	struct msg q = msg_of(1), a;
	int n;

	CHECK_EQ(shmipc_client_abort(c, tally_take, &t), -EBUSY);
	for (uint64_t tag = 0; tag < 20; tag++)
		CHECK_EQ(call_tag(c, tag), 0);
	CHECK_EQ(serve_once(s), 8);
	CHECK_EQ(serve_once(s), 8);
	shmipc_server_destroy(s);
	/* What was answered arrives, the rest is handed back. */
	do
		n = shmipc_client_poll(c, tally_take, &t);
	while (n >= 0);
	CHECK_EQ(n, -EPIPE);
	CHECK_EQ(t.n, 16);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), -EPIPE);
	CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), -EPIPE);
	CHECK_EQ(call_tag(c, 30), -EPIPE);
	CHECK_EQ(shmipc_client_abort(c, tally_take, &t), 4);
	CHECK_EQ(t.ended, 4);
	CHECK_EQ(shmipc_client_abort(c, tally_take, &t), 0);
	CHECK_EQ(shmipc_client_pending(c), 0);
	CHECK_EQ(call_tag(c, 30), -EPIPE);
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0), -EPIPE);
	shmipc_client_disconnect(c);
	c = NULL;
	CHECK_EQ(shmipc_client_connect(test_name("close"), NULL, &c), -ENOENT);
	CHECK(!c);
}

static void forged_responses_end_the_connection(void)
{
	static const uint32_t ids[] = { 0, 1, 31, 32, 4095, UINT32_MAX };
	uint8_t seen[2] = { 0 };
	struct tally t = { .size = 2, .seen = seen };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct shmipc_server *s = serve("forge", &msg_attr);
		struct shmipc_client *c = join("forge");
		struct shmipc_slot *slot = (struct shmipc_slot *)c->resp.slot;

		slot->id = ids[i]; /* none of them is in flight */
		slot->lap = 1;
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), -EPROTO);
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), -EPROTO);
		CHECK_EQ(call_tag(c, 0), -EPROTO);
		CHECK_EQ(t.n, 0);
		shmipc_client_disconnect(c);
		shmipc_server_destroy(s);
	}
}

/* A client that writes more requests than it may: the server takes depth of them. */
static void flood_is_bounded_by_depth(void)
{
	struct shmipc_server *s = serve("flood", &msg_attr);
	struct shmipc_client *c = join("flood");
	struct shmipc_req r[256];
	struct msg m = msg_of(1);
	uint32_t n = 0;

	for (int i = 0; i < 256; i++)
		shmipc_cursor_put(&c->req, UINT32_MAX, &m, sizeof(m));
	while (shmipc_server_poll(s))
		while (shmipc_server_recv(s, &r[n], &m, sizeof(m)) > 0)
			n++;
	CHECK_EQ(n, msg_attr.depth);
	CHECK_EQ(shmipc_server_reply(s, r[0].client, r[0].id, &m, sizeof(m)), 0);
	CHECK_EQ(shmipc_server_poll(s), 1);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void header_is_as_documented(void)
{
	static const uint8_t magic[8] = { 'S', 'H', 'M', 'I', 'P', 'C', '0', '1' };
	struct shmipc_server *s = serve("bytes", &msg_attr);
	struct stat st;
	uint8_t head[40];
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/dev/shm/shmipc.%s", test_name("bytes"));
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	f = fopen(path, "rb");
	CHECK(f);
	CHECK_EQ(fread(head, 1, sizeof(head), f), sizeof(head));
	fclose(f);
	CHECK_EQ(memcmp(head, magic, 8), 0);
	CHECK_EQ(head[8], 1); /* version */
	CHECK_EQ(head[12], 8); /* max_clients */
	CHECK_EQ(head[16], 32); /* depth */
	CHECK_EQ(head[20], 32); /* req_size */
	CHECK_EQ(head[24], 32); /* resp_size */
	CHECK_EQ(head[28], 0); /* extra_size */
	CHECK_EQ(memcmp(head + 32, &(uint64_t){ (uint64_t)st.st_size }, 8), 0);
	shmipc_server_destroy(s);
	CHECK(stat(path, &st) != 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(layout_has_one_writer_per_line),
		TEST(sizes_are_checked),
		TEST(defaults_and_both_views_of_the_sizes),
		TEST(connect_says_why_not),
		TEST(round_trip),
		TEST(depth_bounds_what_is_in_flight),
		TEST(callback_may_call_at_full_depth),
		TEST(replies_in_any_order),
		TEST(wrong_replies_are_refused),
		TEST(places_are_reused_clean),
		TEST(every_place_can_be_taken),
		TEST(visits_are_capped_and_rotate),
		TEST(skipped_clients_keep_their_requests),
		TEST(laps_may_wrap),
		TEST(extra_buffers_are_shared_and_apart),
		TEST(blocking_call_gives_up_and_recovers),
		TEST(waits_end_at_once_or_in_time),
		TEST(closed_server_ends_every_call_once),
		TEST(forged_responses_end_the_connection),
		TEST(flood_is_bounded_by_depth),
		TEST(header_is_as_documented),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
