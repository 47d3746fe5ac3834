/* SPDX-License-Identifier: MIT */
/* Each request and each response arrives with the length that its sender specified. */
#include "solo.h"
#include "support/rpclength.h"

static void answer_all(struct delegrpc_server *s, uint64_t *n, uint64_t *seed)
{
	unsigned char buf[SIZE];
	struct delegrpc_req r;

	while (delegrpc_server_poll(s) > 0)
		for (; delegrpc_server_recv(s, &r); ++*n) {
			lengthtest_check(r.payload, r.len, *n);
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id,
					 lengthtest_message(buf, *n + 1),
					 lengthtest_length(*n + 1)),
				0);
		}
	delegrpc_server_advance_tail(s);
}

static void keep_length(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	test_filled(resp, len, 3);
	*(uint32_t *)arg = len;
}

/* The longest messages, and the highest id. */
TEST(longest)
{
	struct delegrpc_attr attr = {.max_clients = 1,
		.resp_depth = DELEGRPC_MAX_RESP_DEPTH,
		.req_size = 8,
		.resp_size = 8};
	unsigned char *buf = malloc(DELEGRPC_MAX_PAYLOAD + 1);
	SERVER *s;
	CLIENT *c;
	struct delegrpc_req r;
	uint32_t len = 0;

	CHECK(buf);
	test_fill(buf, DELEGRPC_MAX_PAYLOAD, 3);
	s = length_server(DELEGRPC_MAX_PAYLOAD);
	c = client_new();
	CHECK_EQ(delegrpc_client_call(c, buf, DELEGRPC_MAX_PAYLOAD, 0), 0);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	CHECK_EQ(delegrpc_server_recv(s, &r), 1);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, buf, DELEGRPC_MAX_PAYLOAD + 1),
		-EMSGSIZE);
	CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, buf, DELEGRPC_MAX_PAYLOAD), 0);
	CHECK_EQ(delegrpc_client_poll(c, keep_length, &len), 1);
	CHECK_EQ(len, DELEGRPC_MAX_PAYLOAD);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);

	s = server_with(&attr);
	c = client_new();
	for (uint32_t i = 0; i < DELEGRPC_MAX_RESP_DEPTH; i++)
		CHECK_EQ(delegrpc_client_call(c, buf, 1, i), 0);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	while (delegrpc_server_poll(s) > 0)
		while (delegrpc_server_recv(s, &r))
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, buf, 1 + r.id % 8), 0);
	for (uint32_t n = 0; n < DELEGRPC_MAX_RESP_DEPTH;) {
		int got = delegrpc_client_poll(c, keep_length, &len);

		CHECK(got > 0);
		n += (uint32_t)got;
	}
	CHECK_EQ(delegrpc_client_pending(c), 0);
	free(buf);
}
