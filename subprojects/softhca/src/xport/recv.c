/* SPDX-License-Identifier: MIT */
#include "xport/recv.h"

#include <endian.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>

#include "fabric/journal.h"
#include "hca/event.h"
#include "xport/wqe.h"

static struct srq *srq_of(const struct qp *qp)
{
	return &arena()->srqs[qp->srq];
}

static int peek_srq(const struct qp *qp, struct recv *rx, uint8_t *entry)
{
	const struct srq *srq = srq_of(qp);
	struct wqe_srq_next next;
	uint32_t posted;
	int r = dma_read_be32(srq->obj.owner, srq->dbrec, &posted);

	if (r)
		return r;
	if ((uint16_t)posted == (uint16_t)srq->taken)
		return -EAGAIN;
	r = dma_read(srq->obj.owner, srq->buf + (uint64_t)srq->head * srq->stride, entry,
		srq->stride);
	if (r)
		return r;
	memcpy(&next, entry, sizeof(next));
	rx->index = srq->head;
	/* Kept before the completion is seen: the program relinks the entry after it. */
	rx->next = be16toh(next.next_index) & (srq->count - 1);
	return 0;
}

static int peek_rq(const struct qp *qp, struct recv *rx, uint8_t *entry)
{
	uint64_t addr;
	uint32_t posted;
	int r;

	if (!qp->rq_count)
		return -EAGAIN;
	r = dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_RECV, &posted);
	if (r)
		return r;
	if ((uint16_t)posted == (uint16_t)qp->rq_taken)
		return -EAGAIN;
	rx->index = qp->rq_taken & 0xffff;
	addr = qp->rq_buf + ((uint64_t)(qp->rq_taken & (qp->rq_count - 1)) << qp->rq_shift);
	return dma_read(qp->obj.owner, addr, entry, 1u << qp->rq_shift);
}

int recv_peek(const struct qp *qp, struct recv *rx, uint8_t *entry)
{
	return qp->srq == NO_INDEX ? peek_rq(qp, rx, entry) : peek_srq(qp, rx, entry);
}

bool recv_decode(const struct qp *qp, struct recv *rx, const uint8_t *entry)
{
	bool shared = qp->srq != NO_INDEX;
	uint32_t end = shared ? srq_of(qp)->stride : 1u << qp->rq_shift;
	uint32_t pd = shared ? srq_of(qp)->pd : qp->pd;
	struct wqe_data d;

	rx->nsegs = 0;
	rx->capacity = 0;
	for (uint32_t pos = shared ? sizeof(struct wqe_srq_next) : 0; pos < end; pos += sizeof(d)) {
		memcpy(&d, entry + pos, sizeof(d));
		if (be32toh(d.lkey) == WQE_LKEY_END)
			break;
		if (!mr_translate(be32toh(d.lkey), pd, IB_UVERBS_ACCESS_LOCAL_WRITE,
			    be64toh(d.addr), be32toh(d.bytes), &rx->segs[rx->nsegs]))
			return false;
		rx->capacity += rx->segs[rx->nsegs++].len;
	}
	return true;
}

void recv_take(struct qp *qp, const struct recv *rx)
{
	if (qp->srq == NO_INDEX) {
		journal_store(&qp->rq_taken, qp->rq_taken + 1);
		return;
	}
	journal_store(&srq_of(qp)->taken, srq_of(qp)->taken + 1);
	journal_store(&srq_of(qp)->head, rx->next);
}

void recv_taken(struct qp *qp)
{
	struct srq *srq;
	uint32_t posted;

	counters_of(qp->obj.owner)->recvs++;
	if (qp->srq == NO_INDEX)
		return;
	srq = srq_of(qp);
	if (!srq->limit || dma_read_be32(srq->obj.owner, srq->dbrec, &posted))
		return;
	if ((uint16_t)(posted - srq->taken) >= srq->limit)
		return;
	srq->limit = 0; /* armed for one event only */
	async_srq(srq, EV_SRQ_LIMIT_REACHED);
}
