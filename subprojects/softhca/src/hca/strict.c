/* SPDX-License-Identifier: MIT */
#include "hca/strict.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "shim/sys.h"
#include "trap/device.h"

#define LINE 256

/* What the doorbell of each BlueFlame buffer of a page last named, for this thread. */
static __thread struct {
	const struct uctx *u;
	uint32_t offset; /* of the buffer in its page */
	uint32_t qpn;
	uint32_t index;
	uint32_t at; /* of the latest store in the buffer */
	bool repeats; /* the latest store wrote the start of the copy once more */
} last_rung __attribute__((tls_model("initial-exec")));

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

static uint32_t be32_at(const uint8_t *bytes)
{
	uint32_t v;

	memcpy(&v, bytes, sizeof(v));
	return be32toh(v);
}

/* Forgets what the program has polled: those blocks may be written again. */
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
	/* The oldest goes: the program only gets less freedom than it has. */
	if (qp->strict_last - qp->strict_first == STRICT_COMPLETIONS)
		qp->strict_first++;
	i = qp->strict_last++ % STRICT_COMPLETIONS;
	qp->strict_cqe[i] = cqe_index;
	qp->strict_end[i] = blocks_end;
}

static bool check_ring(struct qp *qp, uint32_t pi)
{
	uint32_t posted = (uint16_t)(pi - qp->sq_done), used;

	if (!posted) {
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

bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes)
{
	uint32_t index = be32_at(bytes) >> 8 & 0xffff;
	struct wqe_ctrl c;
	uint64_t at;

	if (last_rung.repeats && (uint16_t)pi == (uint16_t)qp->sq_done)
		return true;
	if (!check_ring(qp, pi))
		return false;
	if ((uint16_t)(index - qp->sq_done) >= (uint16_t)(pi - qp->sq_done)) {
		strict_violation("QP 0x%06x: doorbell names WQE %u, which is not among the posted "
				 "%u..%u",
			qp->qpn, index, qp->sq_done & 0xffff, (pi - 1) & 0xffff);
		return false;
	}
	at = qp->sq_buf + (uint64_t)(index & (qp->sq_count - 1)) * WQE_BLOCK;
	if (dma_read(qp->obj.owner, at, &c, sizeof(c)) || memcmp(&c, bytes, 8)) {
		strict_violation("QP 0x%06x: WQE %u: the doorbell's bytes differ from the queue's",
			qp->qpn, index);
		return false;
	}
	return true;
}

/*
 * A BlueFlame buffer is write-combining memory: a copy whose stores overlap, as those of
 * memcpy() with 64-byte vectors do, reaches the adapter once. Only a store of more than 8
 * bytes is part of a copy; 8 bytes are a doorbell of their own.
 */
static void note_start(const struct uctx *u, uint32_t offset, const uint8_t *bytes, uint32_t size)
{
	uint32_t qpn = be32_at(bytes + 4) >> 8, index = be32_at(bytes) >> 8 & 0xffff;

	last_rung.repeats = size > 8 && last_rung.at == 0 && last_rung.u == u &&
			    last_rung.offset == offset && last_rung.qpn == qpn &&
			    last_rung.index == index;
	last_rung.u = u;
	last_rung.offset = offset;
	last_rung.qpn = qpn;
	last_rung.index = index;
}

void strict_blueflame(const struct uctx *u, uint32_t offset, const uint8_t *bytes, uint32_t size)
{
	uint32_t at = offset % UAR_BF_BUFFER, ring;
	uint8_t queue[64];
	const struct qp *qp;

	if (at == 0)
		note_start(u, offset, bytes, size);
	last_rung.at = at;
	qp = qp_by_number(last_rung.qpn);
	if (!qp && at == 0)
		return; /* reported as a doorbell */
	if (!qp || !qp->sq_count || last_rung.u != u || last_rung.offset != offset - at) {
		strict_violation("a store of %u bytes at 0x%x of a doorbell page that began no "
				 "BlueFlame copy",
			size, offset);
		return;
	}
	ring = qp->sq_count * WQE_BLOCK;
	/* The first 8 bytes are the doorbell: see strict_doorbell. */
	for (uint32_t i = at == 0 ? 8 : 0; i < size; i += 8) {
		uint32_t pos = ((last_rung.index & (qp->sq_count - 1)) * WQE_BLOCK + at + i) % ring;

		if (dma_read(qp->obj.owner, qp->sq_buf + pos, queue, 8) ||
			memcmp(queue, bytes + i, 8)) {
			strict_violation("QP 0x%06x: WQE %u: BlueFlame byte %u differs from the "
					 "queue",
				qp->qpn, last_rung.index, at + i);
			return;
		}
	}
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
	if ((uint16_t)pi != (uint16_t)qp->sq_done)
		strict_violation("QP 0x%06x: WQE %u..%u were posted, but their doorbell never rang",
			qp->qpn, qp->sq_done & 0xffff, (pi - 1) & 0xffff);
}
