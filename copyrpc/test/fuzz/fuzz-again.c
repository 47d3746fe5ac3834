/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the messages by which programs connect two endpoints again (copyrpc_ep_again()). The
 * queue pairs are simulated. The input is a list of steps. The first byte of each step is 2 *
 * (number of the step) + side:
 *
 *	0		the side loses its connection
 *	1		the side writes its message (copyrpc_ep_again_info())
 *	2 at8 xor8	copyrpc_ep_again() of the side gets the other side's message, with one byte
 *			changed (or none, if xor8 is 0)
 *	3 len8 bytes...	copyrpc_ep_again() of the side gets these bytes
 *	4 len8		the side makes a call
 *	5		the oldest request is answered
 *	6		the side's batches are sent and arrive
 *	7		the side's next batch is lost, with the connection
 *	8		the port goes down or comes up
 *	9		from now on queue pairs drain at once, or only after the next step 9
 *
 * If all messages are the sides' own (no step 3, xor8 is 0), no endpoint may fail, and each batch
 * must arrive at its position. In all cases an endpoint that has not failed must be in a valid
 * state.
 */
#include <string.h>

#include "support/fuzz.h"
#include "internal.h"
#include "receive-batch.h"

#define RING 4096u

struct fake_qp {
	struct mlx5dvl_qp qp;
	int status;
	uint32_t peer; /* number of the peer's queue pair; 0: not connected */
};

static struct mlx5dvl_qp_info none;
static uint8_t cqe[64];
static struct mlx5dvl_cq cq = {.next = cqe, .usual = MLX5DVL_CQE_OWNER_};
static uint32_t numbers;
static bool slow; /* queue pairs do not drain now */
static bool honest; /* all messages were the sides' own */

/* ---- the library without a device ---- */

static struct fake_qp *fake(const struct mlx5dvl_qp *qp)
{
	return container_of(qp, struct fake_qp, qp);
}

int mlx5dvl_qp_check(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr)
{
	return 0;
}

int mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p)
{
	struct fake_qp *q = calloc(1, sizeof(*q));

	must(q);
	q->qp.qpn = ++numbers;
	q->status = -ENOTCONN;
	*qp_p = &q->qp;
	return 0;
}

void mlx5dvl_qp_destroy(struct mlx5dvl_qp *qp)
{
	if (qp)
		free(fake(qp));
}

void mlx5dvl_qp_get_info(const struct mlx5dvl_qp *qp, struct mlx5dvl_qp_info *info_p, size_t size)
{
	*info_p = none;
	info_p->qpn = qp->qpn;
	info_p->lid = 1;
	info_p->mtu = 1;
	info_p->rd_atomic = 1;
}

int mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer, size_t size)
{
	must(fake(qp)->status == -ENOTCONN);
	if (peer->lid != 1)
		return -EINVAL;
	fake(qp)->peer = peer->qpn;
	fake(qp)->status = 0;
	return 0;
}

int mlx5dvl_qp_status(const struct mlx5dvl_qp *qp)
{
	return fake(qp)->status;
}

int mlx5dvl_qp_to_error(struct mlx5dvl_qp *qp)
{
	fake(qp)->status = -ECONNRESET;
	return 0;
}

/* No queue has room for a goodbye. */
int mlx5dvl_sq_wrap_(struct mlx5dvl_qp *qp, uint32_t blocks)
{
	return -EAGAIN;
}

uint32_t mlx5dvl_ctx_retired(struct mlx5dvl_ctx *ctx)
{
	return 0;
}

int memory_take(struct copyrpc_ctx *ctx, enum memory_use use, uint32_t len, struct piece *p)
{
	size_t bytes = align_up((size_t)len + 64, WIRE_RING_ALIGN);

	*p = (struct piece){.at = aligned_alloc(WIRE_RING_ALIGN, bytes), .rkey = 7, .lkey = 7};
	must(p->at);
	memset(p->at, 0, bytes);
	return 0;
}

void memory_give(struct copyrpc_ctx *ctx, struct piece *p)
{
	free(p->at);
	p->at = NULL;
}

void raw_drop(struct copyrpc_ep *ep)
{
}

void raw_end(struct copyrpc_ep *ep, int status)
{
}

void ep_set_route(struct copyrpc_ep *ep, struct route route)
{
	ep->route = route;
}

void ctx_device_events(struct copyrpc_ctx *ctx)
{
	for (struct copyrpc_ep *ep = ctx->eps; ep && !slow; ep = ep->next)
		if (ep->stopped && !ep->drained)
			ep_note_drained(ep);
}

static uint64_t now(void)
{
	return NSEC_PER_SEC;
}

/* ---- traffic ---- */

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	must(!status);
}

static bool are_paired(const struct copyrpc_ep *a, const struct copyrpc_ep *b)
{
	const struct fake_qp *p = fake(a->qp), *q = fake(b->qp);

	return !a->ch.away && !b->ch.away && !a->ch.status && !b->ch.status && !p->status &&
	       !q->status && p->peer == q->qp.qpn && q->peer == p->qp.qpn;
}

/* Seals the next batch, which arrives or is lost. Returns false if no batch was sealed. */
static bool post(struct copyrpc_ep *ep, struct copyrpc_ep *peer, bool lost)
{
	struct chan *ch = &ep->ch;
	struct sent_ring r;
	uint32_t imm, len;
	uint64_t pos;
	size_t off;

	if (!ch->again && !chan_waits(ch))
		return false;
	imm = ch->again ? chan_seal_again(ch, chan_consumer_bytes(ch), &pos, &len) :
			  chan_seal(ch, chan_consumer_bytes(ch), &pos, &len);
	must(imm || !honest);
	if (!imm) {
		ep_fail(ep, -EPROTO);
		return false;
	}
	must(credit_holds(&ch->cr));
	if (lost)
		return true;
	r = chan_ring_of(ch, pos);
	off = (size_t)(pos & r.mask) * WIRE_BLOCK;
	must(!honest || pos == peer->ch.live.pos);
	memcpy((uint8_t *)(uintptr_t)peer->ch.recv_ring + off, r.at + off, len);
	if (receive(&peer->ch, imm, &(struct listener){on_response, NULL, 0}) < 0) {
		must(!honest);
		ep_fail(peer, -EPROTO);
	}
	return true;
}

static void answer(struct copyrpc_ctx *ctx)
{
	struct copyrpc_req *req = ctx->queue.head;

	if (!req)
		return;
	QUEUE_SHIFT(&ctx->queue, queued);
	chan_reply(req, NULL, 0, NULL, chan_reply_odd);
}

/* ---- the steps ---- */

struct mail {
	uint8_t bytes[COPYRPC_AGAIN_SIZE];
	bool is_there;
};

static void take_mail(struct copyrpc_ep *ep, const void *bytes, size_t len)
{
	int rc = copyrpc_ep_again(ep, bytes, len);

	must(rc <= 0);
	must(rc || (!ep->ch.away && !ep->ch.status));
	must(!honest || !ep->ch.status);
}

static void step(struct input *in, struct copyrpc_ep *ep[2], struct mail mail[2])
{
	static const uint8_t bytes[64];
	uint8_t what = (uint8_t)take(in, 1), at, len, by;
	int side = what & 1;
	struct copyrpc_ep *self = ep[side], *peer = ep[!side];
	struct mail m = mail[!side];

	switch (what / 2 % 10) {
	case 0:
		ep_fail(self, -ECONNRESET);
		break;
	case 1:
		if (!copyrpc_ep_again_info(self, mail[side].bytes))
			mail[side].is_there = true;
		break;
	case 2:
		at = (uint8_t)take(in, 1);
		by = (uint8_t)take(in, 1);
		m.bytes[at % sizeof(m.bytes)] ^= by;
		honest &= !by;
		if (m.is_there)
			take_mail(self, m.bytes, sizeof(m.bytes));
		break;
	case 3:
		len = (uint8_t)take(in, 1);
		len = len < input_left(in) ? len : (uint8_t)input_left(in);
		honest = false;
		take_mail(self, in->at, len);
		in->at += len;
		break;
	case 4:
		chan_call(&self->ch, bytes, (uint32_t)take(in, 1) % sizeof(bytes), 64, 0, false);
		break;
	case 5:
		answer(self->ctx);
		break;
	case 6:
		while (are_paired(self, peer) && post(self, peer, false))
			;
		break;
	case 7:
		if (are_paired(self, peer) && post(self, peer, true))
			ep_fail(self, -ECONNRESET);
		break;
	case 8:
		self->ctx->port_down = !self->ctx->port_down;
		break;
	default:
		slow = !slow;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct copyrpc_ep_attr attr = {.size = sizeof(attr), .by_hand = true};
	struct copyrpc_ctx ctx = {.recv_cq = &cq, .send_cq = &cq, .clock = now};
	struct input in = {data, data + size};
	struct mail mail[2] = {0};
	struct copyrpc_ep *ep[2];
	uint8_t blob[2][COPYRPC_INFO_SIZE];

	ctx.news.tail_p = &ctx.news.head;
	ctx.watched.tail_p = &ctx.watched.head;
	ctx.ended.tail_p = &ctx.ended.head;
	ctx.queue.tail_p = &ctx.queue.head;
	ctx.attr = (struct copyrpc_ctx_attr){.ring_size = RING,
		.max_endpoints = 2,
		.reconnect_ms = 1000,
		.cq_depth = 64};
	honest = true;
	slow = false;
	for (int i = 0; i < 2; i++) {
		must(!copyrpc_ep_create(&ctx, &attr, &ep[i]));
		copyrpc_ep_info(ep[i], blob[i]);
	}
	for (int i = 0; i < 2; i++)
		must(!copyrpc_ep_connect(ep[i], blob[!i], COPYRPC_INFO_SIZE));
	while (input_left(&in)) {
		step(&in, ep, mail);
		for (int i = 0; i < 2; i++)
			must(ep[i]->ch.status || credit_holds(&ep[i]->ch.cr));
	}
	for (int i = 0; i < 2; i++) {
		news_remove(&ctx, &ep[i]->down);
		news_remove(&ctx, &ep[i]->back);
		ep_free(ep[i]);
	}
	return 0;
}
