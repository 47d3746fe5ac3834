/* SPDX-License-Identifier: MIT */
#include "xport/recv.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdatomic.h>
#include <string.h>

#include "fabric/latch.h"
#include "hca/event.h"
#include "hca/journal.h"
#include "hca/strict.h"
#include "hca/wqe.h"

static struct srq *srq_of(const struct qp *qp)
{
	return &arena()->srqs[qp->srq];
}

struct srq *recv_srq(const struct qp *qp)
{
	return qp->srq == NO_INDEX ? NULL : srq_of(qp);
}

static void place_in_srq(const struct srq *srq, uint32_t index, struct recv *rx)
{
	rx->addr = srq->buf + (uint64_t)index * srq->stride;
	rx->shift = srq->buf_shift;
}

static void place_in_rq(const struct qp *qp, uint32_t index, struct recv *rx)
{
	rx->addr = qp->rq_buf + ((uint64_t)(index & (qp->rq_count - 1)) << qp->rq_shift);
	rx->shift = qp->rq_buf_shift;
}

/*
 * Reads the counter and several entries in one access, because programs mostly post entries in a
 * row. A posted entry does not change before it is consumed. The cache (`ahead`) is marked empty
 * while it is filled: if this process is killed or stopped in between, the next process reads the
 * list again.
 */
static int srq_look(struct srq *srq)
{
	uint8_t window[SRQ_AHEAD * RECV_STRIDE_MAX];
	uint32_t n = srq->count - srq->head, i = srq->head, posted, k;
	struct dma_queue counter = {srq->obj.owner, srq->dbrec, srq->dbrec_shift};
	struct dma_queue entries = {srq->obj.owner, srq->buf + (uint64_t)srq->head * srq->stride,
		srq->buf_shift};
	struct wqe_srq_next next;
	int r;

	if (n > SRQ_AHEAD)
		n = SRQ_AHEAD;
	r = dma_get_counted(&counter, &posted, &entries, window, n * srq->stride);
	if (r)
		return r;
	strict_srq(srq, posted);
	srq->ahead_n = 0;
	atomic_signal_fence(memory_order_seq_cst);
	srq->ahead_from = srq->taken;
	for (k = 0; i - srq->head < n && (uint16_t)(srq->taken + k) != (uint16_t)posted; k++) {
		memcpy(&next, window + (size_t)(i - srq->head) * srq->stride, sizeof(next));
		i = be16toh(next.next_index) & (srq->count - 1);
		if (k == SRQ_AHEAD)
			break;
		srq->ahead[k] = (uint16_t)i;
	}
	atomic_signal_fence(memory_order_seq_cst);
	srq->ahead_n = k;
	return k ? 0 : -EAGAIN;
}

static int peek_srq(const struct qp *qp, struct recv *rx)
{
	struct srq *srq = srq_of(qp);
	int r = 0;

	if (!latch_take(&srq->latch) || srq->copy_from)
		return -EBUSY;
	if (srq->taken - srq->ahead_from >= srq->ahead_n)
		r = srq_look(srq);
	if (r)
		return r;
	rx->index = srq->head;
	place_in_srq(srq, srq->head, rx);
	/*
	 * Stored now: as soon as the program has seen the completion, it may reuse the entry and
	 * change its next_index.
	 */
	rx->next = srq->ahead[srq->taken - srq->ahead_from];
	return 0;
}

static int peek_rq(const struct qp *qp, struct recv *rx)
{
	uint32_t posted;
	int r;

	if (!qp->rq_count)
		return -EAGAIN;
	r = dma_get_be32(qp->obj.owner, qp->dbrec + DBREC_RECV, qp->dbrec_shift, &posted);
	if (r)
		return r;
	if ((uint16_t)posted == (uint16_t)qp->rq_taken)
		return -EAGAIN;
	rx->index = qp->rq_taken & 0xffff;
	place_in_rq(qp, qp->rq_taken, rx);
	return 0;
}

/* Gets the receive that begin_recv() has taken. */
static int peek_begun(const struct qp *qp, struct recv *rx)
{
	uint32_t i = qp->recv_begun - 1;

	rx->index = i;
	if (qp->srq == NO_INDEX)
		place_in_rq(qp, i, rx);
	else
		place_in_srq(srq_of(qp), i, rx);
	return 0;
}

int recv_peek(const struct qp *qp, struct recv *rx)
{
	if (qp->recv_begun)
		return peek_begun(qp, rx);
	return qp->srq == NO_INDEX ? peek_rq(qp, rx) : peek_srq(qp, rx);
}

bool recv_decode(const struct qp *qp, struct recv *rx)
{
	bool shared = qp->srq != NO_INDEX;
	uint32_t end = shared ? srq_of(qp)->stride : 1u << qp->rq_shift;
	uint32_t pd = shared ? srq_of(qp)->pd : qp->pd;
	uint8_t entry[RECV_STRIDE_MAX];
	struct wqe_data d;

	if (dma_get(qp->obj.owner, rx->addr, rx->shift, entry, end))
		return false;
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
	if (qp->recv_begun) {
		journal_store(&qp->recv_begun, 0);
		return;
	}
	if (qp->srq == NO_INDEX) {
		journal_store(&qp->rq_taken, qp->rq_taken + 1);
		return;
	}
	assert(latch_held(&srq_of(qp)->latch));
	journal_store(&srq_of(qp)->taken, srq_of(qp)->taken + 1);
	journal_store(&srq_of(qp)->head, rx->next);
}

/*
 * Sends the limit event if it is due. The limit is cleared last: if this process dies before that,
 * recv_recover() does it again.
 */
__attribute__((noinline)) static void check_limit(struct srq *srq)
{
	uint32_t posted;

	if (dma_get_be32(srq->obj.owner, srq->dbrec, srq->dbrec_shift, &posted))
		return;
	if ((uint16_t)(posted - srq->taken) >= srq->limit)
		return;
	async_srq(srq, EV_SRQ_LIMIT_REACHED);
	atomic_signal_fence(memory_order_seq_cst);
	srq->limit = 0; /* one event per arm */
}

void recv_taken(struct qp *qp)
{
	struct srq *srq;

	if (qp->srq == NO_INDEX) {
		qp->recvs++;
		return;
	}
	srq = srq_of(qp);
	srq->recvs++;
	if (srq->limit)
		check_limit(srq);
}

void recv_recover(void)
{
	for (uint32_t i = obj_tables[OBJ_SRQ].first; i < arena()->high[OBJ_SRQ]; i++) {
		struct srq *srq = &arena()->srqs[i];

		/* A limit that was set since the last receive was taken is not due yet. */
		if (srq->obj.used && srq->limit && srq->taken != srq->limit_from)
			check_limit(srq);
	}
}
