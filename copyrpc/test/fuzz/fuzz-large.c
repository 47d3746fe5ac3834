/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a peer puts arbitrary values into large requests, their responses, and descriptors of
 * memory, while the program makes large calls, answers, pulls and pushes. The input is a list of
 * steps:
 *
 *	0 fields	a large request arrives
 *	1, 2		the oldest posted part of a transfer completes, or fails
 *	3 len16 own8	the program answers a request; if own8 is odd, from its memory
 *	4 len24 len24	the program makes a large call
 *	5 fields	a response to a large call arrives
 *	6 bytes fields	the program pulls by a descriptor of the peer, or pushes
 *	7		transfers continue, and messages are sent
 *
 * Each posted part must be within memory that was registered for it. At the end no memory may be in
 * use.
 */
#include <string.h>

#include "bulk.h"
#include "pool.h"
#include "receive-batch.h"
#include "serve.h"
#include "support/fuzz.h"
#include "transfer.h"

#define RING (1u << 14)
#define MIB (1u << 20)
#define MESSAGE_MAX (2 * MIB + 100)
#define MEMORY_MAX (5 * MIB)
#define BULK_LEN 5000u
#define OTHER (1u << 16)
#define OPS 6u

/* ------------------------------------------------------------------ the adapter */

static struct mlx5dvl_mr *regions[64];
static uint32_t n_regions;

int mlx5dvl_mr_reg(struct mlx5dvl_ctx *dev, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p)
{
	static uint32_t keys;
	struct mlx5dvl_mr *mr = malloc(sizeof(*mr));

	must(mr && len);
	if (n_regions == ARRAY_SIZE(regions)) {
		free(mr);
		return -ENOMEM;
	}
	keys++;
	*mr = (struct mlx5dvl_mr){addr, len, keys, keys, mr};
	regions[n_regions++] = mr;
	*mr_p = *mr;
	return 0;
}

void mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr)
{
	uint32_t i = 0;

	while (i < n_regions && regions[i] != mr->priv)
		i++;
	must(i < n_regions);
	free(mr->priv);
	regions[i] = regions[--n_regions];
}

static struct raw_owner *ops[OPS]; /* oldest first */
static uint32_t n_ops;

int raw_open(struct copyrpc_ep *ep)
{
	return 0;
}

int raw_post(struct copyrpc_ep *ep, const struct raw_move *m, uint64_t token,
	struct raw_owner *owner)
{
	uint32_t i = 0;

	must(m->len);
	while (i < n_regions && regions[i]->lkey != m->lkey)
		i++;
	must(i < n_regions && range_fits((uintptr_t)m->laddr - (uintptr_t)regions[i]->addr, m->len,
				      regions[i]->len));
	if (n_ops == OPS)
		return -EAGAIN;
	ops[n_ops++] = owner;
	return 0;
}

void raw_ring(struct copyrpc_ep *ep)
{
}

void raw_disown(struct copyrpc_ep *ep)
{
	n_ops = 0;
}

static void complete(int status)
{
	struct raw_owner *owner = ops[0];

	if (!n_ops)
		return;
	memmove((void *)ops, (void *)(ops + 1), --n_ops * sizeof(ops[0]));
	owner->done(owner, status);
}

/* ------------------------------------------------------------------ the endpoint */

void ep_end(struct copyrpc_ep *ep)
{
	abort(); /* the endpoint is not destroyed before the end */
}

void ep_fail(struct copyrpc_ep *ep, int status)
{
	abort(); /* posting does not fail */
}

int ep_post(struct copyrpc_ep *ep)
{
	uint64_t pos;
	uint32_t len;
	int n = 0;

	for (; chan_waits(&ep->ch) || chan_flow_batch(&ep->ch); n++)
		chan_seal(&ep->ch, chan_consumer_bytes(&ep->ch), &pos, &len);
	return n;
}

static void on_response(void *calls, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	must(status || len <= token);
	if (!status && len)
		must(((const uint8_t *)data)[len - 1] != 1);
	--*(uint32_t *)calls;
}

/* A message arrives, as the only one of a batch whose flow control data are valid. */
static int arrive(struct copyrpc_ep *ep, uint32_t id, uint32_t limit, const void *payload,
	uint32_t len, uint32_t *calls)
{
	struct chan *ch = &ep->ch;
	uint32_t off = (uint32_t)ch->live.pos & ch->recv_mask, n = 1 + wire_blocks(len);
	uint8_t *at = (uint8_t *)(uintptr_t)ch->recv_ring + off * WIRE_BLOCK;
	bool wraps = n > ch->recv_mask + 1 - off;

	if (wraps)
		n = ch->recv_mask + 1 - off;
	wire_put_meta(at, ch->sent * WIRE_BLOCK, ch->cr.spent * WIRE_BLOCK, wraps ? WIRE_WRAP : 1);
	if (!wraps)
		memcpy(wire_put_header(at + WIRE_BLOCK, id, limit, len), payload, len);
	return receive(ch, n, &(struct listener){on_response, calls, 0});
}

static int request(struct copyrpc_ep *ep, struct input *in)
{
	uint32_t copied = (uint32_t)take(in, 1), cut = (uint32_t)take(in, 1), len = copied;
	uint8_t payload[sizeof(struct wire_large) + UINT8_MAX] = {0};
	struct wire_large w = {.from = take(in, 8), .to = take(in, 8)};
	uint32_t limit = (uint32_t)take(in, 2) % 1024 | WIRE_LARGE;

	if (cut % 4 == 1) {
		len = (uint32_t)take(in, 4);
		copied = cut % 8 == 1 ? 0 : copied;
	}
	w.len = htole32(len);
	w.resp_max = htole32((uint32_t)take(in, 4));
	memcpy(payload, &w, sizeof(w));
	len = cut % 4 == 2 ? cut / 4 : (uint32_t)sizeof(w) + copied;
	return arrive(ep, 0, limit, payload, len, NULL);
}

static int response(struct copyrpc_ep *ep, struct input *in, uint32_t *calls)
{
	uint8_t payload[sizeof(struct wire_large_response) + UINT8_MAX] = {0};
	uint32_t copied = (uint32_t)take(in, 1), id = 0;
	struct wire_large_response r = {(uint32_t)take(in, 1), copied};

	while (id + 1 < ep->ch.max_calls && ep->ch.calls[id].resp_max == CALL_FREE)
		id++;
	if (take(in, 1) % 2)
		r.len = (uint32_t)take(in, 4);
	if (take(in, 1) % 2)
		copied = 0;
	memcpy(payload, &r, sizeof(r));
	return arrive(ep, id | WIRE_RESPONSE, (uint32_t)ep->ch.calls[id].resp_max, payload,
		(uint32_t)sizeof(r) + copied - (r.error > 3), calls);
}

/* Takes the oldest request off the queue and answers it. */
static void answer(struct copyrpc_ctx *ctx, struct input *in)
{
	static const uint8_t other[OTHER];
	struct copyrpc_req *req = ctx->queue.head;
	uint32_t len = (uint32_t)take(in, 2);
	const void *data = other;

	if (!req)
		return;
	QUEUE_SHIFT(&ctx->queue, queued);
	if (take(in, 1) % 2)
		data = copyrpc_req_memory(req);
	must(range_fits(0, req->len + 1, req->served ? 2 * MESSAGE_MAX : 1));
	while (serve_reply(req, data, len) == -EMSGSIZE)
		len = 0;
}

static uint8_t from[MIB], to[MIB];

static void call(struct copyrpc_ep *ep, struct input *in, uint32_t *calls)
{
	uint32_t len = (uint32_t)take(in, 3) % MIB, resp_max = (uint32_t)take(in, 3) % MIB;

	*calls += !copyrpc_call_large(ep, from, len, to, resp_max, resp_max);
}

static void on_moved(void *arg, struct copyrpc_ep *ep, int status)
{
}

/* The bytes of the descriptor from a random position on come from the input. In half of the cases
 * the version is right. */
static void move(struct copyrpc_ep *ep, struct copyrpc_bulk *bulk, struct input *in)
{
	uint8_t desc[COPYRPC_BULK_SIZE + 1];
	struct copyrpc_remote r;
	uint64_t off, len;

	copyrpc_bulk_export(bulk, ep, 0, BULK_LEN, desc);
	for (uint32_t i = (uint32_t)take(in, 1) % (COPYRPC_BULK_SIZE + 1); i < COPYRPC_BULK_SIZE;
		i++)
		desc[i] = (uint8_t)take(in, 1);
	if (take(in, 1) % 2)
		desc[28] = 1;
	if (copyrpc_bulk_import(ep, desc, sizeof(desc) - !(take(in, 1) % 8 == 7), &r))
		return;
	off = take(in, take(in, 1) % 8 ? 1 : 8);
	len = take(in, 2);
	if (take(in, 1) % 2)
		copyrpc_bulk_pull(ep, &r, off, bulk, take(in, 1), len, on_moved, NULL);
	else
		copyrpc_bulk_push(ep, bulk, take(in, 1), &r, off, len, on_moved, NULL);
}

static void go_on(struct copyrpc_ep *ep)
{
	if (ep->ctx->work.head)
		ctx_transfers(ep->ctx);
	if (ep->ctx->serve_again)
		ctx_serve(ep->ctx);
	ep_post(ep);
}

static int step(struct copyrpc_ep *ep, struct input *in, uint32_t *calls)
{
	switch (take(in, 1) % 8) {
	case 0:
		return request(ep, in);
	case 1:
		complete(0);
		break;
	case 2:
		complete(-EIO);
		break;
	case 3:
		answer(ep->ctx, in);
		break;
	case 4:
		call(ep, in, calls);
		break;
	case 5:
		return response(ep, in, calls);
	case 6:
		move(ep, ep->ctx->bulks, in);
		break;
	default:
		go_on(ep);
	}
	must(ep->ctx->pool.size <= MEMORY_MAX);
	return 0;
}

static struct copyrpc_ep *open_ep(struct copyrpc_ctx *ctx)
{
	const struct copyrpc_large_attr large = {.message_max = MESSAGE_MAX,
		.memory_max = MEMORY_MAX};
	struct copyrpc_ep *ep = aligned_alloc(CACHE_LINE, align_up(sizeof(*ep), CACHE_LINE));
	static uint8_t mine[BULK_LEN];
	struct copyrpc_bulk *bulk;

	must(ep);
	memset(ep, 0, sizeof(*ep));
	ep->ctx = ctx;
	ep->due.tail_p = &ep->due.head;
	ep->qp = (struct mlx5dvl_qp *)ep; /* not used; NULL would mean a destroyed endpoint */
	ctx->attr.sq_depth = 8;
	ctx->queue = (struct req_queue){.tail_p = &ctx->queue.head,
		.large = serve_large,
		.release = serve_release};
	ctx->work.tail_p = &ctx->work.head;
	ctx->waiting.tail_p = &ctx->waiting.head;
	must(!copyrpc_large_accept(ctx, &large));
	must(!copyrpc_bulk_create(ctx, mine, sizeof(mine),
		COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &bulk));
	must(!chan_init(&ep->ch, malloc(RING), calloc(1, RING), RING / WIRE_BLOCK,
		RING / WIRE_BLOCK, 0, false, &ctx->queue, 0));
	ep->ch.ep = ep;
	ep->ch.status = 0;
	return ep;
}

static void close_ep(struct copyrpc_ep *ep, uint32_t *calls)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	void *send = (void *)(uintptr_t)ep->ch.send_ring,
	     *recv = (void *)(uintptr_t)ep->ch.recv_ring;

	chan_stop(&ep->ch, -EPROTO);
	ep_end_transfers(ep);
	ep_end_served(ep);
	chan_drop_queued(&ep->ch);
	chan_end_calls(&ep->ch, &(struct listener){on_response, calls, 0});
	must(!*calls && !ep->moves && !ep->due.head && !ctx->waiting.head);
	chan_fini(&ep->ch);
	ctx_free_bulks(ctx);
	pool_limit(ctx, 0);
	must(!n_regions && !ctx->pool.size);
	free(send);
	free(recv);
	free(ep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct copyrpc_ctx ctx = {0};
	struct copyrpc_ep *ep = open_ep(&ctx);
	uint32_t calls = 0;
	int rc = 0;

	while (in.at < in.end && rc >= 0)
		rc = step(ep, &in, &calls);
	close_ep(ep, &calls);
	return 0;
}
