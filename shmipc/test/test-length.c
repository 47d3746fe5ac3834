/* SPDX-License-Identifier: MIT */
/* Each message arrives with the length that its sender specified; hostile lengths are refused. */
#include "common.h"
#include "support/rpclength.h"

/* Receives into buffers that are long enough or too short. */
static void answer_all(struct shmipc_server *s, uint64_t *n, uint64_t *seed)
{
	uint32_t room = test_rand(seed) % 2 ? SIZE : SIZE / 3;
	unsigned char buf[SIZE];
	struct shmipc_req r;

	while (shmipc_server_poll(s))
		for (; shmipc_server_recv(s, &r, memset(buf, LENGTHTEST_BEHIND, SIZE), room) > 0;
			++*n) {
			lengthtest_copied(buf, room, r.len, *n);
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id,
					 lengthtest_message(buf, *n + 1),
					 lengthtest_length(*n + 1)),
				0);
		}
}

/* A buffer whose size the compiler knows is longer than any request. */
TEST(longer_buffers_are_allowed)
{
	struct shmipc_attr small = {.max_clients = 1, .req_size = 12, .resp_size = 12};
	SERVER *s = server_with(&small);
	CLIENT *c = client_new();
	unsigned char buf[64];
	struct shmipc_req r;

	memset(buf, LENGTHTEST_BEHIND, sizeof(buf));
	CHECK_EQ(shmipc_client_call(c, "hello, world", 12, 0), 0);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, buf, sizeof(buf)), 1);
	CHECK_EQ(r.len, 12);
	CHECK_EQ(memcmp(buf, "hello, world", 12), 0);
	test_filled(buf + 12, sizeof(buf) - 12, LENGTHTEST_BEHIND);
}

/* A request with an impossible length or id is dropped. */
TEST(hostile_requests_are_dropped)
{
	static const uint32_t ids[] = {32, 33, 4095, CELLRING_ID_MASK - 1};
	static const uint32_t lengths[] = {SIZE + 1, SIZE + 4, 1u << 20, (1u << 21) - 1};
	SERVER *s = length_server(SIZE);
	CLIENT *c = client_new();
	unsigned char buf[SIZE] = {0};
	struct shmipc_req r;

	for (uint32_t i = 0; i < 8; i++) {
		struct cellring_message *m = (struct cellring_message *)(void *)c->req.slot;
		uint64_t lap = c->req.lap;

		cellring_put(&c->req, 0, buf, SIZE);
		m->head = CELLRING_HEAD(lap, 1, 1) | (i < 4 ? CELLRING_MESSAGE(0, lengths[i]) :
							      CELLRING_MESSAGE(ids[i - 4], SIZE));
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(shmipc_server_recv(s, &r, buf, sizeof(buf)), 0);
		CHECK_EQ(server_stats_of(s).bad_requests, i + 1);
	}
	CHECK_EQ(shmipc_client_call(c, buf, SIZE, 1), 0);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, buf, sizeof(buf)), 1);
	CHECK_EQ(server_stats_of(s).bad_requests, 8);
}

/* A response whose length exceeds resp_size is not delivered, and ends the connection. */
TEST(hostile_responses_end_the_connection)
{
	static const uint32_t lengths[] = {SIZE + 1, SIZE + 4, 1u << 20, (1u << 21) - 1};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		SERVER *s = length_server(SIZE);
		CLIENT *c = client_new();
		struct cellring_message *m = (struct cellring_message *)(void *)c->resp.slot;
		unsigned char buf[SIZE] = {0};
		uint64_t n = 0;

		CHECK_EQ(shmipc_client_call(c, buf, SIZE, 0), 0);
		m->head = CELLRING_HEAD(1, 1, 1) | CELLRING_MESSAGE(0, lengths[i]);
		CHECK_EQ(shmipc_client_poll(c, lengthtest_answer, &n), -EPROTO);
		CHECK_EQ(n, 0);
	}
}

/* Each request can be answered once, also while others are unanswered. */
TEST(second_replies_are_refused)
{
	SERVER *s = length_server(SIZE);
	CLIENT *c = client_new();
	unsigned char buf[SIZE] = {0};
	struct shmipc_req r[3];

	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(shmipc_client_call(c, buf, lengthtest_length(i), i), 0);
	CHECK_EQ(shmipc_server_poll(s), 1);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(shmipc_server_recv(s, &r[i], buf, sizeof(buf)), 1);
	CHECK_EQ(shmipc_server_reply(s, r[1].client, r[1].id, buf, 0), 0);
	CHECK_EQ(shmipc_server_reply(s, r[1].client, r[1].id, buf, 0), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, r[0].client, 3, buf, 0), -EINVAL); /* never received */
	CHECK_EQ(shmipc_server_reply(s, r[0].client, 32, buf, 0), -EINVAL); /* no such id */
	CHECK_EQ(shmipc_server_reply(s, r[0].client, UINT32_MAX, buf, 0), -EINVAL);
	CHECK_EQ(shmipc_server_reply(s, r[0].client, r[0].id, buf, 0), 0);
	CHECK_EQ(shmipc_server_reply(s, r[2].client, r[2].id, buf, 0), 0);
}

/* A client may use the id of a request that its predecessor made and the server never answered. */
TEST(open_requests_go_with_their_client)
{
	SERVER *s = length_server(SIZE);
	unsigned char buf[SIZE] = {0};
	struct shmipc_client *c;
	struct shmipc_req r;

	for (uint32_t i = 0; i < 3; i++) {
		c = client_new();
		CHECK_EQ(shmipc_client_call(c, buf, 1, 0), 0);
		CHECK_EQ(shmipc_server_poll(s), 1);
		CHECK_EQ(shmipc_server_recv(s, &r, buf, sizeof(buf)), 1);
		shmipc_client_disconnect(c);
		CHECK_EQ(shmipc_server_poll(s), 0);
	}
	CHECK_EQ(server_stats_of(s).bad_requests, 0);
}
