/* SPDX-License-Identifier: MIT */
/* Each response arrives with the length that the server gave, as requests do. */
#include <pthread.h>

#include "solo.h"

#define SIZE 100
#define CALLS 2000
#define BEHIND 0xee /* in the senders' buffers, behind the message; in no message */

static void begin(uint32_t size, struct delegrpc_server **s_p, struct delegrpc_client **c_p)
{
	struct delegrpc_attr attr = {.max_clients = 1,
		.resp_depth = 32,
		.req_size = size,
		.resp_size = size};

	CHECK_EQ(delegrpc_server_create(name, &attr, s_p), 0);
	*c_p = client_new();
}

static uint32_t length_of(uint64_t n)
{
	return (uint32_t)(n * 2654435761u >> 7) % (SIZE + 1);
}

/* A buffer with a message in front. */
static const unsigned char *written(unsigned char *buf, uint64_t n)
{
	memset(buf, BEHIND, SIZE);
	memset(buf, (int)(n & 63), length_of(n));
	return buf;
}

/* All of a message is there, and nothing of what its sender had behind it. */
static void check(const void *payload, uint32_t len, uint64_t n)
{
	CHECK_EQ(len, length_of(n));
	test_filled(payload, len, n & 63);
	for (uint32_t i = len; i < SIZE; i++)
		CHECK(((const unsigned char *)payload)[i] != BEHIND);
}

static void take_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t *n = arg;

	CHECK_EQ(token, (*n)++);
	check(resp, len, token + 1);
}

static void answer_all(struct delegrpc_server *s, uint64_t *n)
{
	unsigned char buf[SIZE];
	struct delegrpc_req r;

	while (delegrpc_server_poll(s) > 0)
		for (; delegrpc_server_recv(s, &r); ++*n) {
			check(r.payload, r.len, *n);
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, written(buf, *n + 1),
					 length_of(*n + 1)),
				0);
		}
	delegrpc_server_advance_tail(s);
}

/* Alone and in bursts, in both directions. */
static void lengths_travel(void)
{
	uint64_t seed = test_seed(), sent = 0, served = 0, ended = 0;
	unsigned char buf[SIZE];
	struct delegrpc_server *s;
	struct delegrpc_client *c;

	begin(SIZE, &s, &c);
	while (ended < CALLS) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % 32);

		for (uint32_t i = 0; i < n; i++, sent++)
			CHECK_EQ(delegrpc_client_call(c, written(buf, sent), length_of(sent), sent),
				0);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		answer_all(s, &served);
		while (delegrpc_client_poll(c, take_answer, &ended) > 0)
			;
		CHECK_EQ(ended, sent);
	}
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

static void keep_length(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	test_filled(resp, len, 3);
	*(uint32_t *)arg = len;
}

/* The longest that there are, and the highest id. */
static void longest(void)
{
	struct delegrpc_attr attr = {.max_clients = 1,
		.resp_depth = DELEGRPC_MAX_RESP_DEPTH,
		.req_size = 8,
		.resp_size = 8};
	unsigned char *buf = malloc(DELEGRPC_MAX_PAYLOAD);
	struct delegrpc_server *s;
	struct delegrpc_client *c;
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
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
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

		memset(a, BEHIND, sizeof(a));
		CHECK_EQ(pthread_create(&t, NULL, echo_once, &e), 0);
		CHECK_EQ(delegrpc_client_call_wait(c, q, SIZE, a, 50, UINT64_MAX, &len), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(len, e.len);
		test_filled(a, copied, 7);
		test_filled(a + copied, SIZE - copied, BEHIND);
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
