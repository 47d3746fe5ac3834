/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a peer writes arbitrary bytes into the ring, while the program makes valid calls and
 * replies. The input is a list of steps:
 *
 *	0 offset16 len8 bytes...    write into the receive ring
 *	1 imm8                      a batch of imm8 blocks arrives
 *	2 len8 resp8                call; the lengths are multiples of 8
 *	3, 4                        answer the oldest request, perhaps detach it before
 *	5                           flush; larger rings are offered and accepted
 *	6 value64                   a READ returns this position
 *	7 len8 resp8 limit8         call with a time limit
 *	8 time8                     the calls whose time is over end
 *	9 kind8 len8 at8 xor8       a batch arrives that is valid except for one byte
 *
 * The test checks that the parser reads nothing outside the ring, and that an endpoint that has not
 * failed is in a valid state.
 */
#include <string.h>

#include "support/fuzz.h"
#include "receive-batch.h"

#define RING 4096u
#define MOST (4 * RING)

/* Reads each byte of the response, so that the sanitizer checks them. */
static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	unsigned *sum = arg;

	for (uint32_t i = 0; i < len; i++)
		*sum += ((const uint8_t *)data)[i];
}

static struct copyrpc_req *oldest(struct req_queue *q)
{
	struct copyrpc_req *req = q->head;
	unsigned sum = 0;

	if (!req)
		return NULL;
	QUEUE_SHIFT(q, queued);
	on_response(&sum, NULL, 0, 0, req->data, req->len);
	return req;
}

/* The receive ring, which the peer may write. */
static uint8_t *ring_of(const struct chan *ch)
{
	return (uint8_t *)(uintptr_t)ch->recv_ring;
}

static void write_ring(struct input *in, uint8_t *ring)
{
	size_t at = take(in, 2) % RING, len = take(in, 1), left = (size_t)(in->end - in->at);

	len = len < left ? len : left;
	len = len < RING - at ? len : RING - at;
	memcpy(ring + at, in->at, len);
	in->at += len;
}

/* Writes a batch that an honest peer could send now (a request, a response to a call, or a marker),
 * or a marker that claims to have a message. Changes one byte, and receives the batch. */
static int nearly_right(struct chan *ch, struct input *in)
{
	uint32_t off = (uint32_t)ch->live.pos & ch->recv_mask, kind = (uint32_t)take(in, 1) % 3;
	uint32_t len = (uint32_t)take(in, 1), n = 1 + wire_blocks(len), id = 0, limit = 0;
	uint8_t *at = ring_of(ch) + off * WIRE_BLOCK;
	uint32_t hit = (uint32_t)take(in, 1) % (2 * WIRE_BLOCK);
	unsigned sum = 0;

	if (kind == 2 || n > ch->recv_mask + 1 - off) {
		kind = 2;
		n = ch->recv_mask + 1 - off;
	}
	if (kind == 1) {
		while (id + 1 < ch->max_calls && ch->calls[id].resp_max == CALL_FREE)
			id++;
		limit = (uint32_t)ch->calls[id].resp_max;
		id |= WIRE_RESPONSE;
	}
	wire_put_meta(at, ch->sent * WIRE_BLOCK, ch->cr.spent * WIRE_BLOCK,
		kind == 2 && len % 2 == 0 ? WIRE_WRAP : 1);
	if (n > 1)
		wire_put_header(at + WIRE_BLOCK, id, limit, len);
	if (hit < n * WIRE_BLOCK)
		at[hit] ^= (uint8_t)take(in, 1);
	return receive(ch, n, &(struct listener){on_response, &sum, 0});
}

static void serve(struct req_queue *q, bool detach)
{
	struct copyrpc_req *req;

	if (detach && q->head && chan_detach(q->head))
		abort();
	req = oldest(q);
	if (req)
		chan_reply(req, NULL, 0, NULL, chan_reply_odd);
}

/* Memory for larger rings: exact sizes, so that the sanitizer detects overruns. Freed at the
 * end. */
static void *rings[16];
static unsigned n_rings;

static uint8_t *new_ring(uint32_t blocks)
{
	void *at = aligned_alloc(WIRE_RING_ALIGN, (size_t)blocks * WIRE_BLOCK);

	if (!at || n_rings == ARRAY_SIZE(rings))
		abort();
	memset(at, 0, (size_t)blocks * WIRE_BLOCK);
	return rings[n_rings++] = at;
}

static void larger_rings(struct chan *ch)
{
	if (chan_left_recv(ch))
		ch->grow.old_recv = NULL;
	if (chan_left_send(ch))
		ch->grow.old_send = NULL;
	if (chan_offer_due(ch) && chan_offer(ch, new_ring(ch->grow.need), 1))
		abort();
	if (chan_accept_due(ch) && chan_accept_offer(ch, new_ring(ch->grow.offered.blocks)))
		abort();
	chan_set_growing(ch);
}

/* Accepts a large request like any other: the parser of batches treats both in the same way. */
static int take_large_req(struct copyrpc_req *req)
{
	chan_queue(req->ch, req);
	return 0;
}

static int step(struct chan *ch, struct req_queue *q, struct input *in)
{
	static const uint8_t payload[256 * 8];
	uint32_t len, resp;
	unsigned sum = 0;
	uint64_t pos, next = UINT64_MAX;

	switch (take(in, 1) % 10) {
	case 0:
		write_ring(in, ring_of(ch));
		return 0;
	case 1:
		return receive(ch, (uint32_t)take(in, 1), &(struct listener){on_response, &sum, 0});
	case 2: /* long messages need a larger ring */
		len = (uint32_t)take(in, 1) * 8;
		resp = (uint32_t)take(in, 1) * 8;
		chan_call(ch, payload, len, resp, 0, false);
		return 0;
	case 3:
	case 4:
		serve(q, in->at < in->end && *in->at % 2);
		return 0;
	case 5:
		larger_rings(ch);
		while (chan_waits(ch) || chan_flow_batch(ch))
			chan_seal(ch, chan_consumer_bytes(ch), &pos, &len);
		return 0;
	case 6:
		return chan_read_done(ch, take(in, 8));
	case 7: /* a time limit of 1 to 256 */
		len = (uint32_t)take(in, 1);
		resp = (uint32_t)take(in, 1);
		chan_call_timed(ch, payload, len, resp, 0, 1 + take(in, 1));
		return 0;
	case 8:
		return chan_expire(ch, take(in, 1), &(struct listener){on_response, &sum, 0},
			&next);
	default:
		return nearly_right(ch, in);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct req_queue queue = {.tail_p = &queue.head, .large = take_large_req};
	uint8_t *send = malloc(RING), *recv = calloc(1, RING); /* exact sizes, so that the sanitizer
								  detects overruns */
	struct chan ch;
	int rc = 0;

	if (!send || !recv ||
		chan_init(&ch, send, recv, RING / WIRE_BLOCK, MOST / WIRE_BLOCK, 0, false, &queue,
			0))
		abort();
	ch.status = 0;
	while (in.at < in.end && rc >= 0) {
		rc = step(&ch, &queue, &in);
		if (rc >= 0 && (!credit_holds(&ch.cr) || ch.unasked > credit_out(&ch.cr) ||
				       ch.cr.spent > ch.cr.kmax))
			abort();
	}
	chan_stop(&ch, -EPROTO);
	if (size % 2)
		serve(&queue, true);
	if (ch.ncalls > chan_stats(&ch).calls || chan_requests(&ch) > ch.n_reqs)
		abort();
	chan_drop_queued(&ch);
	chan_end_calls(&ch, &(struct listener){on_response, &rc, 0});
	chan_fini(&ch);
	free(send);
	free(recv);
	while (n_rings)
		free(rings[--n_rings]);
	return 0;
}
