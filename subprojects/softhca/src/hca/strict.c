/* SPDX-License-Identifier: MIT */
#include "hca/strict.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include "hca/config.h"
#include "hca/cqe.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "sys/sys.h"

/* The number of completions that a program may poll before it updates the consumer index. */
#define POLLED_AHEAD 64

/*
 * Drops the completions that the program has polled: the program may reuse their blocks (WQEBBs).
 * While a program polls, it may post requests into the blocks that become free, and store the
 * consumer index only afterwards. So POLLED_AHEAD completions after the stored index count as
 * polled.
 */
static void reap_polled(struct qp *qp)
{
	struct cq *cq = cq_at(qp->send_cq);
	uint32_t polled = cq->producer; /* with ignore_overrun the program need not report what
					   it polled */

	if (!cq->ignore_overrun) {
		cq_read_consumer(cq);
		polled = cq->consumer + POLLED_AHEAD;
	}
	while (qp->strict_first != qp->strict_last) {
		uint32_t i = qp->strict_first % STRICT_COMPLETIONS;

		if ((int32_t)(polled - qp->strict_cqe[i]) <= 0)
			return;
		qp->strict_free = qp->strict_end[i];
		qp->strict_first++;
	}
}

/*
 * Makes room in the full list by joining entries in pairs. When the completion of the first entry
 * of a pair has been polled, the blocks of both count as free. So a mistake may be missed, but
 * correct use is never reported.
 */
static void join_neighbours(struct qp *qp)
{
	uint32_t to = qp->strict_first;

	for (uint32_t from = to; from != qp->strict_last; from += 2, to++) {
		qp->strict_cqe[to % STRICT_COMPLETIONS] = qp->strict_cqe[from % STRICT_COMPLETIONS];
		qp->strict_end[to % STRICT_COMPLETIONS] =
			qp->strict_end[(from + 1) % STRICT_COMPLETIONS];
	}
	qp->strict_last = to;
}

void strict_completed(struct qp *qp, uint32_t cqe_index, uint32_t blocks_end)
{
	uint32_t i;

	if (qp->strict_last - qp->strict_first == STRICT_COMPLETIONS)
		reap_polled(qp);
	if (qp->strict_last - qp->strict_first == STRICT_COMPLETIONS)
		join_neighbours(qp);
	i = qp->strict_last++ % STRICT_COMPLETIONS;
	qp->strict_cqe[i] = cqe_index;
	qp->strict_end[i] = blocks_end;
}

bool strict_ring(struct qp *qp, uint32_t pi)
{
	uint32_t posted = (uint16_t)(pi - qp->sq_done), used;

	if ((uint16_t)pi == (uint16_t)qp->rung) {
		strict_violation("QP 0x%06x: a doorbell rang, but its record (%u) has not advanced",
			qp->qpn, pi & 0xffff);
		return false;
	}
	used = qp->sq_done + posted - qp->strict_free;
	if (used > qp->sq_count) {
		reap_polled(qp);
		used = qp->sq_done + posted - qp->strict_free;
	}
	if (used <= qp->sq_count)
		return true;
	strict_violation("QP 0x%06x: with producer index %u, %u of %u WQEBBs are in use: a slot is "
			 "reused before its completion was polled",
		qp->qpn, pi & 0xffff, used, qp->sq_count);
	return false;
}

bool strict_wqe(const struct qp *qp, const struct wqe *w, uint32_t at, uint32_t posted)
{
	if (w->index != (uint16_t)at) {
		strict_violation("QP 0x%06x: WQE %u says that it is WQE %u", qp->qpn, at & 0xffff,
			w->index);
		return false;
	}
	if (w->qpn != qp->qpn || !w->units) {
		strict_violation("QP 0x%06x: WQE %u has QP number 0x%06x and DS %u", qp->qpn,
			w->index, w->qpn, w->units);
		return false;
	}
	if (wqe_blocks(w) > posted) {
		strict_violation("QP 0x%06x: WQE %u has DS %u, but only %u WQEBBs are posted",
			qp->qpn, w->index, w->units, posted);
		return false;
	}
	return true;
}

void strict_destroyed(const struct qp *qp)
{
	uint32_t pi;

	if (!config_get()->strict || qp->state != QPS_RTS || !qp->sq_count || !qp->trapped)
		return;
	if (dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &pi))
		return;
	if ((uint16_t)pi != (uint16_t)qp->rung)
		strict_violation("QP 0x%06x: WQE %u..%u were posted, but their doorbell never rang",
			qp->qpn, qp->rung & 0xffff, (pi - 1) & 0xffff);
}

/*
 * Returns the kernel's limit of locked memory, in bytes. A process with the capability to lock
 * memory has no limit.
 */
static uint64_t kernel_memlock(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};
	struct rlimit limit;

	SYS(SYS_capget, &head, caps);
	if (caps[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK))
		return UINT64_MAX;
	return getrlimit(RLIMIT_MEMLOCK, &limit) ? UINT64_MAX : limit.rlim_cur;
}

bool strict_memlock(uint64_t start, uint64_t length)
{
	uint64_t limit = config_get()->memlock;
	uint64_t sum = arena()->procs[fabric_self.slot].locked + mr_locks(start, length);

	if (!limit)
		limit = kernel_memlock();
	if (sum <= limit)
		return true;
	strict_violation("%llu KiB would be locked with this region of %llu bytes; the limit "
			 "(ulimit -l) is %llu KiB",
		(unsigned long long)sum >> 10, (unsigned long long)length,
		(unsigned long long)limit >> 10);
	return false;
}

void strict_unmapped(const struct qp *qp)
{
	if (config_get()->strict)
		strict_violation("QP 0x%06x: memory was unmapped while registered: a real adapter "
				 "would still access the old pages",
			qp->qpn);
}

void strict_srq(struct srq *srq, uint32_t posted)
{
	uint32_t n = (uint16_t)(posted - srq->taken);

	if (!config_get()->strict || n <= srq->max_wr || srq->strict_told)
		return;
	srq->strict_told = 1;
	strict_violation("SRQ %u: %u receives are posted, but its max_wr is %u",
		(uint32_t)(srq - arena()->srqs), n, srq->max_wr);
}

void strict_arm(const struct cq *cq, uint32_t word)
{
	uint32_t record, sn = CQ_ARM_SN(word);

	if (!dma_read_be32(cq->obj.owner, cq->dbrec, &record) && ((record ^ word) & CQ_CI_MASK))
		strict_violation("CQ %u: armed with consumer index 0x%x, but its doorbell record "
				 "says 0x%x",
			cq_index(cq), word & CQ_CI_MASK, record & CQ_CI_MASK);
	/*
	 * An unread event wakes the program, however often the program arms the queue before it
	 * reads the event.
	 */
	if (cq->fired == 1 + sn && !fifo_unread(cq->fifo))
		strict_violation("CQ %u: armed with sequence number %u, whose event has been read: "
				 "a real adapter makes no second event",
			cq_index(cq), sn);
}
