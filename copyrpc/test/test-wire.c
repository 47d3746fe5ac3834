/* SPDX-License-Identifier: MIT */
/* The bytes of a ring, and the flow control's numbers at their limits. */
#include "support/test.h"
#include "receive-batch.h"

TEST(padding)
{
	static const struct {
		uint32_t len, bytes;
	} table[] = {{0, 32}, {1, 32}, {20, 32}, {21, 64}, {52, 64}, {53, 96}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		CHECK_EQ(wire_blocks(table[i].len) * WIRE_BLOCK, table[i].bytes);
	for (uint32_t b = 1; b < 1000; b++) {
		CHECK_EQ(wire_blocks(wire_payload(b)), b);
		CHECK_EQ(wire_blocks(wire_payload(b) + 1), b + 1);
	}
}

TEST(documented_limits)
{
	CHECK_EQ(wire_payload(credit_message_max(COPYRPC_RING_MIN / WIRE_BLOCK)), 500);
	CHECK_EQ(COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MIN), 500);
	CHECK_EQ(COPYRPC_PAYLOAD_MAX(1 << 20), 131060);
	CHECK_EQ(wire_payload(credit_message_max((1 << 20) / WIRE_BLOCK)), 131060);
	CHECK_EQ(credit_rmax((1 << 20) / WIRE_BLOCK) * WIRE_BLOCK, 1 << 18); /* a quarter */
	CHECK_EQ(credit_threshold((1 << 20) / WIRE_BLOCK) * WIRE_BLOCK, 1 << 16); /* a sixteenth */
	CHECK_EQ(credit_threshold(COPYRPC_RING_MIN / WIRE_BLOCK), 8);
	CHECK_EQ(wire_payload(credit_nested_message_max((1 << 20) / WIRE_BLOCK)), 65524);
	CHECK(COPYRPC_RING_MIN == 4096 && COPYRPC_RING_MAX == 1 << 30);
	CHECK(COPYRPC_TIMEOUT == 18 && COPYRPC_RETRIES == 7); /* 1.07 s, seven times */
}

/* A batch of one call and one reply, byte by byte. */
TEST(bytes_of_a_batch)
{
	static const uint8_t want[] = {
		0x60, 0, 0, 0, 0, 0, 0, 0, /* consumer position: the request took blocks 0 to 2 */
		0x40, 0, 0, 0, 0, 0, 0, 0, /* credit: 2 blocks, which the reply has freed */
		2, 0, 0, 0, /* messages */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* zero */
		0, 0, 0, 0, /* call id: the first one */
		21, 0, 0, 0, /* limit of the response */
		2, 0, 0, 0, 'h', 'i', /* length, payload */
	};
	static uint8_t in[4096], out[4096];
	struct req_queue queue = {.tail_p = &queue.head};
	AT_END(chan_fini) struct chan ch;
	uint64_t pos;
	uint32_t len;

	CHECK_EQ(chan_init(&ch, out, in, 128, 128, 0, false, &queue, 0), 0);
	ch.status = 0;
	wire_put_meta(in, 0, 0, 1);
	memcpy(wire_put_header(in + 32, 77, 3, 30), "012345678901234567890123456789", 30);
	CHECK_EQ(receive(&ch, 3, &(struct listener){NULL, NULL, 0}), 1);
	CHECK_EQ(chan_call(&ch, "hi", 2, 21, 5, false), 0);
	CHECK_EQ(chan_reply(queue.head, "yes", 3, NULL, chan_reply_odd), 0);
	CHECK_EQ(ch.open.count, 2);
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 3);
	CHECK_EQ(pos, 0);
	CHECK_EQ(len, 32 + 32 + 12 + 3); /* without the padding of the last message */
	CHECK(memcmp(out, want, sizeof(want)) == 0);
	CHECK(memcmp(out + 64, "\x4d\0\0\x80\3\0\0\0\3\0\0\0yes", 15) == 0);
	CHECK(!chan_waits(&ch));
}

/* If a message does not fit before the ring's end, a marker of 32 bytes skips the rest and carries
 * consumer position and credit. A message that fits exactly needs no marker. */
TEST(wrap_and_exact_fit)
{
	static uint8_t in[512], out[512]; /* 16 blocks */
	struct req_queue queue = {.tail_p = &queue.head};
	struct chan ch;
	uint64_t pos;
	uint32_t len;

	CHECK_EQ(chan_init(&ch, out, in, 16, 16, 0, false, &queue, 13), 0);
	ch.status = 0;
	CHECK_EQ(chan_call(&ch, "a", 1, 0, 1, false), 0); /* blocks 13, 14 */
	CHECK_EQ(chan_call(&ch, "", 0, 0, 2, false), 0); /* block 15, the ring's last */
	CHECK_EQ(ch.cr.p, 16);
	CHECK_EQ(ch.nclosed, 0);
	ch.cr.spent = ch.cr.rmax - 4; /* as if the first had been answered */
	chan_put_call(&ch, &ch.calls[0], 0);
	CHECK_EQ(chan_call(&ch, "", 0, 0, 3, false), 0); /* the next batch: at the ring's start */
	CHECK_EQ(ch.nclosed, 1);
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 3);
	CHECK_EQ(pos, 13);
	CHECK_EQ(len, 64 + 12);
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 2);
	CHECK_EQ(pos, 16);
	CHECK_EQ(ch.stats.wraps, 0);
	chan_fini(&ch);

	CHECK_EQ(chan_init(&ch, out, in, 16, 16, 0, false, &queue, 13), 0);
	ch.status = 0;
	CHECK_EQ(chan_call(&ch, "a", 1, 0, 1, false), 0); /* 13, 14 */
	CHECK_EQ(chan_call(&ch, "0123456789012345678901234", 25, 0, 2, false), 0); /* two blocks */
	CHECK_EQ(ch.nclosed, 2);
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 2);
	CHECK_EQ(ch.closed[0].count, WIRE_WRAP);
	ch.cr.owed += 2; /* room for a grant of 2: 6 + 2 * (2 + 2) <= 16 blocks */
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 1);
	CHECK_EQ(pos, 15);
	CHECK_EQ(len, 32);
	CHECK_EQ(wire_get_meta(out + 15 * 32).count, WIRE_WRAP);
	CHECK_EQ(wire_get_meta(out + 15 * 32).consumer, 13 * 32);
	CHECK_EQ(wire_get_meta(out + 15 * 32).credit, 64);
	CHECK_EQ(chan_seal(&ch, chan_consumer_bytes(&ch), &pos, &len), 3);
	CHECK_EQ(pos, 16);
	chan_fini(&ch);
}

/* Compares the grant with its definition, in random states that satisfy the invariant. */
TEST(grant_formula)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 100000; i++) {
		uint32_t c = 8u << test_rand(&seed) % 13, f, g, r;
		struct credit cr;

		credit_init(&cr, c, test_rand(&seed) >> 6);
		cr.owed = (uint32_t)(test_rand(&seed) % (credit_rmax(c) + 1));
		r = credit_out(&cr);
		f = (uint32_t)(test_rand(&seed) % (c - 2 * r + 1));
		cr.p = cr.rc + f;
		CHECK(credit_holds(&cr));
		g = credit_grantable(&cr, cr.p);
		CHECK(f + 2 * (r + g) <= c && r + g <= credit_rmax(c));
		CHECK(f + 2 * (r + g + 1) > c || r + g + 1 > credit_rmax(c));
		CHECK_EQ(credit_grant(&cr), g);
		CHECK_EQ(credit_grantable(&cr, cr.p), 0);
	}
}

/* A reply fits in every state, at any distance from the ring's end. */
TEST(reply_always_fits)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 200000; i++) {
		uint32_t c = 8u << test_rand(&seed) % 6, a, f, size;
		struct credit cr;
		struct placement to;

		credit_init(&cr, c, test_rand(&seed) % c + (1ull << 32) - c);
		a = 2 + (uint32_t)(test_rand(&seed) % ((credit_message_max(c) + 1) - 1));
		if (a > credit_rmax(c))
			continue;
		cr.owed = (uint32_t)(test_rand(&seed) % (credit_rmax(c) - a + 1));
		f = (uint32_t)(test_rand(&seed) % (c - 2 * credit_out(&cr) + 1));
		cr.p = cr.rc + f;
		if (f && test_rand(&seed) % 2) /* a batch is open; it may end at the ring's end */
			cr.edge = (cr.p + c - 1) & ~(uint64_t)(c - 1);
		size = 1 + (uint32_t)(test_rand(&seed) % (a - 1));
		to = credit_plan(&cr, size);
		if (!to.joins)
			credit_open(&cr, to.wrap);
		cr.p += size;
		CHECK(cr.p == to.end && cr.p <= cr.edge);
		CHECK(cr.p - cr.rc <= c);
		credit_replied(&cr, a);
		CHECK(credit_holds(&cr));
	}
}
