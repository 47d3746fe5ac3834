/* SPDX-License-Identifier: MIT */
#include "trap/strict_store.h"

#include <string.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "trap/device.h"

/* The BlueFlame copy that this thread has begun last, and what its doorbell names. */
static __thread struct {
	const struct uctx *u;
	uint32_t offset; /* of the buffer in its page */
	uint32_t qpn;
	uint32_t index;
	uint32_t at; /* offset of the latest store in the buffer */
	bool repeats; /* the latest store repeated the start of the copy */
} last_rung __attribute__((tls_model("initial-exec")));

bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes)
{
	uint32_t index = be32_at(bytes) >> 8 & 0xffff;
	struct wqe_ctrl c;
	uint64_t at;

	if (last_rung.repeats && (uint16_t)pi == (uint16_t)strict_rung(qp))
		return true;
	if (!strict_ring(qp, pi))
		return false;
	if ((uint16_t)(index - strict_rung(qp)) >= (uint16_t)(pi - strict_rung(qp))) {
		strict_violation("QP 0x%06x: doorbell names WQE %u, which is not among the posted "
				 "%u..%u",
			qp->qpn, index, strict_rung(qp) & 0xffff, (pi - 1) & 0xffff);
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
 * Begins a copy. A BlueFlame buffer is write-combining memory, so a copy whose stores overlap,
 * such as memcpy() with 64-byte vectors, reaches the adapter once. A store of more than 8 bytes
 * is part of a copy; a store of 8 bytes is a doorbell.
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
		return; /* device_store() reports it as a doorbell */
	if (!qp || !qp->sq_count || last_rung.u != u || last_rung.offset != offset - at) {
		strict_violation("a store of %u bytes at 0x%x of a doorbell page that began no "
				 "BlueFlame copy",
			size, offset);
		return;
	}
	ring = qp->sq_count * WQE_BLOCK;
	/* The first 8 bytes are the doorbell: see strict_doorbell(). */
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
