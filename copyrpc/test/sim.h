/* SPDX-License-Identifier: MIT */
/*
 * Two channels (chan.h) in memory, without a device. A posted batch stays in the sender's ring
 * until it is delivered, as with a real device. A READ returns the position that the peer had when
 * the READ began. A payload of 8 bytes or more contains the token of its call, and every byte is
 * compared. Rings that are not used any more are overwritten, so that a message that is read from
 * them is wrong.
 */
#ifndef COPYRPC_TEST_SIM_H
#define COPYRPC_TEST_SIM_H

#include "base/compiler.h"
#include "support/test.h"
#include "receive-batch.h"

#define SIM_FLIGHT 4096
#define SIM_HELD 8192

struct sim_write {
	uint8_t *from, *to;
	uint32_t len, imm;
};

#define SIM_RINGS 64 /* of a side */

struct side {
	struct chan ch;
	struct side *peer;
	uint8_t *send, *peer_ring, *old_peer_ring;
	struct {
		uint8_t *at;
		size_t len;
	} rings[SIM_RINGS];
	uint32_t nrings;
	struct req_queue queue;
	struct sim_write flight[SIM_FLIGHT];
	uint32_t head, tail; /* of flight */
	bool reading; /* a READ is under way */
	uint64_t read_value; /* the position that it will return */
	struct copyrpc_req *held[SIM_HELD];
	uint32_t nheld;
	uint64_t next_call, done; /* tokens count up from 0 */
	uint8_t *ended; /* indexed by token */
	uint64_t max_calls;
	uint64_t credit_only, reads;
};

/* Byte i of the request, or of the response, of the call with this token. */
static inline uint8_t sim_byte(uint64_t token, uint32_t i, bool response)
{
	return (uint8_t)(token * 131 + i * 7 + (response ? 91 : 0) + (i >> 8));
}

static inline void sim_fill(uint8_t *buf, uint32_t len, uint64_t token, bool response)
{
	for (uint32_t i = 0; i < len; i++)
		buf[i] = sim_byte(token, i, response);
	if (len >= 8)
		memcpy(buf, &token, 8);
}

static inline void sim_check(const uint8_t *buf, uint32_t len, uint64_t token, bool response)
{
	if (len >= 8)
		CHECK(memcmp(buf, &token, 8) == 0);
	for (uint32_t i = len >= 8 ? 8 : 0; i < len; i++)
		CHECK_EQ(buf[i], sim_byte(token, i, response));
}

static inline uint8_t *sim_ring(struct side *s, uint32_t blocks)
{
	size_t len = align_up((size_t)blocks * WIRE_BLOCK, WIRE_RING_ALIGN);
	uint8_t *at = aligned_alloc(WIRE_RING_ALIGN, len);

	CHECK(at && s->nrings < SIM_RINGS);
	memset(at, 0, len);
	s->rings[s->nrings].at = at;
	s->rings[s->nrings++].len = len;
	return at;
}

/* Overwrites a ring that is not used any more. */
static inline void sim_scrap(struct side *s, const void *ring)
{
	uint32_t i = 0;

	while (s->rings[i].at != ring)
		CHECK(++i < s->nrings);
	memset(s->rings[i].at, 0xaa, s->rings[i].len);
}

/* Connects two sides, whose send positions begin at @at_a and @at_b. Their rings have @blocks
 * blocks and may grow to @most. */
static inline void sim_open_growing(struct side *a, struct side *b, uint32_t blocks, uint32_t most,
	uint64_t at_a, uint64_t at_b, uint64_t max_calls)
{
	uint8_t *recv[2];
	struct side *s[2] = {a, b};

	for (int i = 0; i < 2; i++) {
		memset(s[i], 0, sizeof(*s[i]));
		s[i]->peer = s[!i];
		s[i]->send = sim_ring(s[i], blocks);
		recv[i] = sim_ring(s[i], blocks);
		s[i]->ended = calloc(max_calls + 1, 1);
		s[i]->max_calls = max_calls;
		s[i]->queue.tail_p = &s[i]->queue.head;
		CHECK_EQ(chan_init(&s[i]->ch, s[i]->send, recv[i], blocks, most, 0, false,
				 &s[i]->queue, i ? at_b : at_a),
			0);
		s[i]->ch.status = 0;
	}
	a->peer_ring = recv[1];
	b->peer_ring = recv[0];
	/* The receive position of each side is the send position of the other. */
	a->ch.live.pos = at_b;
	b->ch.live.pos = at_a;
}

static inline void sim_open(struct side *a, struct side *b, uint32_t blocks, uint64_t at_a,
	uint64_t at_b, uint64_t max_calls)
{
	sim_open_growing(a, b, blocks, blocks, at_a, at_b, max_calls);
}

static inline void sim_close(struct side *a, struct side *b)
{
	struct side *s[2] = {a, b};

	for (int i = 0; i < 2; i++) {
		chan_fini(&s[i]->ch);
		while (s[i]->nrings)
			free(s[i]->rings[--s[i]->nrings].at);
		free(s[i]->ended);
	}
}

static inline void sim_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct side *s = arg;

	CHECK_EQ(status, 0);
	CHECK(token < s->next_call && !s->ended[token]);
	s->ended[token] = 1;
	s->done++;
	sim_check(data, len, token, true);
}

/* Does the work of ep_grow(). */
static inline void sim_grow(struct side *s)
{
	struct chan *ch = &s->ch;
	struct growth *g = &ch->grow;

	if (chan_left_recv(ch)) {
		sim_scrap(s, g->old_recv);
		g->old_recv = NULL;
	}
	if (chan_left_send(ch)) {
		sim_scrap(s, g->old_send);
		g->old_send = NULL;
	}
	if (chan_offer_due(ch))
		CHECK_EQ(chan_offer(ch, sim_ring(s, g->need), 0), 0);
	if (chan_accept_due(ch))
		CHECK_EQ(chan_accept_offer(ch, sim_ring(s, g->offered.blocks)), 0);
	chan_set_growing(ch);
}

static inline void sim_post(struct side *s)
{
	struct chan *ch = &s->ch;
	struct sim_write *w = &s->flight[s->tail++ % SIM_FLIGHT];
	struct sent_ring r;
	uint64_t pos;
	size_t off;

	if (ch->again)
		w->imm = chan_seal_again(ch, chan_consumer_bytes(ch), &pos, &w->len);
	else
		w->imm = chan_seal(ch, chan_consumer_bytes(ch), &pos, &w->len);
	CHECK(w->imm);
	if (ch->send_ring != s->send) { /* moved */
		s->send = ch->send_ring;
		s->old_peer_ring = s->peer_ring;
		s->peer_ring = (uint8_t *)(uintptr_t)ch->grow.offered.addr;
	}
	r = chan_ring_of(ch, pos);
	off = (size_t)(pos & r.mask) * WIRE_BLOCK;
	w->from = r.at + off;
	w->to = (r.old ? s->old_peer_ring : s->peer_ring) + off;
	CHECK(credit_holds(&ch->cr));
}

/* Posts as many batches as possible, at most @slots. */
static inline void sim_flush(struct side *s, int slots)
{
	struct chan *ch = &s->ch;

	if (ch->growing)
		sim_grow(s);
	while (slots-- && s->tail - s->head < SIM_FLIGHT) {
		if (!ch->again && !chan_waits(ch)) {
			if (!chan_flow_batch(ch))
				break;
			s->credit_only++;
		}
		sim_post(s);
	}
	if (!s->reading && !chan_waits(ch) && credit_read_due(&ch->cr, ch->stalled)) {
		s->reading = true;
		s->reads++;
		s->read_value = chan_consumer(&s->peer->ch) * WIRE_BLOCK;
	}
}

/* Delivers the oldest WRITE in flight. */
static inline void sim_deliver(struct side *from)
{
	struct sim_write *w;
	struct side *to = from->peer;

	if (from->head == from->tail)
		return;
	w = &from->flight[from->head++ % SIM_FLIGHT];
	memcpy(w->to, w->from, w->len);
	CHECK(receive(&to->ch, w->imm, &(struct listener){sim_response, to, 0}) >= 0);
}

/* Loses the connection, and makes it again: messages that were not received are sent again. */
static inline void sim_lose(struct side *a, struct side *b)
{
	struct side *s[2] = {a, b};

	for (int i = 0; i < 2; i++) {
		s[i]->head = s[i]->tail;
		s[i]->reading = false;
		CHECK_EQ(chan_resume(&s[i]->ch, s[!i]->ch.live.pos), 0);
	}
}

static inline void sim_read_done(struct side *s)
{
	if (s->reading)
		CHECK_EQ(chan_read_done(&s->ch, s->read_value), 0);
	s->reading = false;
}

/* Takes the oldest request, as copyrpc_recv() does, and holds it. */
static inline void sim_recv(struct side *s)
{
	struct copyrpc_req *req = s->queue.head;

	if (!req || s->nheld == SIM_HELD)
		return;
	QUEUE_SHIFT(&s->queue, queued);
	s->held[s->nheld++] = req;
}

static inline uint32_t sim_pick(uint64_t *seed, uint32_t max)
{
	return (uint32_t)(test_rand(seed) % (max + 1));
}

static inline int sim_call(struct side *s, uint64_t *seed, uint32_t len, uint32_t resp)
{
	static uint8_t buf[1 << 16];
	uint64_t token = s->next_call;
	int rc;

	if (token == s->max_calls)
		return -EBUSY;
	sim_fill(buf, len, token, false);
	rc = chan_call(&s->ch, buf, len, resp, token, false);
	CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
	if (!rc)
		s->next_call++;
	return rc;
}

/* Checks the bytes of the i-th held request, and replies to it. The token is in the peer's entry
 * for the request's id. */
static inline void sim_reply(struct side *s, uint32_t i, uint64_t *seed)
{
	static uint8_t buf[1 << 16];
	struct copyrpc_req *req = s->held[i];
	uint64_t token = s->peer->ch.calls[req->id].token;
	uint32_t len = sim_pick(seed, req->resp_max);

	CHECK_EQ(req->resp_max, s->peer->ch.calls[req->id].resp_max);
	if (test_rand(seed) % 4 == 0)
		len = req->resp_max;
	sim_check(req->data, req->len, token, false);
	sim_fill(buf, len, token, true);
	CHECK_EQ(chan_reply(req, buf, req->resp_max + 1, NULL, chan_reply_odd), -EMSGSIZE);
	CHECK_EQ(chan_reply(req, buf, len, NULL, chan_reply_odd), 0);
	CHECK(credit_holds(&s->ch.cr));
	s->held[i] = s->held[--s->nheld];
}

#endif
