/* SPDX-License-Identifier: MIT */
/* Each response arrives with its sender's length, and so does each request. */
#include <pthread.h>

#include "support/lengthtest.h"
#include "solo.h"

#define SIZE LENGTHTEST_SIZE
#define CALLS 2000

static void begin(uint32_t size, struct delegrpc_server **s_p, struct delegrpc_client **c_p)
{
	struct delegrpc_attr attr = {.max_clients = 1,
		.resp_depth = 32,
		.req_size = size,
		.resp_size = size};

	CHECK_EQ(delegrpc_server_create(name, &attr, s_p), 0);
	*c_p = client_new();
}

static void answer_all(struct delegrpc_server *s, uint64_t *n)
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

/* Messages alone and in bursts, in both directions. */
static void lengths_travel(void)
{
	uint64_t seed = test_seed(), sent = 0, served = 0, ended = 0;
	unsigned char buf[SIZE];
	SERVER *s;
	CLIENT *c;

	begin(SIZE, &s, &c);
	while (ended < CALLS) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % 32);

		for (uint32_t i = 0; i < n; i++, sent++)
			CHECK_EQ(delegrpc_client_call(c, lengthtest_message(buf, sent),
					 lengthtest_length(sent), sent),
				0);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		answer_all(s, &served);
		while (delegrpc_client_poll(c, lengthtest_answer, &ended) > 0)
			;
		CHECK_EQ(ended, sent);
	}
}

static void keep_length(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	test_filled(resp, len, 3);
	*(uint32_t *)arg = len;
}

/* The longest messages, and the highest id. */
static void longest(void)
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
	begin(DELEGRPC_MAX_PAYLOAD, &s, &c);
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

	CHECK_EQ(delegrpc_server_create(name, &attr, &s), 0);
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

struct echo {
	struct delegrpc_server *s;
	uint32_t len;
};

static void *echo_once(void *arg)
{
	struct echo *e = arg;
	struct delegrpc_req r;

	CHECK_EQ(delegrpc_server_wait(e->s, UINT64_MAX), 1);
	CHECK_EQ(delegrpc_server_recv(e->s, &r), 1);
	CHECK_EQ(delegrpc_server_reply(e->s, r.client, r.id, r.payload, e->len), 0);
	delegrpc_server_advance_tail(e->s);
	delegrpc_server_flush(e->s);
	return NULL;
}

static void blocking_call_says_how_long(void)
{
	unsigned char q[SIZE], a[SIZE];
	struct delegrpc_client *c;
	struct echo e;
	pthread_t t;

	begin(SIZE, &e.s, &c);
	memset(q, 7, sizeof(q));
	for (e.len = 0; e.len <= SIZE; e.len += 20) {
		uint32_t len = 1, copied = e.len < 50 ? e.len : 50;

		memset(a, LENGTHTEST_BEHIND, sizeof(a));
		CHECK_EQ(pthread_create(&t, NULL, echo_once, &e), 0);
		CHECK_EQ(delegrpc_client_call_wait(c, q, SIZE, a, 50, UINT64_MAX, &len), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(len, e.len);
		test_filled(a, copied, 7);
		test_filled(a + copied, SIZE - copied, LENGTHTEST_BEHIND);
	}
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(e.s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(lengths_travel),
		TEST(longest),
		TEST(blocking_call_says_how_long),
	};

	snprintf(name, sizeof(name), "length.%d", (int)getpid());
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
