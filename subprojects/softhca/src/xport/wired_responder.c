/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "hca/event.h"
#include "hca/journal.h"
#include "xport/complete.h"
#include "xport/qp.h"
#include "xport/recv.h"
#include "xport/wired_ops.h"

void wired_commit(void *arg, const struct wire_step *s)
{
	journal_begin();
	for (uint32_t i = 0; i < s->n; i++)
		journal_store(s->stores[i].at, s->stores[i].value);
	journal_commit();
}

static int translate(const struct qp *qp, uint32_t access, uint64_t raddr, uint32_t rkey,
	uint32_t len, struct dma_seg *seg)
{
	return (qp->attr.access & access) == access &&
			       mr_translate(rkey, qp->pd, access, raddr, len, seg) ?
		       0 :
		       -EACCES;
}

int wired_access(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey, uint32_t len)
{
	struct call *c = arg;
	struct dma_seg seg;

	return translate(c->qp,
		op == PO_READ_REQUEST ? IB_UVERBS_ACCESS_REMOTE_READ :
					IB_UVERBS_ACCESS_REMOTE_WRITE,
		raddr, rkey, len, &seg);
}

int wired_place(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len)
{
	struct call *c = arg;
	struct dma_seg seg;
	int r = translate(c->qp, IB_UVERBS_ACCESS_REMOTE_WRITE, raddr, rkey, len, &seg);

	return r ? r : dma_write(seg.slot, seg.addr, bytes, len);
}

int wired_fetch(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len)
{
	struct call *c = arg;
	struct dma_seg seg;
	int r = translate(c->qp, IB_UVERBS_ACCESS_REMOTE_READ, raddr, rkey, len, &seg);

	return r ? r : dma_read(seg.slot, seg.addr, out, len);
}

int wired_recv_ready(void *arg)
{
	struct call *c = arg;
	struct recv rx;

	return recv_peek(c->qp, &rx);
}

/* Completes the receive with an error, as an adapter does; the caller sends the NAK. */
static int cannot_place(struct call *c, const struct recv *rx, int r)
{
	if (r == -ESRCH)
		return r;
	qp_begin_error(c->qp);
	complete_recv_error(c->qp, rx, r == -EMSGSIZE ? SYN_LOCAL_LENGTH : SYN_LOCAL_PROT);
	return r;
}

/*
 * If a message has several packets, the first one already takes the receive of an SRQ
 * (begin_recv()), so that packets of another QP's message are not placed into the same receive.
 */
int wired_recv_place(void *arg, uint32_t offset, const void *bytes, uint32_t len)
{
	struct call *c = arg;
	struct recv rx;
	int r = recv_peek(c->qp, &rx);

	if (r)
		return r;
	if (!recv_decode(c->qp, &rx))
		return cannot_place(c, &rx, -EFAULT);
	r = dma_scatter(rx.segs, rx.nsegs, offset, bytes, len);
	if (r)
		return cannot_place(c, &rx, r);
	if (!offset && len == c->wd->q.attr.mtu && c->qp->srq != NO_INDEX && !c->qp->recv_begun)
		begin_recv(c->qp, &rx);
	return 0;
}

void wired_recv_complete(void *arg, const struct wire_arrival *a, const struct wire_step *s)
{
	struct call *c = arg;
	struct recv rx;

	if (!recv_peek(c->qp, &rx))
		complete_arrival(c->qp, &rx, a, c->qp->attr.dest_qpn, s);
}

int wired_finish_atomic(struct wired *wd)
{
	int r = 0;

	if (wd->storing)
		r = dma_write(wd->store_slot, wd->store_at, &wd->store_value,
			sizeof(wd->store_value));
	wd->storing = 0;
	return r;
}

int wired_atomic(void *arg, const struct packet *p, uint64_t *original, const struct wire_step *s)
{
	struct call *c = arg;
	struct wire_step all = *s;
	struct dma_seg seg;
	uint64_t old;
	int r = translate(c->qp, IB_UVERBS_ACCESS_REMOTE_ATOMIC, p->raddr, p->rkey, sizeof(old),
		&seg);

	if (!r)
		r = dma_read(seg.slot, seg.addr, &old, sizeof(old));
	if (r)
		return r;
	c->wd->store_slot = seg.slot;
	c->wd->store_at = seg.addr;
	c->wd->store_value = old + p->swap_add;
	if (p->opcode == PO_COMPARE_SWAP)
		c->wd->store_value = old == p->compare ? p->swap_add : old;
	*original = old;
	wire_add(&all, &c->wd->storing, 1);
	wired_commit(arg, &all);
	return wired_finish_atomic(c->wd);
}

void wired_refused(void *arg, enum aeth_syndrome nak)
{
	struct call *c = arg;

	async_qp(c->qp, nak == AETH_NAK_ACCESS ? EV_QP_ACCESS_ERR : EV_QP_REQ_ERR);
	qp_to_error(c->qp);
}
