/* SPDX-License-Identifier: MIT */
/* Completion queues: errors, compressed completions, completions of destroyed QPs. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "internal.h"

enum {
	CQE_REQUESTER = 0x0,
	CQE_REQUESTER_ERROR = 0xd,
	CQE_RESPONDER_ERROR = 0xe,
	CQE_INVALID = 0xf,
	MINI_PER_ARRAY = 8,
};

/* The fields in which the completions of a compressed run differ. */
struct mini_cqe {
	uint16_t wqe_counter; /* only in completions of requests */
	uint8_t wqe_opcode; /* only in completions of requests */
	uint8_t rsvd;
	uint32_t byte_cnt;
};

void cq_seek(struct mlx5dvl_cq *cq, uint32_t ci)
{
	cq->ci = ci;
	cq->next = (uint8_t *)mlx5dvl_cqe_at_(cq, ci);
	cq->usual = (cq->srq ? MLX5DVL_RECV_WRITE_IMM << 4 : CQE_REQUESTER << 4) |
		    (ci & cq->depth ? MLX5DVL_CQE_OWNER_ : 0);
}

void cq_init(struct mlx5dvl_cq *cq, void *buf, uint32_t depth, uint32_t size, uint32_t *record,
	struct mlx5dvl_srq *srq, struct core *core)
{
	cq->cqes = (uint8_t *)buf + (size - sizeof(struct mlx5dvl_cqe));
	cq->record = record;
	cq->end = cq->cqes + (size_t)depth * size;
	cq->stride = size;
	cq->depth = depth;
	cq->srq = srq;
	cq_seek(cq, 0);
	cq->table = &core->table;
	/* This owner bit is not that of the first lap, so a poll finds no completion. */
	for (uint32_t i = 0; i < depth; i++)
		mlx5dvl_cqe_at_(cq, i)->op_own = CQE_INVALID << 4 | MLX5DVL_CQE_OWNER_;
}

/* The syndromes of error CQEs, with the errors that are reported for them. */
static const struct syndrome {
	int err;
	const char *text;
} syndromes[] = {
	[0x01] = {-EMSGSIZE, "wrong length"},
	[0x02] = {-EIO, "wrong request"},
	[0x04] = {-EFAULT, "no access to local memory"},
	[0x05] = {-ECANCELED, "flushed after another error"},
	[0x06] = {-EIO, "memory window"},
	[0x10] = {-EIO, "wrong response"},
	[0x11] = {-EFAULT, "wrong access to local memory"},
	[0x12] = {-EREMOTEIO, "the peer refused the request"},
	[0x13] = {-EACCES, "no access to the peer's memory"},
	[0x14] = {-EREMOTEIO, "the peer failed"},
	[0x15] = {-ETIMEDOUT, "no answer"},
	[0x16] = {-ENOBUFS, "the peer has no receive"},
	[0x22] = {-EREMOTEIO, "the peer aborted"},
};

static struct syndrome syndrome_of(uint8_t syndrome)
{
	if (syndrome < ARRAY_SIZE(syndromes) && syndromes[syndrome].text)
		return syndromes[syndrome];
	return (struct syndrome){-EIO, "unknown"};
}

const char *mlx5dvl_syndrome_text(uint8_t syndrome)
{
	return syndrome_of(syndrome).text;
}

/* Reports an error CQE. It has the vendor syndrome and the syndrome in the bytes before the QPN. */
static void report(struct mlx5dvl_cq *cq, struct mlx5dvl_cqe *cqe)
{
	const uint8_t *raw = (const uint8_t *)cqe;
	struct core *core = (struct core *)(void *)cq->table;
	struct mlx5dvl_qp *qp = mlx5dvl_cqe_qp_(cq, cqe);
	struct mlx5dvl_error error = {
		.err = syndrome_of(raw[55]).err,
		.syndrome = raw[55],
		.vendor_syndrome = raw[54],
		.is_recv = cqe->op_own >> 4 == CQE_RESPONDER_ERROR,
	};

	cqe->sop_qpn = 0; /* the calling poll finds no QP and ignores the CQE */
	if (!qp)
		return;
	if (!error.is_recv) {
		uint16_t i = be16toh(cqe->wqe_counter);
		const struct mlx5dvl_slot *slot = &qp->slots[i & (qp->depth - 1)];

		error.token = slot->token;
		error.opcode = slot->request.opcode;
		qp->ci += (uint16_t)(i + slot->request.blocks - qp->ci);
	}
	sq_stop(qp, error.err);
	if (!core->on_error)
		return;
	core->reporting = cq;
	core->on_error(core->error_arg, qp, &error);
	core->reporting = NULL;
}

/*
 * Expands a compressed run in place. A run of n completions occupies n CQEs of the queue, but the
 * device has written only the title, which is the first CQE (byte_cnt is n), and arrays of eight
 * mini-CQEs. The first array is in the CQE after the title, each other array in the CQE of its
 * first completion. The result is the same as without compression, except that all completions have
 * the immediate and the time stamp of the title. An array is copied before its CQE is overwritten,
 * and it is never in a CQE that an earlier array's completions overwrite.
 */
static void unfold(struct mlx5dvl_cq *cq, uint32_t ci, const struct mlx5dvl_cqe *first)
{
	struct mini_cqe mini[MINI_PER_ARRAY];
	struct mlx5dvl_cqe title = *first;
	uint32_t n = be32toh(title.byte_cnt);
	uint16_t counter = be16toh(title.wqe_counter);
	bool requester = title.op_own >> 4 == CQE_REQUESTER;

	title.op_own &= (uint8_t) ~(MLX5DVL_CQE_FORMAT_ | MLX5DVL_CQE_OWNER_);
	for (uint32_t i = 0; i < n && i < cq->depth; i++) {
		const struct mini_cqe *m = &mini[i % MINI_PER_ARRAY];
		struct mlx5dvl_cqe *cqe = mlx5dvl_cqe_at_(cq, ci + i);

		if (i % MINI_PER_ARRAY == 0)
			memcpy(mini, mlx5dvl_cqe_at_(cq, ci + (i ? i : 1)), sizeof(mini));
		*cqe = title;
		cqe->byte_cnt = m->byte_cnt;
		cqe->wqe_counter = requester ? m->wqe_counter : htobe16((uint16_t)(counter + i));
		if (requester)
			cqe->sop_qpn = (title.sop_qpn & htobe32(0xffffff)) |
				       htobe32((uint32_t)m->wqe_opcode << 24);
		cqe->op_own |= !!((ci + i) & cq->depth);
	}
}

COLD struct mlx5dvl_cqe *mlx5dvl_cq_odd_(struct mlx5dvl_cq *cq, uint32_t ci,
	struct mlx5dvl_cqe *cqe)
{
	switch (cqe->op_own >> 4) {
	case CQE_INVALID:
		return NULL;
	case CQE_REQUESTER_ERROR:
	case CQE_RESPONDER_ERROR:
		report(cq, cqe);
		return cqe;
	default:
		unfold(cq, ci, cqe);
		return cqe;
	}
}

static bool is_compressed(uint8_t op_own)
{
	return op_own < MLX5DVL_CQE_ODD_ && (op_own & MLX5DVL_CQE_FORMAT_) == MLX5DVL_CQE_FORMAT_;
}

/*
 * Removes the invalidated completions of a send CQ, all of which are before @end, so that they take
 * no place of the CQ from the requests of other QPs: moves the other completions up, in order, and
 * consumes the places that become free. If a poll is reporting the error of the next completion,
 * the poll will consume this completion and release the places.
 */
static void compact(struct mlx5dvl_cq *cq, uint32_t end)
{
	bool polled = ((struct core *)(void *)cq->table)->reporting == cq;
	uint32_t to = end;

	for (uint32_t ci = end; ci-- != cq->ci;) {
		const struct mlx5dvl_cqe *cqe = mlx5dvl_cqe_at_(cq, ci);
		struct mlx5dvl_cqe *moved = mlx5dvl_cqe_at_(cq, to - 1);

		if (!(be32toh(cqe->sop_qpn) & 0xffffff) && !(polled && ci == cq->ci))
			continue;
		to--;
		*moved = *cqe;
		moved->op_own &= (uint8_t)~MLX5DVL_CQE_OWNER_;
		moved->op_own |= !!(to & cq->depth);
	}
	cq_seek(cq, to);
	if (!polled)
		mlx5dvl_cq_release(cq);
}

/*
 * A new QP may get the same number and must not receive the completions. In a receive CQ they stay,
 * because each returns a receive to the SRQ; the CQ has a place for each receive.
 */
void cq_forget_qp(struct mlx5dvl_cq *cq, uint32_t qpn)
{
	uint32_t ci;

	for (ci = cq->ci; ci != cq->ci + cq->depth; ci++) {
		struct mlx5dvl_cqe *cqe = mlx5dvl_cqe_at_(cq, ci);
		uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_RELAXED);

		if ((op_own & MLX5DVL_CQE_OWNER_) != !!(ci & cq->depth) ||
			op_own >> 4 == CQE_INVALID)
			break;
		mlx5dvl_owner_before_entry_(); /* pairs with the device, which writes op_own last */
		if (is_compressed(op_own))
			unfold(cq, ci, cqe);
		if ((be32toh(cqe->sop_qpn) & 0xffffff) == qpn)
			cqe->sop_qpn = 0;
	}
	if (!cq->srq)
		compact(cq, ci);
}
