/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "hca/trace.h"
#include "xport/as_message.h"
#include "xport/complete.h"
#include "xport/qp.h"
#include "xport/wired_ops.h"
#include "xport/xport.h"

#define FENCE 0x80 /* in fm_ce_se; the two bits below it are weaker fences */

/* Returns the block of the WQE of message @n. The WQEs before it must have been read. */
static uint32_t block_of(const struct call *c, uint32_t n)
{
	return n == c->wd->q.rq.done ? c->qp->sq_done : c->wd->after[(n - 1) % WIRE_MESSAGES];
}

/* Reads and decodes the WQE at block @at. @pi: the producer index. */
static enum syndrome decode(struct call *c, uint32_t at, uint32_t pi)
{
	enum syndrome s = wqe_fetch(c->qp, at, &c->w);

	if (s)
		return s;
	if (!xport_valid(c->qp, &c->w, at, pi))
		return SYN_LOCAL_QP_OP;
	s = wqe_decode(c->qp, &c->w);
	if (!s && c->w.opcode >= OP_READ && c->w.opcode != OP_NOP && !c->qp->attr.max_rd_atomic)
		return SYN_LOCAL_QP_OP;
	return s;
}

/*
 * Reads and decodes the WQE of message @n. Returns 0; -EAGAIN if it is not posted; -EIO if it is
 * not valid.
 */
static int look(struct call *c, uint32_t n)
{
	uint32_t at = block_of(c, n), pi;
	enum syndrome s;

	if (c->has && c->number == n)
		return 0;
	c->has = false;
	if (!xport_producer(c->qp, &pi) || (uint16_t)pi == (uint16_t)at)
		return -EAGAIN;
	s = decode(c, at, pi);
	if (s && n == c->wd->q.rq.done)
		c->wd->bad = s;
	if (s)
		return -EIO;
	c->wd->after[n % WIRE_MESSAGES] = at + wqe_blocks(&c->w);
	c->number = n;
	c->has = true;
	return 0;
}

int wired_message(void *arg, uint32_t n, struct wire_message *m)
{
	struct call *c = arg;
	int r = look(c, n);

	if (r)
		return r;
	*m = (struct wire_message){
		.fence = c->w.flags & FENCE,
		.m = as_message(&c->w),
	};
	return 0;
}

int wired_gather(void *arg, uint32_t n, uint32_t offset, void *out, uint32_t len)
{
	struct call *c = arg;
	int r = look(c, n);

	return r ? r : dma_gather(c->w.segs, c->w.nsegs, offset, out, len);
}

int wired_scatter(void *arg, uint32_t n, uint32_t offset, const void *bytes, uint32_t len)
{
	struct call *c = arg;
	int r = look(c, n);

	return r ? r : dma_scatter(c->w.segs, c->w.nsegs, offset, bytes, len);
}

static enum syndrome syndrome_of(enum wire_status status)
{
	switch (status) {
	case WIRE_RNR_EXCEEDED:
		return SYN_RNR_EXC;
	case WIRE_REMOTE_INVALID:
		return SYN_REMOTE_INVAL_REQ;
	case WIRE_REMOTE_ACCESS:
		return SYN_REMOTE_ACCESS;
	case WIRE_REMOTE_OPERATIONAL:
		return SYN_REMOTE_OP;
	case WIRE_LOCAL_PROTECTION:
		return SYN_LOCAL_PROT;
	case WIRE_BAD_RESPONSE:
		return SYN_LOCAL_QP_OP;
	default:
		return SYN_RETRY_EXC;
	}
}

static void fail(struct call *c, enum syndrome s)
{
	counters_of(c->qp->obj.owner)->errors++;
	trace_wqe(c->qp, &c->w, s);
	complete_send_error(c->qp, &c->w, s);
	qp_to_error(c->qp);
}

int wired_complete(void *arg, uint32_t n, enum wire_status status, const struct wire_step *s)
{
	struct call *c = arg;
	struct softhca_counters *count = counters_of(c->qp->obj.owner);

	if (look(c, n)) {
		qp_to_error(c->qp); /* the owner's memory is not accessible */
		return -ESRCH;
	}
	if (status != WIRE_OK) {
		fail(c, syndrome_of(status));
		return 0;
	}
	count->wqes[c->w.opcode & (SOFTHCA_OPCODES - 1)]++;
	count->bytes[c->w.opcode & (SOFTHCA_OPCODES - 1)] += c->w.length;
	trace_wqe(c->qp, &c->w, SYN_NONE);
	complete_send_with(c->qp, &c->w, s);
	return 0;
}

void wired_fail_bad(struct call *c)
{
	uint32_t pi;

	c->has = false;
	if (!xport_producer(c->qp, &pi) || wqe_fetch(c->qp, c->qp->sq_done, &c->w)) {
		qp_to_error(c->qp);
		return;
	}
	wqe_cut(&c->w, (uint16_t)(pi - c->qp->sq_done));
	fail(c, c->wd->bad);
}
