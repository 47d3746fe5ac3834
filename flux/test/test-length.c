/* SPDX-License-Identifier: MIT */
/* Each call and each answer of flux arrives with the length that its sender specified. */
#include "support/lengthtest.h"
#include "common.h"

#define SIZE LENGTHTEST_SIZE
#define CALLS 2000
#define DEPTH 32

static struct flux *network(uint32_t payload, uint32_t reply)
{
	return make_of(2, 0, DEPTH, payload, reply);
}

/* Receives all requests into a buffer of @room bytes, and answers them. */
static void answer_all(struct flux_node *b, uint64_t *n, uint32_t room)
{
	unsigned char buf[SIZE];
	uint32_t from, got;
	uint64_t call;

	for (; flux_try_recv_raw(b, &from, &call, memset(buf, LENGTHTEST_BEHIND, SIZE), room,
		       &got) == 1;
		++*n) {
		lengthtest_copied(buf, room, got, *n);
		CHECK_EQ(flux_reply(b, call, lengthtest_message(buf, *n + 1),
				 lengthtest_length(*n + 1)),
			0);
	}
	flux_flush(b);
}

/*
 * Messages alone and in bursts, in both directions, into buffers that are long enough or too short.
 */
TEST(lengths_travel)
{
	uint64_t seed = test_seed(), sent = 0, served = 0, ended = 0;
	FLUX *f = network(SIZE, SIZE);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	unsigned char buf[SIZE];

	while (ended < CALLS) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % DEPTH);

		for (uint32_t i = 0; i < n; i++, sent++)
			CHECK_EQ(flux_call(a, 1, lengthtest_message(buf, sent),
					 lengthtest_length(sent), sent),
				0);
		flux_flush(a);
		answer_all(b, &served, test_rand(&seed) % 2 ? SIZE : SIZE / 3);
		while (flux_poll(a, lengthtest_answer, &ended))
			;
		CHECK_EQ(ended, sent);
	}
}

/* The buffer may be longer than the longest call, also if the compiler knows its size and inlines
 * the copy (flux.h). */
TEST(longer_buffers_are_allowed)
{
	FLUX *f = network(12, 12);
	unsigned char buf[64];
	uint32_t from, len;
	uint64_t call;

	memset(buf, LENGTHTEST_BEHIND, sizeof(buf));
	CHECK_EQ(flux_call(flux_get_node(f, 0), 1, "hello, world", 12, 0), 0);
	CHECK_EQ(flux_try_recv_raw(flux_get_node(f, 1), &from, &call, buf, sizeof(buf), &len), 1);
	CHECK_EQ(len, 12);
	CHECK_EQ(memcmp(buf, "hello, world", 12), 0);
	test_filled(buf + 12, sizeof(buf) - 12, LENGTHTEST_BEHIND);
}

/* The longest messages, whose length needs 17 bits. */
TEST(longest)
{
	FLUX *f = network(FLUX_MAX_PAYLOAD, FLUX_MAX_PAYLOAD);
	AT_END(end_free) unsigned char *buf = malloc(FLUX_MAX_PAYLOAD);
	uint32_t from, len;
	uint64_t call;

	CHECK(buf);
	test_fill(buf, FLUX_MAX_PAYLOAD, 3);
	CHECK_EQ(flux_call(flux_get_node(f, 0), 1, buf, FLUX_MAX_PAYLOAD, 0), 0);
	test_fill(buf, FLUX_MAX_PAYLOAD, 0);
	CHECK_EQ(flux_try_recv_raw(flux_get_node(f, 1), &from, &call, buf, FLUX_MAX_PAYLOAD, &len),
		1);
	CHECK_EQ(len, FLUX_MAX_PAYLOAD);
	test_filled(buf, FLUX_MAX_PAYLOAD, 3);
}
