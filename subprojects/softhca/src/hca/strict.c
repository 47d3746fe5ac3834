/* SPDX-License-Identifier: MIT */
#include "hca/strict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "sys/sys.h"

#define LINE 256

void strict_violation(const char *fmt, ...)
{
	char line[LINE] = "softhca: strict: ";
	size_t n = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	sys_write(2, line, n);
	counters_of(fabric_self.slot)->violations++;
}

/* Drops the completions that the program has polled: their blocks may be reused. */
static void reap_polled(struct qp *qp)
{
	const struct cq *cq = cq_at(qp->send_cq);

	cq_read_consumer(cq_at(qp->send_cq));
	while (qp->strict_first != qp->strict_last) {
		uint32_t i = qp->strict_first % STRICT_COMPLETIONS;

		if ((int32_t)(cq->consumer - qp->strict_cqe[i]) <= 0)
			return;
		qp->strict_free = qp->strict_end[i];
		qp->strict_first++;
	}
}

void strict_completed(struct qp *qp, uint32_t cqe_index, uint32_t blocks_end)
{
	uint32_t i;

	if (qp->strict_last - qp->strict_first == STRICT_COMPLETIONS)
		reap_polled(qp);
	/* The list is full: drops the oldest. Its blocks are freed by the next completion. */
	if (qp->strict_last - qp->strict_first == STRICT_COMPLETIONS)
		qp->strict_first++;
	i = qp->strict_last++ % STRICT_COMPLETIONS;
	qp->strict_cqe[i] = cqe_index;
	qp->strict_end[i] = blocks_end;
}

/* Without chaos mode a doorbell is executed at once. */
uint32_t strict_rung(const struct qp *qp)
{
	return arena()->chaos ? qp->rung : qp->sq_done;
}

bool strict_ring(struct qp *qp, uint32_t pi)
{
	uint32_t posted = (uint16_t)(pi - qp->sq_done), used;

	if ((uint16_t)pi == (uint16_t)strict_rung(qp)) {
		strict_violation("QP 0x%06x: doorbell, but its record (%u) posts nothing new",
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
	strict_violation("QP 0x%06x: WQE %u: %u blocks in use of %u: a slot is reused before its "
			 "completion was polled",
		qp->qpn, pi & 0xffff, used, qp->sq_count);
	return false;
}

bool strict_wqe(const struct qp *qp, const struct wqe *w)
{
	if (w->index != (uint16_t)qp->sq_done) {
		strict_violation("QP 0x%06x: WQE %u says that it is WQE %u", qp->qpn,
			qp->sq_done & 0xffff, w->index);
		return false;
	}
	if (w->qpn != qp->qpn || !w->units) {
		strict_violation("QP 0x%06x: WQE %u says QP 0x%06x, %u units", qp->qpn, w->index,
			w->qpn, w->units);
		return false;
	}
	return true;
}

void strict_destroyed(const struct qp *qp)
{
	uint32_t pi;

	if (!config_get()->strict || qp->state != QPS_RTS || !qp->sq_count || qp->wait_until)
		return;
	if (dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &pi))
		return;
	if ((uint16_t)pi != (uint16_t)strict_rung(qp))
		strict_violation("QP 0x%06x: WQE %u..%u were posted, but their doorbell never rang",
			qp->qpn, strict_rung(qp) & 0xffff, (pi - 1) & 0xffff);
}
