/* SPDX-License-Identifier: MIT */
#include "hca/wqe.h"

#include <endian.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stddef.h>
#include <string.h>

#include "hca/objects.h"

#define MSG_MAX (1ull << 30)

bool mr_translate(uint32_t key, uint32_t pd, uint32_t access, uint64_t addr, uint64_t len,
	struct dma_seg *seg)
{
	const struct mr *mr = mr_by_key(key);

	if (!mr || mr->pd != pd || (mr->access & access) != access)
		return false;
	if (addr < mr->hca_va || len > mr->length || addr - mr->hca_va > mr->length - len)
		return false;
	seg->slot = mr->obj.owner;
	seg->region = key >> 8;
	seg->addr = addr - mr->hca_va + mr->start;
	seg->len = len;
	return true;
}

/*
 * Copies @len bytes from the send queue's ring. An entry may wrap around the ring's end after any
 * unit.
 */
static int ring_read(const struct qp *qp, uint32_t offset, void *buf, uint32_t len)
{
	uint32_t ring = qp->sq_count * WQE_BLOCK;
	uint32_t first = ring - offset < len ? ring - offset : len;
	int r = dma_read(qp->obj.owner, qp->sq_buf + offset, buf, first);

	if (!r && first < len)
		r = dma_read(qp->obj.owner, qp->sq_buf, (char *)buf + first, len - first);
	return r;
}

enum syndrome wqe_fetch(const struct qp *qp, uint32_t index, struct wqe *w)
{
	uint32_t offset = (index & (qp->sq_count - 1)) * WQE_BLOCK;
	struct wqe_ctrl c;
	uint32_t word;

	if (ring_read(qp, offset, w->raw, WQE_BLOCK)) {
		memset(w, 0, offsetof(struct wqe, segs));
		return SYN_LOCAL_QP_OP;
	}
	memcpy(&c, w->raw, sizeof(c));
	word = be32toh(c.opmod_idx_opcode);
	w->opcode = word & 0xff;
	w->index = (uint16_t)(word >> 8);
	word = be32toh(c.qpn_ds);
	w->units = word & 0x3f;
	w->qpn = word >> 8;
	w->signaled = (c.fm_ce_se & (CTRL_CQ_UPDATE | 0x04)) == CTRL_CQ_UPDATE || qp->sig_all;
	w->solicited = c.fm_ce_se & CTRL_SOLICITED;
	w->flags = c.fm_ce_se;
	w->imm = c.imm;
	w->raddr = w->rkey = 0;
	w->av = NULL;
	w->nsegs = w->inline_len = 0;
	w->length = 0;
	if (w->units > WQE_BLOCK / WQE_UNIT && ring_read(qp, offset, w->raw, w->units * WQE_UNIT)) {
		w->units = 0;
		return SYN_LOCAL_QP_OP;
	}
	return SYN_NONE;
}

/* Adds inline payload, which is in the entry. The next segment begins at a multiple of 16 bytes. */
static enum syndrome add_inline(struct wqe *w, uint32_t *pos, uint32_t len)
{
	struct dma_seg *s = &w->segs[w->nsegs++];
	uint32_t end = *pos + 4 + len;

	if (end > w->units * WQE_UNIT)
		return SYN_LOCAL_QP_OP;
	s->slot = fabric_self.slot;
	s->region = 0;
	s->addr = (uintptr_t)(w->raw + *pos + 4);
	s->len = len;
	w->length += len;
	w->inline_len += len;
	*pos = (end + WQE_UNIT - 1) & ~(uint32_t)(WQE_UNIT - 1);
	return SYN_NONE;
}

/* @pos: start of the data segments. @access: the accesses that the local memory must permit. */
static enum syndrome decode_data(const struct qp *qp, struct wqe *w, uint32_t pos, uint32_t access)
{
	while (pos < w->units * WQE_UNIT) {
		struct wqe_data d;
		uint64_t len;

		memcpy(&d, w->raw + pos, sizeof(d));
		len = be32toh(d.bytes);
		if (len & WQE_INLINE) {
			enum syndrome s = add_inline(w, &pos, len & ~WQE_INLINE);

			if (s)
				return s;
			continue;
		}
		pos += sizeof(d);
		/* For the adapter a length of 0 means 2 GiB, which exceeds the largest message. */
		if (!len || w->length + len > MSG_MAX)
			return SYN_LOCAL_LENGTH;
		if (!mr_translate(be32toh(d.lkey), qp->pd, access, be64toh(d.addr), len,
			    &w->segs[w->nsegs]))
			return SYN_LOCAL_PROT;
		w->length += len;
		w->nsegs++;
	}
	return SYN_NONE;
}

static enum syndrome decode_raddr(const struct qp *qp, struct wqe *w, uint32_t *pos)
{
	struct wqe_raddr r;

	if (*pos + sizeof(r) > w->units * WQE_UNIT || qp->type == QPT_UD)
		return SYN_LOCAL_QP_OP;
	memcpy(&r, w->raw + *pos, sizeof(r));
	w->raddr = be64toh(r.addr);
	w->rkey = be32toh(r.rkey);
	*pos += sizeof(r);
	return SYN_NONE;
}

static enum syndrome decode_atomic(struct wqe *w, uint32_t *pos)
{
	struct wqe_atomic a;

	if (*pos + sizeof(a) > w->units * WQE_UNIT)
		return SYN_LOCAL_QP_OP;
	memcpy(&a, w->raw + *pos, sizeof(a));
	w->swap_add = be64toh(a.swap_add);
	w->compare = be64toh(a.compare);
	*pos += sizeof(a);
	return SYN_NONE;
}

/* Only the first 16 bytes of an address vector exist, unless dqp_dct has WQE_AV_EXTENDED set. */
static enum syndrome decode_av(struct wqe *w, uint32_t *pos)
{
	uint32_t have = w->units * WQE_UNIT;

	w->av = (const struct wqe_av *)(w->raw + *pos);
	if (*pos + WQE_UNIT > have)
		return SYN_LOCAL_QP_OP;
	if (!(be32toh(w->av->dqp_dct) & WQE_AV_EXTENDED)) {
		*pos += WQE_UNIT;
		return SYN_NONE;
	}
	if (*pos + sizeof(struct wqe_av) > have)
		return SYN_LOCAL_QP_OP;
	*pos += sizeof(struct wqe_av);
	return SYN_NONE;
}

enum syndrome wqe_decode(const struct qp *qp, struct wqe *w)
{
	uint32_t pos = sizeof(struct wqe_ctrl), access = 0;
	enum syndrome s = SYN_NONE;

	switch (w->opcode) {
	case OP_NOP:
		return SYN_NONE;
	case OP_SEND:
	case OP_SEND_IMM:
		if (qp->type == QPT_UD)
			s = decode_av(w, &pos);
		break;
	case OP_WRITE:
	case OP_WRITE_IMM:
		s = decode_raddr(qp, w, &pos);
		break;
	case OP_READ:
	case OP_ATOMIC_CS:
	case OP_ATOMIC_FA:
		access = IB_UVERBS_ACCESS_LOCAL_WRITE;
		s = qp->type == QPT_RC ? decode_raddr(qp, w, &pos) : SYN_LOCAL_QP_OP;
		if (!s && w->opcode != OP_READ)
			s = decode_atomic(w, &pos);
		break;
	default:
		return SYN_LOCAL_QP_OP;
	}
	if (!s)
		s = decode_data(qp, w, pos, access);
	if (!s && w->opcode >= OP_ATOMIC_CS && w->length != sizeof(uint64_t))
		s = SYN_LOCAL_LENGTH;
	return s;
}
