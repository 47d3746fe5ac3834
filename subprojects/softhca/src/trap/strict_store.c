/* SPDX-License-Identifier: MIT */
#include "trap/strict_store.h"

#include <string.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "hca/config.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "trap/device.h"
#include "trap/pages.h"

/* The last BlueFlame copy that this thread has begun, and the queue and WQE of its doorbell. */
static __thread struct {
	const struct uctx *u;
	uint32_t offset; /* of the buffer in its page */
	uint32_t qpn;
	uint32_t index;
	uint32_t at; /* offset of the latest store in the buffer */
	bool repeats; /* the latest store repeated the start of the copy */
	bool out_of_turn; /* the previous doorbell of the register was in the same half */
} last_rung __attribute__((tls_model("initial-exec")));

bool strict_doorbell(struct qp *qp, uint32_t pi, const uint8_t *bytes)
{
	uint32_t index = be32_at(bytes) >> 8 & 0xffff;
	struct wqe_ctrl c;
	uint64_t at;

	if (last_rung.repeats && (uint16_t)pi == (uint16_t)qp->rung)
		return true;
	if (!strict_ring(qp, pi))
		return false;
	if ((uint16_t)(index - qp->rung) >= (uint16_t)(pi - qp->rung)) {
		strict_violation("QP 0x%06x: doorbell names WQE %u, which is not among the posted "
				 "%u..%u",
			qp->qpn, index, qp->rung & 0xffff, (pi - 1) & 0xffff);
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
 * Records the first store of a copy. A BlueFlame buffer is write-combining memory, so a copy whose
 * stores overlap, such as memcpy() with 64-byte vectors, reaches the adapter once. At the
 * start of a buffer, a store of more than 8 bytes is part of a copy; one of 8 bytes may be only a
 * doorbell.
 */
static void note_start(const struct device_store *st)
{
	uint32_t qpn = be32_at(st->bytes + 4) >> 8, index = be32_at(st->bytes) >> 8 & 0xffff;
	uint32_t reg = (st->offset - UAR_BF_FIRST) / UAR_BF_REGISTER;
	uint8_t half = st->offset % UAR_BF_REGISTER / UAR_BF_BUFFER + 1;
	uint8_t *last = pages_half(st->page, reg);
	const struct qp *qp = qp_by_number(qpn);
	uint32_t pi;

	last_rung.repeats = st->size > 8 && last_rung.at == 0 && last_rung.u == st->u &&
			    last_rung.offset == st->offset && last_rung.qpn == qpn &&
			    last_rung.index == index;
	/* strict_doorbell() reports a doorbell that announces nothing. */
	last_rung.out_of_turn = *last == half && !last_rung.repeats && qp &&
				!dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &pi) &&
				(uint16_t)pi != (uint16_t)qp->rung;
	*last = half;
	last_rung.u = st->u;
	last_rung.offset = st->offset;
	last_rung.qpn = qpn;
	last_rung.index = index;
}

/*
 * Called for the second word of a copy, because a doorbell without a copy has only the first word.
 */
static void check_turn(const struct qp *qp)
{
	if (!last_rung.out_of_turn)
		return;
	last_rung.out_of_turn = false;
	strict_violation("QP 0x%06x: WQE %u: BlueFlame copy into the half of its register that was "
			 "used last",
		qp->qpn, last_rung.index);
}

/* Returns the number of a page. Each page of a legacy context's fixed set has two numbers. */
static uint32_t uar_of(const struct device_store *st)
{
	uint32_t uar = pages_uar(st->page);

	return uar >> 8 == UAR_KIND_NC ? UAR_NUMBER(UAR_KIND_REGULAR, uar & 0xff) : uar;
}

bool strict_register(const struct qp *qp, const struct device_store *st)
{
	uint32_t uar = uar_of(st), reg = (st->offset - UAR_BF_FIRST) / UAR_BF_REGISTER;
	/* Without BlueFlame all registers of a page count as the same register. */
	bool any = qp->bfreg == BFREG_ANY || !config_get()->blueflame;

	if (uar == qp->uar && (any || reg == qp->bfreg))
		return true;
	strict_violation("QP 0x%06x: doorbell at register %u of page 0x%x, which is not its own",
		qp->qpn, reg, uar);
	return false;
}

bool strict_arm_page(const struct cq *cq, const struct device_store *st)
{
	if (uar_of(st) == cq->uar)
		return true;
	strict_violation("CQ %u: armed through page 0x%x, which is not its own", cq_index(cq),
		uar_of(st));
	return false;
}

void strict_blueflame(const struct device_store *st)
{
	uint32_t at = st->offset % UAR_BF_BUFFER, size = st->size & ~7u, ring;
	uint8_t queue[64];
	const struct qp *qp;

	if (at == 0)
		note_start(st);
	last_rung.at = at;
	qp = qp_by_number(last_rung.qpn);
	if (!qp && at == 0)
		return; /* store_sq() reports the doorbell of an unknown QP */
	if (!qp || !qp->sq_count || last_rung.u != st->u || last_rung.offset != st->offset - at) {
		strict_violation("a store of %u bytes at 0x%x of a doorbell page, where no "
				 "BlueFlame copy has begun",
			size, st->offset);
		return;
	}
	if (at + size > 8 && at <= 8 && config_get()->blueflame)
		check_turn(qp);
	ring = qp->sq_count * WQE_BLOCK;
	/* The first 8 bytes are the doorbell: see strict_doorbell(). */
	for (uint32_t i = at == 0 ? 8 : 0; i < size; i += 8) {
		uint32_t pos = ((last_rung.index & (qp->sq_count - 1)) * WQE_BLOCK + at + i) % ring;

		if (dma_read(qp->obj.owner, qp->sq_buf + pos, queue, 8) ||
			memcmp(queue, st->bytes + i, 8)) {
			strict_violation("QP 0x%06x: WQE %u: BlueFlame byte %u differs from the "
					 "queue",
				qp->qpn, last_rung.index, at + i);
			return;
		}
	}
}
