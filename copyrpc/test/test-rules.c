/* SPDX-License-Identifier: MIT */
/*
 * Each rule that a peer can break: valid batches, and the same batches with one wrong field. Then
 * the connection blob, byte by byte.
 */
#include "support/test.h"
#include "blob.h"
#include "receive-batch.h"

#define BLOCKS 128u
#define RMAX (BLOCKS / 4)
#define MAX 500u /* payload */
#define RESP_MAX 40u /* of the pending call: two blocks, and one for the metadata */

struct message {
	uint32_t id, limit, len;
};

#define ALL -1

struct input {
	const char *name;
	int taken; /* ALL: the batch is valid; else the number of messages before the wrong one */
	uint64_t consumer, credit;
	uint32_t blocks, count;
	struct message msg[3];
};

struct rig {
	uint8_t in[BLOCKS * WIRE_BLOCK], out[BLOCKS * WIRE_BLOCK];
	struct req_queue queue;
	struct chan ch;
	uint32_t responses, last_len;
};

static struct rig rig;

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct rig *r = arg;

	CHECK_EQ(token, 4711);
	CHECK_EQ(status, 0);
	r->responses++;
	r->last_len = len;
}

static int queue_large(struct copyrpc_req *req)
{
	chan_queue(req->ch, req);
	return 0;
}

/* Opens an endpoint with one pending call, whose batch has four blocks. */
static void rig_open(struct rig *r)
{
	static const uint8_t payload[MAX];
	uint64_t pos;
	uint32_t len;

	memset(r, 0, sizeof(*r));
	r->queue.tail_p = &r->queue.head;
	r->queue.large = queue_large;
	CHECK_EQ(chan_init(&r->ch, r->out, r->in, BLOCKS, BLOCKS, 0, false, &r->queue, 0), 0);
	r->ch.status = 0;
	CHECK_EQ(chan_call(&r->ch, payload, 3 * WIRE_BLOCK - 12, RESP_MAX, 4711, false), 0);
	CHECK_EQ(chan_seal(&r->ch, chan_consumer_bytes(&r->ch), &pos, &len), 4);
}

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	CHECK_EQ(token, 4711);
	CHECK_EQ(status, -ETIMEDOUT);
}

static int feed(struct rig *r, const struct input *in)
{
	uint32_t off = (uint32_t)r->ch.live.pos & r->ch.mask;
	uint8_t *at = r->in + (size_t)off * WIRE_BLOCK, *end = r->in + sizeof(r->in);

	wire_put_meta(at, in->consumer, in->credit, in->count);
	at += WIRE_BLOCK;
	for (size_t i = 0; i < ARRAY_SIZE(in->msg) && at < end; i++) {
		const struct message *m = &in->msg[i];

		wire_put_header(at, m->id, m->limit, m->len);
		at += (size_t)wire_blocks(m->len <= MAX ? m->len : 0) * WIRE_BLOCK;
	}
	return receive(&r->ch, in->blocks, &(struct listener){on_response, r, 0});
}

#define RESPONSE (0 | WIRE_RESPONSE)
#define ASKS                                                                                       \
	{                                                                                          \
		1, 20, 20                                                                          \
	}
#define ANSWERS                                                                                    \
	{                                                                                          \
		RESPONSE, RESP_MAX, RESP_MAX                                                       \
	}

static const struct input inputs[] = {
	{"a request", ALL, 0, 0, 2, 1, {ASKS}},
	{"a request without payload", ALL, 0, 0, 2, 1, {{1, 0, 0}}},
	{"two requests", ALL, 0, 0, 3, 2, {ASKS, ASKS}},
	{"the largest request", ALL, 0, 0, 17, 1, {{1, MAX, MAX}}},
	{"a response", ALL, 0, 0, 3, 1, {ANSWERS}},
	{"an empty response", ALL, 0, 0, 2, 1, {{RESPONSE, RESP_MAX, 0}}},
	{"a request and a response", ALL, 0, 0, 4, 2, {ASKS, ANSWERS}},
	{"no message", ALL, 0, 0, 1, 0, {{0}}},
	{"all that was sent is consumed", ALL, 4 * WIRE_BLOCK, 0, 1, 0, {{0}}},
	{"all the credit that was used", ALL, 0, 3 * WIRE_BLOCK, 1, 0, {{0}}},
	{"requests for all the credit", ALL, 0, 0, 3, 2, {{1, MAX, 20}, {2, 436, 20}}},

	{"a large request", ALL, 0, 0, 2, 1, {{1, 20 | WIRE_LARGE, 20}}},
	{"a large one among others", ALL, 0, 0, 4, 3, {ASKS, {2, MAX | WIRE_LARGE, 20}, ASKS}},
	{"a large request is longer than a message may be", 0, 0, 0, 18, 1,
		{{1, 20 | WIRE_LARGE, MAX + 1}}},
	{"a large request permits too long a response", 0, 0, 0, 2, 1,
		{{1, (MAX + 1) | WIRE_LARGE, 20}}},
	{"large requests for more credit than was granted", 1, 0, 0, 3, 2,
		{{1, MAX | WIRE_LARGE, 20}, {2, 437 | WIRE_LARGE, 20}}},

	{"a request is longer than a request may be", 0, 0, 0, 18, 1, {{1, 20, MAX + 1}}},
	{"a request permits too long a response", 0, 0, 0, 2, 1, {{1, MAX + 1, 20}}},
	{"a limit whose blocks exceed 32 bits", 0, 0, 0, 2, 1, {{1, UINT32_MAX, 20}}},
	{"requests for more credit than was granted", 1, 0, 0, 3, 2, {{1, MAX, 20}, {2, 437, 20}}},
	{"a message is longer than its batch", 0, 0, 0, 2, 1, {{1, 20, 21}}},
	{"the second message is longer than the rest", 1, 0, 0, 3, 2, {ASKS, {1, 20, 21}}},
	{"a length beyond 32 bits of blocks", 0, 0, 0, 2, 1, {{1, 20, UINT32_MAX}}},
	{"such a length in the second message", 1, 0, 0, 3, 2, {ASKS, {1, 20, UINT32_MAX}}},
	{"fewer messages than the count", 1, 0, 0, 2, 2, {ASKS}},
	{"more messages than one", 0, 0, 0, 3, 1, {ASKS, ASKS}},
	{"more messages than two", 2, 0, 0, 4, 2, {ASKS, ASKS, ASKS}},
	{"messages where there should be none", 0, 0, 0, 2, 0, {ASKS}},
	{"no messages where there should be one", 0, 0, 0, 1, 1, {{0}}},

	{"a response longer than its call allows", 0, 0, 0, 3, 1,
		{{RESPONSE, RESP_MAX, RESP_MAX + 1}}},
	{"a response with another limit", 0, 0, 0, 3, 1, {{RESPONSE, RESP_MAX + 1, RESP_MAX + 1}}},
	{"a response to a call that was never made", 0, 0, 0, 2, 1,
		{{1 | WIRE_RESPONSE, RESP_MAX, 0}}},
	{"such a response, every bit of the limit set", 0, 0, 0, 2, 1,
		{{1 | WIRE_RESPONSE, UINT32_MAX, 0}}},
	{"a response to an impossible call id", 0, 0, 0, 2, 1,
		{{RMAX / 2 | WIRE_RESPONSE, RESP_MAX, 0}}},
	{"a response to the largest call id", 0, 0, 0, 2, 1, {{UINT32_MAX, RESP_MAX, 0}}},
	{"two responses to one call", 1, 0, 0, 3, 2,
		{{RESPONSE, RESP_MAX, 0}, {RESPONSE, RESP_MAX, 0}}},

	{"a position within a block", 0, 1, 0, 1, 0, {{0}}},
	{"a position that was not sent", 0, 5 * WIRE_BLOCK, 0, 1, 0, {{0}}},
	{"a part of a block of credit", 0, 0, 16, 1, 0, {{0}}},
	{"a part of a block, with every bit", 0, 0, UINT64_MAX, 1, 0, {{0}}},
	{"more credit than there is", 0, 0, 4 * WIRE_BLOCK, 1, 0, {{0}}},
	{"credit beyond 32 bits", 0, 0, (1ull << 32 | 1) * WIRE_BLOCK, 1, 0, {{0}}},

	{"no block", 0, 0, 0, 0, 0, {{0}}},
	{"no block, and a message", 0, 0, 0, 0, 1, {ASKS}},
	{"no block, and two messages", 0, 0, 0, 0, 2, {ASKS, ASKS}},
	{"more blocks than a ring", 0, 0, 0, BLOCKS + 1, 0, {{0}}},
	{"every bit of the immediate", 0, 0, 0, UINT32_MAX, 0, {{0}}},
	{"a marker up to the ring's end", ALL, 0, 0, BLOCKS, WIRE_WRAP, {{0}}},
	{"a marker that ends too early", 0, 0, 0, BLOCKS - 1, WIRE_WRAP, {{0}}},
};

static int timed_end(struct rig *r, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	return chan_expire(&r->ch, now, &(struct listener){on_end, r, 0}, &next);
}

/* A response to a call with a time limit arrives in time or late, a second time, or with another
 * length limit. */
TEST(calls_with_a_time_limit)
{
	const struct input right = {"", 1, 0, 0, 3, 1, {{1 | WIRE_RESPONSE, RESP_MAX, RESP_MAX}}};
	const struct input wrong = {"", 0, 0, 0, 2, 1, {{1 | WIRE_RESPONSE, RESP_MAX - 1, 20}}};
	const struct input none = {"", 0, 0, 0, 2, 1, {{1 | WIRE_RESPONSE, UINT32_MAX, 20}}};

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < 3; i++) {
			const struct input *in[] = {&right, &wrong, &none};

			rig_open(&rig);
			CHECK_EQ(chan_call_timed(&rig.ch, "", 0, RESP_MAX, 4711, 10), 0);
			CHECK_EQ(timed_end(&rig, 9), 0);
			if (late)
				CHECK_EQ(timed_end(&rig, 10), 1);
			CHECK_EQ(feed(&rig, in[i]), i ? -EPROTO : 1);
			CHECK_EQ(rig.responses, !i && !late);
			if (!i)
				CHECK_EQ(feed(&rig, &right), -EPROTO);
			CHECK_EQ(timed_end(&rig, 11), i && !late);
			chan_fini(&rig.ch);
		}
	}
}

/* Notes and moves (docs/memory.md) of a peer, right and wrong. The rings have 4 KiB and may grow to
 * 16 KiB. */
#define SIZES(memory, asked) ((memory) | (asked) << WIRE_SIZE_BITS)
#define ADDRESS 0x7f0000001000ull

static const struct {
	const char *name;
	uint32_t count;
	uint64_t ring[2]; /* of one batch, of the next one; 0: none */
	bool offered, told; /* this side has offered memory, and told the peer */
	int rc;
} tales[] = {
	{"it asks for a larger ring", WIRE_NOTE, {SIZES(0ull, 13)}, .rc = 0},
	{"it asks for the largest ring", WIRE_NOTE, {SIZES(0ull, 14)}, .rc = 0},
	{"it asks for the present size", WIRE_NOTE, {SIZES(0ull, 12)}, .rc = 0},
	{"it offers memory", WIRE_NOTE, {ADDRESS | SIZES(13, 0)}, .rc = 0},
	{"it offers memory and asks", WIRE_NOTE, {ADDRESS | SIZES(14, 14)}, .rc = 0},
	{"it moves", WIRE_MOVE, {0}, true, true, 0},
	{"it moves and asks", WIRE_MOVE | WIRE_NOTE, {SIZES(0ull, 14)}, true, true, 0},

	{"it asks for more than a ring may have", WIRE_NOTE, {SIZES(0ull, 15)}, .rc = -EPROTO},
	{"it asks for the largest number", WIRE_NOTE, {SIZES(0ull, 31)}, .rc = -EPROTO},
	{"it asks for less than a block", WIRE_NOTE, {SIZES(0ull, 4)}, .rc = -EPROTO},
	{"it offers more than a ring may have", WIRE_NOTE, {ADDRESS | 15}, .rc = -EPROTO},
	{"it offers less than a block", WIRE_NOTE, {ADDRESS | 1}, .rc = -EPROTO},
	{"it offers the present size", WIRE_NOTE, {ADDRESS | 12}, .rc = -EPROTO},
	{"it offers twice", WIRE_NOTE, {ADDRESS | 13, ADDRESS | 14}, .rc = -EPROTO},
	{"it says nothing", WIRE_NOTE, {ADDRESS}, .rc = -EPROTO},
	{"it moves without memory", WIRE_MOVE, {0}, .rc = -EPROTO},
	{"it moves before the offer was sent", WIRE_MOVE, {0}, true, .rc = -EPROTO},
	{"it moves to the memory of its own offer", WIRE_MOVE | WIRE_NOTE, {ADDRESS | 13},
		.rc = -EPROTO},
};

static int tell(struct rig *r, uint32_t count, uint64_t ring)
{
	uint8_t *at = r->in + (size_t)(r->ch.live.pos & r->ch.recv_mask) * WIRE_BLOCK;

	wire_put_meta(at, 0, 0, 0);
	wire_put_note(at, count, 77, ring);
	return receive(&r->ch, 1, &(struct listener){on_response, r, 0});
}

TEST(what_a_peer_tells_of_its_rings)
{
	static _Alignas(WIRE_RING_ALIGN) uint8_t larger[4 * BLOCKS * WIRE_BLOCK];

	for (size_t i = 0; i < ARRAY_SIZE(tales); i++) {
		int rc;

		printf("  %s\n", tales[i].name);
		rig_open(&rig);
		rig.ch.most = 4 * BLOCKS;
		chan_set_limits(&rig.ch);
		if (tales[i].offered) {
			chan_want(&rig.ch, 0, 4 * BLOCKS);
			CHECK_EQ(chan_offer(&rig.ch, larger, 1), 0);
			rig.ch.grow.tell = !tales[i].told;
		}
		rc = tell(&rig, tales[i].count, tales[i].ring[0]);
		if (tales[i].ring[1])
			rc = rc ? 1 : tell(&rig, tales[i].count, tales[i].ring[1]);
		CHECK_EQ(rc, tales[i].rc);
		chan_fini(&rig.ch);
	}
}

TEST(one_rule_at_a_time)
{
	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++) {
		int rc, messages, large = 0;

		printf("  %s\n", inputs[i].name);
		fflush(stdout);
		for (size_t k = 0; k < ARRAY_SIZE(inputs[i].msg); k++)
			large += !!(inputs[i].msg[k].limit & WIRE_LARGE);
		rig_open(&rig);
		rc = feed(&rig, &inputs[i]);
		messages = inputs[i].count == WIRE_WRAP ? 0 : (int)inputs[i].count;
		CHECK_EQ(rc, inputs[i].taken == ALL ? messages - large : -EPROTO);
		CHECK_EQ(rig.ch.stats.requests + rig.ch.stats.responses,
			inputs[i].taken == ALL ? messages : inputs[i].taken);
		chan_fini(&rig.ch);
	}
}

static const struct input nothing = {"nothing", ALL, 0, 0, 1, 0, {{0}}};

/* A batch of two blocks, with a message or without one, would end beyond the ring. */
TEST(no_batch_crosses_the_end)
{
	for (uint32_t count = 0; count < 2; count++) {
		const struct input two = {"", 0, 0, 0, 2, count, {ASKS}};

		rig_open(&rig);
		for (uint32_t i = 0; i < BLOCKS - 1; i++)
			CHECK_EQ(feed(&rig, &nothing), 0);
		CHECK_EQ(feed(&rig, &two), -EPROTO);
		CHECK_EQ(rig.ch.stats.requests, 0);
		chan_fini(&rig.ch);
	}
}

/* Positions in a peer's batches must never decrease; an older position is ignored if a READ has
 * returned a later one. */
TEST(positions_grow)
{
	struct input in = nothing;

	rig_open(&rig);
	in.consumer = 2 * WIRE_BLOCK;
	CHECK_EQ(feed(&rig, &in), 0);
	CHECK_EQ(rig.ch.cr.rc, 2);
	CHECK_EQ(feed(&rig, &in), 0);
	CHECK_EQ(chan_read_done(&rig.ch, WIRE_BLOCK), 0);
	CHECK_EQ(rig.ch.cr.rc, 2);
	CHECK_EQ(chan_read_done(&rig.ch, 4 * WIRE_BLOCK), 0);
	CHECK_EQ(rig.ch.cr.rc, 4);
	CHECK_EQ(feed(&rig, &in), 0); /* before the position of the READ, but not before that of the
					 last batch */
	CHECK_EQ(rig.ch.cr.rc, 4);
	CHECK_EQ(chan_read_done(&rig.ch, 4 * WIRE_BLOCK + 1), -EPROTO);
	CHECK_EQ(chan_read_done(&rig.ch, 5 * WIRE_BLOCK), -EPROTO);
	CHECK_EQ(chan_read_done(&rig.ch, UINT64_MAX & ~31ull), -EPROTO);
	in.consumer = WIRE_BLOCK;
	CHECK_EQ(feed(&rig, &in), -EPROTO);
	chan_fini(&rig.ch);
}

/* A response arrives a second time, in another batch. */
TEST(a_late_duplicate)
{
	static const struct input answer = {"", ALL, 0, 0, 3, 1, {ANSWERS}};

	rig_open(&rig);
	CHECK_EQ(feed(&rig, &answer), 1);
	CHECK_EQ(rig.responses, 1);
	CHECK_EQ(rig.last_len, RESP_MAX);
	CHECK_EQ(feed(&rig, &answer), -EPROTO);
	CHECK_EQ(rig.responses, 1);
	chan_fini(&rig.ch);
}

/* A batch that would overwrite a held request is refused. */
TEST(what_is_held_is_not_overwritten)
{
	static const struct input request = {"", ALL, 0, 0, 2, 1, {ASKS}};

	rig_open(&rig);
	CHECK_EQ(feed(&rig, &request), 1);
	while (rig.ch.live.pos < BLOCKS)
		CHECK_EQ(feed(&rig, &nothing), 0);
	CHECK_EQ(feed(&rig, &nothing), 0); /* block 0: the metadata in front of the request */
	CHECK_EQ(feed(&rig, &nothing), -EPROTO);
	chan_fini(&rig.ch);
}

/* After an endpoint has failed, no batch is expected. */
TEST(nothing_is_expected_after_the_end)
{
	static const struct input request = {"", ALL, 0, 0, 2, 1, {ASKS}};

	rig_open(&rig);
	CHECK_EQ(feed(&rig, &request), 1);
	CHECK(chan_expects(&rig.ch, 2));
	chan_stop(&rig.ch, -EIO);
	for (uint32_t n = 0; n < 2 * BLOCKS; n++)
		CHECK(!chan_expects(&rig.ch, n));
	chan_fini(&rig.ch);
}

/* A reply may have as many bytes as the caller allows, and no more: for a request in place, a
 * detached request, and without an open batch. */
TEST(replies_are_held_to_the_limit)
{
	static const struct input requests = {"", ALL, 0, 0, 3, 2, {{1, 65, 20}, {2, 65, 20}}};
	static const uint8_t reply[66];
	struct copyrpc_req *req[2];

	rig_open(&rig);
	CHECK_EQ(feed(&rig, &requests), 2);
	req[0] = rig.queue.head;
	req[1] = req[0]->queued;
	CHECK(req[0]->id == 1 && req[1]->id == 2); /* in the order of the calls */
	CHECK_EQ(copyrpc_req_allowance(req[0]), 65);
	CHECK_EQ(chan_reply(req[0], reply, 66, NULL, chan_reply_odd),
		-EMSGSIZE); /* opens no batch */
	CHECK(!chan_waits(&rig.ch));
	CHECK_EQ(chan_reply(req[0], reply, 65, NULL, chan_reply_odd), 0); /* opens one */
	CHECK_EQ(chan_detach(req[1]), 0);
	CHECK_EQ(chan_reply(req[1], reply, 66, NULL, chan_reply_odd), -EMSGSIZE); /* detached */
	CHECK_EQ(chan_reply(req[1], reply, 65, NULL, chan_reply_odd), 0);
	CHECK_EQ(rig.ch.open.count, 2);
	CHECK_EQ(wire_get_header(rig.out + 5 * WIRE_BLOCK).limit, 65);
	chan_fini(&rig.ch);
}

/* Each byte of the blob is checked, except those that may differ between endpoints. */
TEST(blob_bytes)
{
	struct blob b = {.qp.qpn = 0x123456, .ring_size = 4096, .nested = true}, out;
	uint8_t bytes[COPYRPC_INFO_SIZE];

	blob_encode(&b, bytes);
	CHECK_EQ(blob_decode(&out, bytes, sizeof(bytes)), 0);
	CHECK_EQ(out.nested, true);
	CHECK_EQ(blob_decode(&out, bytes, sizeof(bytes) - 1), -EINVAL);
	CHECK_EQ(blob_decode(&out, bytes, sizeof(bytes) + 1), -EINVAL);
	for (int version = BLOB_VERSION - 1; version <= BLOB_VERSION + 1; version++) {
		bytes[8] = (uint8_t)version;
		CHECK_EQ(blob_decode(&out, bytes, sizeof(bytes)),
			version == BLOB_VERSION ? 0 : -EPROTONOSUPPORT);
	}
	bytes[8] = BLOB_VERSION;
	for (int i = 0; i < COPYRPC_INFO_SIZE; i++) {
		bool version = i == 8 || i == 9,
		     free_field = i >= 12 && i != 24 && !(i > 24 && i < 40);
		int want = version ? -EPROTONOSUPPORT : free_field ? 0 : -EINVAL;

		bytes[i] ^= 0x42;
		CHECK_EQ(blob_decode(&out, bytes, sizeof(bytes)), want);
		bytes[i] ^= 0x42;
	}
}
