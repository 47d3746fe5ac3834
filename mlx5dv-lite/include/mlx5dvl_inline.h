/* SPDX-License-Identifier: MIT */
/*
 * The hot path of mlx5dv-lite. Include mlx5dvl.h, which documents the public functions. Names that
 * end in an underscore, and the members of the structs here, are private to the library.
 */
#ifndef MLX5DVL_INLINE_H
#define MLX5DVL_INLINE_H

#ifndef MLX5DVL_H
#error "include mlx5dvl.h"
#endif

#include <errno.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Conversion to and from big endian. Under strict C11 <endian.h> defines no such macros. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MLX5DVL_BE16_(x) __builtin_bswap16(x)
#define MLX5DVL_BE32_(x) __builtin_bswap32(x)
#define MLX5DVL_BE64_(x) __builtin_bswap64(x)
#define MLX5DVL_BE64_HIGH_(x) ((uint64_t)__builtin_bswap32(x))
#define MLX5DVL_LE32_(x) ((uint32_t)(x))
#else
#define MLX5DVL_BE16_(x) ((uint16_t)(x))
#define MLX5DVL_BE32_(x) ((uint32_t)(x))
#define MLX5DVL_BE64_(x) ((uint64_t)(x))
#define MLX5DVL_LE32_(x) __builtin_bswap32(x)
#define MLX5DVL_BE64_HIGH_(x) ((uint64_t)(x) << 32) /* x in the upper half, 0 in the lower */
#endif

#define MLX5DVL_INLINE_ static inline __attribute__((always_inline))
#define MLX5DVL_LIKELY_(x) __builtin_expect(!!(x), 1)
#define MLX5DVL_UNLIKELY_(x) __builtin_expect(!!(x), 0)

enum {
	/* Payloads up to this length are copied as a whole into the request. It then fills at most
	 * four blocks of 64 bytes: 16 (control) + 16 (raddr) + 4 (header) + 220. */
	MLX5DVL_INLINE_MAX = 220,
	/* If a payload is longer, this number of its bytes is copied into the request; a data
	 * segment of 16 bytes describes the rest. */
	MLX5DVL_INLINE_HEAD = 204,
	MLX5DVL_BLOCK_ = 64,
	MLX5DVL_QPN_LEAF_ = 1 << 12,
};

/* Word types for access to queue memory, which has entries of several types. */
typedef uint64_t __attribute__((may_alias)) mlx5dvl_word_;
typedef uint32_t __attribute__((may_alias)) mlx5dvl_half_;

/* ---- device barriers, one function per use --------------------------------------- */

/*
 * The instructions of three barriers: between stores to memory; before and after a doorbell, whose
 * register is write-combining memory; and after loads from memory. On x86, stores to memory stay in
 * order, and so do loads; a store does not pass an earlier load.
 */
#if defined(__x86_64__)
#define MLX5DVL_STORES_ ""
#define MLX5DVL_DOORBELL_ "sfence"
#define MLX5DVL_LOADS_ ""
#elif defined(__aarch64__)
#define MLX5DVL_STORES_ "dmb oshst"
#define MLX5DVL_DOORBELL_ "dsb st"
#define MLX5DVL_LOADS_ "dmb oshld"
#else
#error "no device barriers for this architecture"
#endif

/* Orders stores to queue entries before the doorbell record that announces them. */
MLX5DVL_INLINE_ void mlx5dvl_entries_before_record_(void)
{
	__asm__ volatile(MLX5DVL_STORES_ ::: "memory");
}

/* Orders the doorbell record before the doorbell. */
MLX5DVL_INLINE_ void mlx5dvl_record_before_doorbell_(void)
{
	__asm__ volatile(MLX5DVL_DOORBELL_ ::: "memory");
}

/* Flushes the doorbell from the CPU's write-combining buffers, before the next doorbell. */
MLX5DVL_INLINE_ void mlx5dvl_doorbell_flush_(void)
{
	__asm__ volatile(MLX5DVL_DOORBELL_ ::: "memory");
}

/* Orders the load of a CQE's owner bit before loads of its other fields and of its data. */
MLX5DVL_INLINE_ void mlx5dvl_owner_before_entry_(void)
{
	__asm__ volatile(MLX5DVL_LOADS_ ::: "memory");
}

/* Orders all loads of CQEs before the doorbell record that lets the device reuse them. */
MLX5DVL_INLINE_ void mlx5dvl_entries_before_release_(void)
{
	__asm__ volatile(MLX5DVL_LOADS_ ::: "memory");
}

/* Stores 8 bytes to a doorbell register, in one store. */
MLX5DVL_INLINE_ void mlx5dvl_doorbell_store_(void *reg, uint64_t word)
{
	*(volatile mlx5dvl_word_ *)reg = word;
}

/* Copies one 64-byte block to a BlueFlame buffer, in stores that combine into one write. */
MLX5DVL_INLINE_ void mlx5dvl_blueflame_copy_(void *reg, const void *block)
{
#if defined(__aarch64__)
	__asm__ volatile("ld1 {v0.16b, v1.16b, v2.16b, v3.16b}, [%1]\n\t"
			 "st1 {v0.16b, v1.16b, v2.16b, v3.16b}, [%0]"
			 :
			 : "r"(reg), "r"(block)
			 : "v0", "v1", "v2", "v3", "memory");
#else
	volatile mlx5dvl_word_ *to = (volatile mlx5dvl_word_ *)reg;
	const mlx5dvl_word_ *from = (const mlx5dvl_word_ *)block;

	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
	to[4] = from[4];
	to[5] = from[5];
	to[6] = from[6];
	to[7] = from[7];
#endif
}

/* ---- objects --------------------------------------------------------------------- */

/*
 * A BlueFlame register. It has two buffers that are used alternately, so that a write does
 * not combine with the previous one. QPs of a context share registers, so the state is here
 * and not in the QP.
 */
struct mlx5dvl_bf {
	uint8_t *reg;
	uint32_t size; /* of one buffer, bytes; 0: only doorbells of 8 bytes */
	uint32_t offset; /* of the buffer to use next: 0 or size */
};

struct mlx5dvl_request_ {
	uint8_t blocks, flags, opcode, rsvd;
};

/* The library's record of a request, in the slot of its first block. */
struct mlx5dvl_slot {
	uint64_t token;
	union {
		struct mlx5dvl_request_ request;
		uint32_t all; /* the same bytes, for a single store */
	};
};

/*
 * A send queue. Its positions count blocks, modulo 2^32. The invariant is
 *
 *	ci <= rung <= pi	blocks before ci have completed, those before rung are announced to
 *				the device, and those before pi are posted
 *	pi - ci <= depth	the ring does not overflow
 *	last < pi <= last + 4	`last` is the position of the newest request. Exception: before the
 *				first request, last == pi
 *	pi <= stop		requests that end at or before stop need no NOPs and no check of ci
 *	0 <= left <= interval	a request is signaled when left would become negative
 *
 * (in 32-bit arithmetic). mlx5dvl_sq_commit_() moves pi, last and left, mlx5dvl_ring() moves rung,
 * and completions move ci. In debug builds sq_open() and mlx5dvl_sq_update() check the invariant.
 *
 * States: not connected (status -ENOTCONN, limit 0), open (status 0, limit == depth) and stopped
 * (status is the error, limit 0). sq_init(), sq_open() and sq_stop() are the only transitions.
 * Unless the queue is open, limit is 0 and stop is pi. So a post checks with one comparison that
 * the queue is open and that the request fits. stop may be lower than possible: mlx5dvl_sq_update()
 * raises it when a request does not fit.
 */
struct mlx5dvl_qp {
	uint8_t *sq;
	struct mlx5dvl_slot *slots; /* one per block of sq */
	uint32_t depth, mask; /* in blocks, a power of two; depth - 1 */
	uint32_t limit; /* depth if open, else 0 */
	uint32_t pi, ci; /* blocks posted, blocks known to have completed */
	uint32_t rung; /* pi at the last doorbell */
	uint32_t last; /* position of the newest request */
	uint32_t stop; /* min(end of the ring, ci + limit), when last computed */
	int32_t left; /* blocks that can be posted before the library itself signals a request */
	int32_t interval; /* `left` after a signaled request */
	uint64_t doorbell; /* first 8 bytes of the newest request, in memory order */
	uint64_t fillers; /* NOPs posted to fill the end of the ring */
	uint32_t *record; /* doorbell record of the send queue */
	void *reg; /* register for doorbells of 8 bytes; NULL: see bf */
	struct mlx5dvl_bf *bf;
	uint64_t qpn_high; /* qpn << 8, as in a control segment */
	uint64_t write_imm_high; /* the same, plus the opcode WRITE_IMM, the most frequent opcode */
	uint32_t qpn;
	int status; /* mlx5dvl_qp_status() returns it */
	void *user;
};

/* Maps a QPN to its QP in two loads. Leaves are never NULL: all empty entries point to the same
 * leaf. */
struct mlx5dvl_qp_leaf {
	struct mlx5dvl_qp *qp[MLX5DVL_QPN_LEAF_];
	uint32_t used; /* entries of qp that are not NULL */
};
struct mlx5dvl_qp_table {
	struct mlx5dvl_qp_leaf *leaf[(1 << 24) / MLX5DVL_QPN_LEAF_];
};

struct mlx5dvl_srq {
	uint8_t *wqes;
	uint32_t *record;
	uint32_t shift; /* log2 of the bytes from one WQE to the next */
	uint32_t depth; /* number of receives */
	uint32_t posted; /* receives posted to the device */
	uint32_t enough; /* two thirds of depth: if fewer are posted, a refill posts all */
	uint16_t count; /* receives posted since creation, modulo 2^16 */
	uint16_t tail; /* last entry of the list that the device follows */
	uint8_t *buf; /* memory of receive 0; NULL: receives have no memory */
	uint32_t buf_size; /* bytes from one receive's memory to the next; 0: all share one */
};

/* A completion as the device writes it. In a 128-byte CQE this is the second half. */
struct mlx5dvl_cqe {
	uint8_t rsvd0[28];
	uint8_t rsvd28[4];
	uint32_t uidx;
	uint32_t imm;
	uint8_t app[4];
	uint32_t byte_cnt;
	uint64_t timestamp;
	uint32_t sop_qpn; /* low 24 bits: the QP's own number; high 8 bits, in the CQE of a
			     requester: opcode of the request */
	uint16_t wqe_counter;
	uint8_t signature;
	uint8_t op_own;
} __attribute__((may_alias));

enum {
	MLX5DVL_CQE_OWNER_ = 0x01,
	MLX5DVL_CQE_FORMAT_ = 0x0c, /* both bits: compressed */
	/*
	 * If op_own is not less than this, its high four bits are 0xd (error of a request), 0xe
	 * (error of a receive) or 0xf (the device has not written the CQE yet).
	 */
	MLX5DVL_CQE_ODD_ = 0xd0,
};

struct mlx5dvl_cq {
	uint8_t *cqes; /* address of the 64 bytes of CQE 0 */
	uint32_t *record;
	uint32_t stride; /* size of a CQE */
	uint32_t depth; /* a power of two */
	uint32_t ci; /* completions consumed, modulo 2^32 */
	/*
	 * op_own of a new CQE of the usual kind in this lap. The usual kind is success in a send
	 * CQ, and MLX5DVL_RECV_WRITE_IMM in a receive CQ.
	 */
	uint32_t usual;
	uint8_t *next; /* the CQE of completion ci, that is CQE ci % depth */
	uint8_t *end; /* end of the last CQE */
	struct mlx5dvl_srq *srq; /* NULL: a send CQ */
	struct mlx5dvl_qp_table *table;
};

/* Slow paths, out of line. */
#pragma GCC visibility push(default)
struct mlx5dvl_cqe *mlx5dvl_cq_odd_(struct mlx5dvl_cq *cq, uint32_t ci, struct mlx5dvl_cqe *cqe);
int mlx5dvl_sq_wrap_(struct mlx5dvl_qp *qp, uint32_t blocks);
uint32_t mlx5dvl_srq_post_(struct mlx5dvl_srq *srq);
#pragma GCC visibility pop

/* ---- completions ----------------------------------------------------------------- */

MLX5DVL_INLINE_ struct mlx5dvl_cqe *mlx5dvl_cqe_at_(const struct mlx5dvl_cq *cq, uint32_t ci)
{
	size_t at = (size_t)(ci & (cq->depth - 1)) * cq->stride;

	return (struct mlx5dvl_cqe *)(void *)(cq->cqes + at);
}

/* Returns op_own of the next CQE, XOR that of a new CQE of the usual kind. So one comparison with 0
 * recognises a new CQE of the usual kind. */
MLX5DVL_INLINE_ uint32_t mlx5dvl_cq_look_(const struct mlx5dvl_cq *cq)
{
	const struct mlx5dvl_cqe *cqe = (const struct mlx5dvl_cqe *)(const void *)cq->next;

	return __atomic_load_n(&cqe->op_own, __ATOMIC_RELAXED) ^ cq->usual;
}

/*
 * Returns the next CQE, which is not of the usual kind, or NULL if the device has not written it
 * yet. mlx5dvl_cq_odd_() handles errors and compressed completions: if the CQE is an error, the
 * function reports it and sets the CQE's QPN to 0, so that the caller ignores the CQE; if the CQE
 * begins a compressed run, the function expands the run in place.
 */
MLX5DVL_INLINE_ struct mlx5dvl_cqe *mlx5dvl_cq_unusual_(struct mlx5dvl_cq *cq)
{
	struct mlx5dvl_cqe *cqe = (struct mlx5dvl_cqe *)(void *)cq->next;

	if (MLX5DVL_UNLIKELY_(cqe->op_own >= MLX5DVL_CQE_ODD_ ||
			      (cqe->op_own & MLX5DVL_CQE_FORMAT_) == MLX5DVL_CQE_FORMAT_))
		return mlx5dvl_cq_odd_(cq, cq->ci, cqe);
	return cqe;
}

/* Advances to the next CQE. */
MLX5DVL_INLINE_ void mlx5dvl_cq_advance_(struct mlx5dvl_cq *cq)
{
	cq->ci++;
	cq->next += cq->stride;
	if (MLX5DVL_UNLIKELY_(cq->next == cq->end)) {
		cq->next = cq->cqes;
		cq->usual ^= MLX5DVL_CQE_OWNER_;
	}
	__builtin_prefetch(cq->next);
}

MLX5DVL_INLINE bool mlx5dvl_cq_ready(const struct mlx5dvl_cq *cq)
{
	/* Reads only the owner bit: pairs with the device, which writes op_own last. */
	return !(mlx5dvl_cq_look_(cq) & MLX5DVL_CQE_OWNER_);
}

MLX5DVL_INLINE uint32_t mlx5dvl_cq_count(const struct mlx5dvl_cq *cq)
{
	return cq->ci;
}

MLX5DVL_INLINE_ struct mlx5dvl_qp *mlx5dvl_cqe_qp_(const struct mlx5dvl_cq *cq,
	const struct mlx5dvl_cqe *cqe)
{
	uint32_t qpn = MLX5DVL_BE32_(cqe->sop_qpn) & 0xffffff;

	return cq->table->leaf[qpn / MLX5DVL_QPN_LEAF_]->qp[qpn % MLX5DVL_QPN_LEAF_];
}

MLX5DVL_INLINE void mlx5dvl_cq_release(struct mlx5dvl_cq *cq)
{
	mlx5dvl_entries_before_release_();
	__atomic_store_n(cq->record, MLX5DVL_BE32_(cq->ci & 0xffffff), __ATOMIC_RELAXED);
}

/* Appends a consumed receive to the list. The device does not use the receive before it is posted
 * again. */
MLX5DVL_INLINE_ void mlx5dvl_srq_put_(struct mlx5dvl_srq *srq, uint16_t big_endian)
{
	uint16_t *next = (uint16_t *)(void *)(srq->wqes + ((size_t)srq->tail << srq->shift) + 2);

	*next = big_endian;
	srq->tail = MLX5DVL_BE16_(big_endian);
	srq->posted--;
}

/* Consumes @cqe, the next CQE of a receive CQ. */
MLX5DVL_INLINE_ void mlx5dvl_mono_take_(struct mlx5dvl_cq *cq, const struct mlx5dvl_cqe *cqe,
	uint8_t opcode, mlx5dvl_recv_fn *fn, void *arg)
{
	struct mlx5dvl_srq *srq = cq->srq;
	struct mlx5dvl_qp *qp = mlx5dvl_cqe_qp_(cq, cqe);
	uint16_t i = cqe->wqe_counter;

	mlx5dvl_cq_advance_(cq);
	/* Called before the handler, so that the compiler need not save `i` while the handler runs.
	 * The device uses the receive and its memory only after a refill. */
	mlx5dvl_srq_put_(srq, i);
	if (MLX5DVL_LIKELY_(qp != NULL)) {
		struct mlx5dvl_recv recv = {
			MLX5DVL_BE32_(cqe->imm),
			MLX5DVL_BE32_(cqe->byte_cnt),
			opcode,
			srq->buf ? srq->buf + (size_t)MLX5DVL_BE16_(i) * srq->buf_size : NULL,
		};
		fn(arg, qp, &recv);
	}
}

/* The opcode is a constant, so that an inlined handler needs no test of it. */
MLX5DVL_INLINE bool mlx5dvl_mono_take_write(struct mlx5dvl_cq *cq, mlx5dvl_recv_fn *fn, void *arg)
{
	struct mlx5dvl_cqe *cqe = (struct mlx5dvl_cqe *)(void *)cq->next;

	if (MLX5DVL_UNLIKELY_(mlx5dvl_cq_look_(cq)))
		return false;
	mlx5dvl_owner_before_entry_(); /* pairs with the device, which writes op_own last */
	mlx5dvl_mono_take_(cq, cqe, MLX5DVL_RECV_WRITE_IMM, fn, arg);
	return true;
}

MLX5DVL_INLINE_ bool mlx5dvl_mono_next_(struct mlx5dvl_cq *cq, mlx5dvl_recv_fn *fn, void *arg)
{
	struct mlx5dvl_cqe *cqe;

	if (MLX5DVL_LIKELY_(mlx5dvl_mono_take_write(cq, fn, arg)))
		return true;
	if (!mlx5dvl_cq_ready(cq))
		return false;
	mlx5dvl_owner_before_entry_(); /* pairs with the device, which writes op_own last */
	cqe = mlx5dvl_cq_unusual_(cq);
	if (cqe)
		mlx5dvl_mono_take_(cq, cqe, cqe->op_own >> 4, fn, arg);
	return cqe;
}

MLX5DVL_INLINE int mlx5dvl_mono_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_recv_fn *fn, void *arg)
{
	int n;

	for (n = 0; n < max; n++)
		if (!mlx5dvl_mono_next_(cq, fn, arg))
			break;
	if (n)
		mlx5dvl_cq_release(cq);
	return n;
}

MLX5DVL_INLINE int mlx5dvl_send_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_sent_fn *fn, void *arg)
{
	int n;

	for (n = 0; n < max; n++) {
		struct mlx5dvl_cqe *cqe = (struct mlx5dvl_cqe *)(void *)cq->next;
		uint32_t look = mlx5dvl_cq_look_(cq);
		struct mlx5dvl_qp *qp;

		if (look & MLX5DVL_CQE_OWNER_)
			break;
		mlx5dvl_owner_before_entry_(); /* pairs with the device: it writes op_own last */
		if (MLX5DVL_UNLIKELY_(look)) {
			cqe = mlx5dvl_cq_unusual_(cq);
			if (!cqe)
				break;
		}
		qp = mlx5dvl_cqe_qp_(cq, cqe);
		mlx5dvl_cq_advance_(cq);
		if (MLX5DVL_UNLIKELY_(!qp))
			continue;
		uint16_t i = MLX5DVL_BE16_(cqe->wqe_counter);
		const struct mlx5dvl_slot *slot = &qp->slots[i & (qp->depth - 1)];
		struct mlx5dvl_sent sent = {slot->token, slot->request.opcode,
			MLX5DVL_BE64_(cqe->timestamp)};

		qp->ci += (uint16_t)(i + slot->request.blocks - qp->ci);
		if (slot->request.flags & MLX5DVL_SIGNALED)
			fn(arg, qp, &sent);
	}
	if (n)
		mlx5dvl_cq_release(cq);
	return n;
}

/* `enough` is two thirds of the depth, so that one update of the record posts many receives. */
MLX5DVL_INLINE bool mlx5dvl_srq_due(const struct mlx5dvl_srq *srq)
{
	return MLX5DVL_UNLIKELY_(srq->posted < srq->enough);
}

MLX5DVL_INLINE uint32_t mlx5dvl_srq_refill(struct mlx5dvl_srq *srq)
{
	return mlx5dvl_srq_due(srq) ? mlx5dvl_srq_post_(srq) : 0;
}

MLX5DVL_INLINE uint32_t mlx5dvl_srq_posted(const struct mlx5dvl_srq *srq)
{
	return srq->posted;
}

/* ---- requests -------------------------------------------------------------------- */

MLX5DVL_INLINE void *mlx5dvl_qp_user(const struct mlx5dvl_qp *qp)
{
	return qp->user;
}

MLX5DVL_INLINE uint32_t mlx5dvl_qp_qpn(const struct mlx5dvl_qp *qp)
{
	return qp->qpn;
}

/* The largest request has four blocks, and up to three blocks at the ring's end may stay unused. */
MLX5DVL_INLINE uint32_t mlx5dvl_sq_room(const struct mlx5dvl_qp *qp)
{
	uint32_t used = qp->pi - qp->ci;

	return qp->limit > used + 3 ? (qp->limit - used - 3) / 4 : 0;
}

MLX5DVL_INLINE bool mlx5dvl_sq_full(const struct mlx5dvl_qp *qp)
{
	return qp->pi - qp->ci + 7 > qp->limit;
}

MLX5DVL_INLINE uint64_t mlx5dvl_sq_fillers(const struct mlx5dvl_qp *qp)
{
	return qp->fillers;
}

/* The parameters of a request, for all opcodes. */
struct mlx5dvl_op_ {
	uint8_t opcode;
	uint32_t imm;
	uint32_t len;
	const void *laddr;
	uint32_t lkey;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t operand[2]; /* for atomics: add, or swap and compare */
};

MLX5DVL_INLINE_ bool mlx5dvl_op_remote_(uint8_t opcode)
{
	return opcode == MLX5DVL_WRITE || opcode == MLX5DVL_WRITE_IMM || opcode == MLX5DVL_READ;
}

MLX5DVL_INLINE_ bool mlx5dvl_op_atomic_(uint8_t opcode)
{
	return opcode == MLX5DVL_CMP_SWAP || opcode == MLX5DVL_FETCH_ADD;
}

/* Returns the number of payload bytes that are copied into the request. */
MLX5DVL_INLINE_ uint32_t mlx5dvl_op_inline_(const struct mlx5dvl_op_ *op, unsigned flags)
{
	if (op->opcode == MLX5DVL_READ || mlx5dvl_op_atomic_(op->opcode) ||
		(flags & MLX5DVL_BY_REF))
		return 0;
	if (op->len > MLX5DVL_INLINE_MAX)
		return MLX5DVL_INLINE_HEAD;
	return op->len;
}

/* Returns the length of the request in units of 16 bytes. A data segment of length 0 is never
 * written, because the device may refuse it. */
MLX5DVL_INLINE_ uint32_t mlx5dvl_op_ds_(const struct mlx5dvl_op_ *op, uint32_t inl)
{
	uint32_t bytes = 16;

	if (mlx5dvl_op_remote_(op->opcode))
		bytes += 16;
	else if (mlx5dvl_op_atomic_(op->opcode))
		bytes += 32;
	if (op->len > inl)
		bytes += 16;
	if (inl)
		bytes += 4 + inl + 15;
	return bytes / 16;
}

/* Writes all segments except the control segment, starting at @seg. */
MLX5DVL_INLINE_ void mlx5dvl_op_write_(mlx5dvl_word_ *seg, const struct mlx5dvl_op_ *op,
	uint32_t inl)
{
	if (mlx5dvl_op_remote_(op->opcode) || mlx5dvl_op_atomic_(op->opcode)) {
		*seg++ = MLX5DVL_BE64_(op->raddr);
		*seg++ = MLX5DVL_BE64_HIGH_(op->rkey);
	}
	if (mlx5dvl_op_atomic_(op->opcode)) {
		*seg++ = MLX5DVL_BE64_(op->operand[0]);
		*seg++ = MLX5DVL_BE64_(op->operand[1]);
	}
	if (inl) {
		*(mlx5dvl_half_ *)seg = MLX5DVL_BE32_(0x80000000u | inl);
		memcpy((uint8_t *)seg + 4, op->laddr, inl);
		seg += (4 + inl + 15) / 16 * 2;
	}
	if (op->len > inl) {
		*seg++ = MLX5DVL_BE64_((uint64_t)(op->len - inl) << 32 | op->lkey);
		*seg++ = MLX5DVL_BE64_((uint64_t)(uintptr_t)op->laddr + inl);
	}
}

/* The next request in the send queue. */
struct mlx5dvl_place_ {
	mlx5dvl_word_ *ctrl; /* its control segment */
	uint32_t pi, i; /* its position, and its index in the ring */
};

MLX5DVL_INLINE_ struct mlx5dvl_place_ mlx5dvl_sq_place_(const struct mlx5dvl_qp *qp)
{
	const uint32_t pi = qp->pi, i = pi & qp->mask;
	uint8_t *block = qp->sq + (size_t)i * MLX5DVL_BLOCK_;
	const struct mlx5dvl_place_ at = {(mlx5dvl_word_ *)(void *)block, pi, i};

	return at;
}

/*
 * Writes the control segment and the library's own record of the request at @at. The caller must
 * have checked that there is room. The members that mlx5dvl_ring() reads are updated last: the
 * compiler must assume that queue memory aliases any object, so after a later store to queue memory
 * mlx5dvl_ring() would load the members again.
 */
MLX5DVL_INLINE_ void mlx5dvl_sq_commit_(struct mlx5dvl_qp *qp, struct mlx5dvl_place_ at,
	uint32_t ds, uint8_t opcode, uint32_t imm, unsigned flags, uint64_t token)
{
	const uint32_t blocks = (ds + 3) / 4;
	struct mlx5dvl_slot *slot = &qp->slots[at.i];
	uint64_t high = opcode == MLX5DVL_WRITE_IMM ? qp->write_imm_high :
						      (uint64_t)opcode << 32 | qp->qpn_high;
	uint64_t first = MLX5DVL_BE64_((uint64_t)(uint16_t)at.pi << 40 | high | ds);
	uint8_t fm_ce_se = (uint8_t)((flags & MLX5DVL_SIGNALED ? 0x08 : 0) |
				     (flags & MLX5DVL_SOLICITED ? 0x02 : 0) |
				     (flags & MLX5DVL_FENCE ? 0x80 : 0));

	at.ctrl[0] = first;
	at.ctrl[1] = MLX5DVL_BE64_((uint64_t)fm_ce_se << 32 | imm);
	qp->left -= (int32_t)blocks;
	if ((flags & MLX5DVL_SIGNALED) || MLX5DVL_UNLIKELY_(qp->left < 0)) {
		((uint8_t *)at.ctrl)[11] = fm_ce_se | 0x08;
		qp->left = qp->interval;
	}
	slot->token = token;
	slot->all = MLX5DVL_LE32_(blocks | (uint32_t)(uint8_t)flags << 8 | (uint32_t)opcode << 16);
	qp->last = at.pi;
	qp->pi = at.pi + blocks;
	qp->doorbell = first;
}

/* Returns true if a request of @blocks blocks is known to fit without NOPs before it. */
MLX5DVL_INLINE_ bool mlx5dvl_sq_takes_(const struct mlx5dvl_qp *qp, uint32_t blocks)
{
	return MLX5DVL_LIKELY_(qp->stop - qp->pi >= blocks);
}

MLX5DVL_INLINE bool mlx5dvl_sq_fits(const struct mlx5dvl_qp *qp, uint32_t len)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_WRITE, 0, len, NULL, 0, 0, 0, {0, 0}};

	return mlx5dvl_sq_takes_(qp, (mlx5dvl_op_ds_(&op, mlx5dvl_op_inline_(&op, 0)) + 3) / 4);
}

MLX5DVL_INLINE_ int mlx5dvl_post_(struct mlx5dvl_qp *qp, const struct mlx5dvl_op_ *op,
	unsigned flags, uint64_t token)
{
	uint32_t inl = mlx5dvl_op_inline_(op, flags);
	uint32_t ds = mlx5dvl_op_ds_(op, inl);
	uint32_t blocks = (ds + 3) / 4;
	struct mlx5dvl_place_ at;

	if (MLX5DVL_UNLIKELY_(!mlx5dvl_sq_takes_(qp, blocks))) {
		int err = mlx5dvl_sq_wrap_(qp, blocks);

		if (err)
			return err;
	}
	at = mlx5dvl_sq_place_(qp);
	mlx5dvl_op_write_(at.ctrl + 2, op, inl);
	mlx5dvl_sq_commit_(qp, at, ds, op->opcode, op->imm, flags, token);
	return 0;
}

MLX5DVL_INLINE int mlx5dvl_post_write(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_WRITE, 0, len, laddr, lkey, raddr, rkey, {0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_write_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, uint32_t imm, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_WRITE_IMM, imm, len, laddr, lkey, raddr, rkey,
		{0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE uint64_t mlx5dvl_rkey_word(uint32_t rkey)
{
	return MLX5DVL_BE64_HIGH_(rkey);
}

MLX5DVL_INLINE void *mlx5dvl_sq_here(const struct mlx5dvl_qp *qp)
{
	return (uint8_t *)(mlx5dvl_sq_place_(qp).ctrl + 4) + 4;
}

MLX5DVL_INLINE void mlx5dvl_post_write_imm_here(struct mlx5dvl_qp *qp, void *here, uint32_t len,
	uint64_t raddr, uint64_t rkey_word, uint32_t imm, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_WRITE_IMM, imm, len, NULL, 0, raddr, 0, {0, 0}};
	struct mlx5dvl_place_ at = {(mlx5dvl_word_ *)(void *)((uint8_t *)here - 36), qp->pi,
		qp->pi & qp->mask};

	at.ctrl[2] = MLX5DVL_BE64_(raddr);
	at.ctrl[3] = rkey_word;
	*(mlx5dvl_half_ *)(at.ctrl + 4) = MLX5DVL_BE32_(0x80000000u | len);
	mlx5dvl_sq_commit_(qp, at, mlx5dvl_op_ds_(&op, len), op.opcode, imm, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_read(struct mlx5dvl_qp *qp, void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_READ, 0, len, laddr, lkey, raddr, rkey, {0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_send(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_SEND, 0, len, laddr, lkey, 0, 0, {0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_send_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint32_t imm, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_SEND_IMM, imm, len, laddr, lkey, 0, 0, {0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_nop(struct mlx5dvl_qp *qp, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_NOP, 0, 0, NULL, 0, 0, 0, {0, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_fetch_add(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t add, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_FETCH_ADD, 0, 8, laddr, lkey, raddr, rkey, {add, 0}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

MLX5DVL_INLINE int mlx5dvl_post_cmp_swap(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t compare, uint64_t swap, unsigned flags,
	uint64_t token)
{
	const struct mlx5dvl_op_ op = {MLX5DVL_CMP_SWAP, 0, 8, laddr, lkey, raddr, rkey,
		{swap, compare}};

	return mlx5dvl_post_(qp, &op, flags, token);
}

/* Copies the only new request, which is contiguous in the ring, to a BlueFlame buffer. */
MLX5DVL_INLINE_ void mlx5dvl_blueflame_(struct mlx5dvl_qp *qp, uint8_t *reg, uint32_t bytes)
{
	const uint8_t *wqe = qp->sq + (size_t)(qp->last & (qp->depth - 1)) * MLX5DVL_BLOCK_;

	for (uint32_t i = 0; i < bytes; i += MLX5DVL_BLOCK_)
		mlx5dvl_blueflame_copy_(reg + i, wqe + i);
}

/* Rings the doorbell of a register with BlueFlame buffers. */
MLX5DVL_INLINE_ void mlx5dvl_ring_bf_(struct mlx5dvl_qp *qp, uint64_t doorbell)
{
	struct mlx5dvl_bf *bf = qp->bf;
	const uint32_t bytes = (qp->pi - qp->rung) * MLX5DVL_BLOCK_;
	uint8_t *reg = bf->reg + bf->offset;

	bf->offset ^= bf->size;
	if (qp->last == qp->rung && bytes <= bf->size)
		mlx5dvl_blueflame_(qp, reg, bytes);
	else
		mlx5dvl_doorbell_store_(reg, doorbell);
}

MLX5DVL_INLINE void mlx5dvl_ring_new(struct mlx5dvl_qp *qp)
{
	const uint32_t pi = qp->pi;
	const uint64_t doorbell = qp->doorbell;
	void *reg = qp->reg;

	mlx5dvl_entries_before_record_();
	__atomic_store_n(qp->record, MLX5DVL_BE32_(pi & 0xffff), __ATOMIC_RELAXED);
	mlx5dvl_record_before_doorbell_();
	if (reg)
		mlx5dvl_doorbell_store_(reg, doorbell);
	else
		mlx5dvl_ring_bf_(qp, doorbell);
	qp->rung = pi;
	mlx5dvl_doorbell_flush_();
}

MLX5DVL_INLINE void mlx5dvl_ring(struct mlx5dvl_qp *qp)
{
	if (qp->pi != qp->rung)
		mlx5dvl_ring_new(qp);
}

#ifdef __cplusplus
}
#endif

#endif
