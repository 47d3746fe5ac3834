/* SPDX-License-Identifier: MIT */
/* Regions and connections: how they are made, given back and used again, and how they end. */
#include <errno.h>
#include <sys/stat.h>

#include "common.h"
#include "layout.h"

TEST(layout_has_one_writer_per_line)
{
	static const struct {
		uint32_t resp_size, depth, stride, most, cell, cells;
	} t[] = {
		{17, 16, 32, 8, 256, 17}, /* rounded up, with its head, to a multiple of 8 */
		{16, 8, 24, 8, 192, 9}, {16, 1, 24, 1, 64, 64},
		{65000, 255, 65008, 1, 65024, 256}, /* rings of long messages have few cells */
	};
	struct shmipc_layout l;
	struct shmipc_attr a = {.max_clients = 3, .depth = 300, .req_size = 57, .extra_size = 1};

	CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
	CHECK_EQ(l.req.stride, 72);
	CHECK_EQ(l.resp.stride, 64);
	CHECK_EQ(l.req.most, 8);
	CHECK_EQ(l.req.cell, 8 * 72);
	CHECK_EQ(l.resp.cell, 8 * 64);
	CHECK_EQ(l.req.cells, 301); /* each message may be a burst of its own */
	CHECK_EQ(l.resp.cells, 301);
	CHECK_EQ(l.resp_ring % CACHE_LINE, 0);
	CHECK_EQ(l.extra % CACHE_LINE, 0);
	CHECK_EQ(l.area % CACHE_LINE, 0);
	CHECK_EQ(l.area, 128 + 301 * 8 * 72 + 2048 + 301 * 8 * 64 + 64);
	CHECK_EQ(l.size, 704 + 3 * l.area);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		a.resp_size = t[i].resp_size;
		a.depth = t[i].depth;
		CHECK_EQ(shmipc_layout_plan(&a, &l), 0);
		CHECK_EQ(l.resp.stride, t[i].stride);
		CHECK_EQ(l.resp.most, t[i].most);
		CHECK_EQ(l.resp.cell, t[i].cell);
		CHECK_EQ(l.resp.cells, t[i].cells);
		CHECK_EQ(l.extra % CACHE_LINE, 0);
		CHECK_EQ(l.area % CACHE_LINE, 0);
	}
	CHECK_EQ(l.req.most, 8); /* does not depend on the responses */
}

TEST(sizes_are_checked)
{
	static const struct shmipc_attr bad[] = {
		{.max_clients = SHMIPC_MAX_CLIENTS + 1},
		{.depth = SHMIPC_MAX_DEPTH + 1},
		{.req_size = SHMIPC_MAX_PAYLOAD + 1},
		{.resp_size = SHMIPC_MAX_PAYLOAD + 1},
	};
	struct shmipc_server *s = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(shmipc_server_create(test_name, &bad[i], &s), -EINVAL);
	CHECK(!s);
	shmipc_server_destroy(NULL);
	shmipc_client_disconnect(NULL);
}

TEST(defaults_and_both_views_of_the_sizes)
{
	SERVER *s = server_with(NULL);
	CLIENT *c = client_new();
	struct shmipc_attr a, b;

	shmipc_server_get_attr(s, &a, sizeof(a));
	shmipc_client_get_attr(c, &b, sizeof(b));
	CHECK_EQ(memcmp(&a, &b, sizeof(a)), 0);
	CHECK_EQ(a.max_clients, 64);
	CHECK_EQ(a.depth, 64);
	CHECK_EQ(a.req_size, 56);
	CHECK_EQ(a.resp_size, 56);
	CHECK_EQ(a.extra_size, 0);
	CHECK(!shmipc_client_extra(c));
}

TEST(connect_says_why_not)
{
	struct shmipc_attr want = msg_attr;
	struct shmipc_client *c = NULL;
	struct shmipc_server *s, *other = NULL;

	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -ENOENT);
	s = server_with(&msg_attr);
	CHECK_EQ(shmipc_server_create(test_name, NULL, &other), -EADDRINUSE);
	for (int i = 0; i < 5; i++) {
		want = msg_attr;
		(&want.max_clients)[i]++;
		CHECK_EQ(shmipc_client_connect(test_name, &want, &c), -EPROTO);
	}
	CHECK_EQ(shmipc_client_connect(test_name, &msg_attr, &c), 0);
	shmipc_client_disconnect(c);
	c = NULL;
	CHECK_EQ(shmipc_server_unlink(s), 0);
	CHECK_EQ(shmipc_server_unlink(s), 0);
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -ENOENT);
	shmipc_server_destroy(s);
	CHECK(!c && !other);
}

/* A bit in the bitmap alone does not admit a client: the client must also have taken the place. */
TEST(bits_admit_nobody)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct shmipc_header *h =
		container_of((uint32_t *)c->server_state, struct shmipc_header, server_state);

	h->active[0] |= UINT64_MAX;
	h->active[1] |= UINT64_MAX;
	h->changes++;
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(server_stats_of(s).clients, 1);
}

/* A closed region is refused, also if it has a clean place. */
TEST(closed_region_is_refused)
{
	struct shmipc_server *s = server_with(&msg_attr);
	struct shmipc_client *c = client_new(), *late;
	struct shmipc_header *h =
		container_of((uint32_t *)c->server_state, struct shmipc_header, server_state);

	h->closed = 1;
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &late), -ECONNREFUSED);
	h->closed = 0;
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* Messages of the first client in a place do not reach the second one. */
TEST(places_are_reused_clean)
{
	struct shmipc_attr one = msg_attr;
	SERVER *s;
	struct shmipc_client *c;
	struct shmipc_req old = {0}, new;
	struct msg m = msg_of(0);
	uint64_t last = UINT64_MAX;

	one.max_clients = 1;
	s = server_with(&one);
	for (uint64_t life = 0; life < 50; life++) {
		uint8_t seen[1] = {0};
		struct tally t = {.first = life, .size = 1, .seen = seen};

		shmipc_server_poll(s); /* cleans the place */
		CHECK_EQ(server_stats_of(s).clients, 0);
		c = client_new();
		CHECK_EQ(shmipc_client_index(c), 0);
		CHECK_EQ(call_tag(c, life), 0);
		new = take_msg(s, &m);
		CHECK_EQ(m.tag, life);
		CHECK(new.client != last);
		if (life) /* a late reply to the former client */
			CHECK_EQ(shmipc_server_reply(s, old.client, old.id, &m, sizeof(m)), -EPIPE);
		m = msg_of(msg_answer(life));
		CHECK_EQ(shmipc_server_reply(s, new.client, new.id, &m, sizeof(m)), 0);
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
		/* The client leaves one call that was received and two that were not. */
		CHECK_EQ(call_tag(c, 1000), 0);
		CHECK_EQ(call_tag(c, 1001), 0);
		old = take_msg(s, &m);
		CHECK_EQ(call_tag(c, 1002), 0);
		last = old.client;
		shmipc_client_disconnect(c);
	}
}

/* Sets place 0, which has just been cleaned, to its state after @clients more clients. */
static void place_ages(struct shmipc_server *s, uint64_t clients)
{
	struct shmipc_peer *peer = &s->peers[0];
	struct shmipc_place *place =
		(void *)((char *)peer->req.begin - sizeof(struct shmipc_place));

	CHECK(place->server_epoch == peer->epoch);
	peer->epoch += clients;
	place->server_epoch = peer->epoch;
}

/* The answer to a client that has left reaches no successor, however many there have been. */
TEST(late_answer_reaches_no_successor)
{
	static const uint64_t clients[] = {0, (1u << 20) - 1, (1ull << 32) - 1, (1ull << 40) - 1};
	struct shmipc_attr one = msg_attr;

	one.max_clients = 1;
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		SERVER *s = server_with(&one);
		CLIENT *c = client_new();
		struct shmipc_req held, r;
		struct msg m = msg_of(0);
		uint8_t seen[1] = {0};
		struct tally t = {.first = 7, .size = 1, .seen = seen};

		CHECK_EQ(call_tag(c, 1), 0);
		held = take_msg(s, &m);
		shmipc_client_disconnect(c);
		shmipc_server_poll(s);
		place_ages(s, clients[i]);
		c = client_new();
		CHECK_EQ(call_tag(c, 7), 0);
		r = take_msg(s, &m);
		CHECK_EQ(r.id, held.id);
		CHECK_EQ(shmipc_server_reply(s, held.client, held.id, &m, sizeof(m)), -EPIPE);
		CHECK(!shmipc_server_extra(s, held.client));
		m = msg_of(msg_answer(7));
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
		CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
	}
}

TEST(every_place_can_be_taken)
{
	SERVER *s = server_with(&msg_attr);
	struct shmipc_client *c[8], *more = NULL;

	for (uint32_t i = 0; i < 8; i++) {
		c[i] = client_new();
		CHECK_EQ(shmipc_client_index(c[i]), i);
	}
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &more), -EUSERS);
	shmipc_server_poll(s);
	CHECK_EQ(server_stats_of(s).clients, 8);
	shmipc_client_disconnect(c[3]);
	shmipc_server_poll(s);
	CHECK_EQ(server_stats_of(s).clients, 7);
	c[3] = client_new();
	CHECK_EQ(shmipc_client_index(c[3]), 3);
	for (uint32_t i = 0; i < 8; i++)
		shmipc_client_disconnect(c[i]);
	shmipc_server_poll(s);
	CHECK_EQ(server_stats_of(s).clients, 0);
}

TEST(extra_buffers_are_shared_and_apart)
{
	struct shmipc_attr attr = msg_attr;
	SERVER *s;
	struct shmipc_client *c[2];
	struct shmipc_req r;
	struct msg m;

	attr.extra_size = 5000;
	s = server_with(&attr);
	for (int i = 0; i < 2; i++) {
		c[i] = client_new();
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
}

TEST(closed_server_ends_every_call_once)
{
	static uint8_t seen[32];
	struct tally t = {.size = 32, .seen = seen};
	struct shmipc_server *s = server_with(&msg_attr);
	struct shmipc_client *c = client_new();
	struct msg q = msg_of(1), a;
	int n;

	CHECK_EQ(shmipc_client_abort(c, tally_take, &t), -EBUSY);
	calls(c, 20);
	CHECK_EQ(serve_once(s), 8);
	CHECK_EQ(serve_once(s), 8);
	shmipc_server_destroy(s);
	/* The answers arrive, and abort hands back the tokens of the other calls. */
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
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL), -EPIPE);
	shmipc_client_disconnect(c);
	c = NULL;
	CHECK_EQ(shmipc_client_connect(test_name, NULL, &c), -ENOENT);
	CHECK(!c);
}

TEST(header_is_as_documented)
{
	static const uint8_t magic[8] = {'S', 'H', 'M', 'I', 'P', 'C', '0', '1'};
	struct shmipc_server *s = server_with(&msg_attr);
	struct stat st;
	uint8_t head[56];
	const char *path = test_file(RPC_PREFIX);
	FILE *f;

	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	f = fopen(path, "rb");
	CHECK(f);
	CHECK_EQ(fread(head, 1, sizeof(head), f), sizeof(head));
	fclose(f);
	CHECK_EQ(memcmp(head, magic, 8), 0);
	CHECK_EQ(head[8], 9); /* version */
	CHECK_EQ(head[12], 8); /* max_clients */
	CHECK_EQ(head[16], 32); /* depth */
	CHECK_EQ(head[20], 32); /* req_size */
	CHECK_EQ(head[24], 32); /* resp_size */
	CHECK_EQ(head[28], 0); /* extra_size */
	CHECK_EQ(memcmp(head + 32, &(uint64_t){(uint64_t)st.st_size}, 8), 0);
	CHECK_EQ(head[40], 0); /* pushes */
	CHECK_EQ(memcmp(head + 44, (uint32_t[3]){0}, 12), 0); /* loans and their sizes */
	shmipc_server_destroy(s);
	CHECK(stat(path, &st) != 0);
}
