/* SPDX-License-Identifier: MIT */
/*
 * Internal functions for queues in plain memory, for the table of QPs, and for BlueFlame registers.
 * They use neither libibverbs nor a context, so they can be tested, and cross-compiled, without a
 * device.
 *
 * The code depends on these facts about the device. All fields are big-endian.
 *
 * A request is a run of 16-byte segments, in blocks of 64 bytes: control {opcode and index, QPN and
 * length, signal/solicited/fence bits, immediate}, then a remote address for WRITE, READ and
 * atomics, operands for atomics, and an inline segment {0x80000000 | length, bytes} or a pointer
 * {length, lkey, address}. Payloads up to 28, 92, 156 and 220 bytes are inline, and the WRITE then
 * has 1, 2, 3 and 4 blocks; a longer payload has 204 bytes inline and a pointer to the rest. A
 * pointer of length 0 is never written. libmlx5 lets a request wrap around the ring's end. This
 * library fills the end with NOPs of one block, so a request is contiguous, and BlueFlame can copy
 * it directly.
 *
 * Slots are counted in blocks. A request is signaled if the caller sets MLX5DVL_SIGNALED, or if
 * SQ_SIGNAL_INTERVAL blocks (in a small queue, half of its blocks) were posted without a signaled
 * request. The completion of a signaled request frees all slots up to this request, so unsignaled
 * requests can never fill the queue. Each request's token is stored with its slot, because error
 * CQEs are also written for unsignaled requests.
 *
 * To ring the doorbell, software stores the queue's index to the doorbell record, then 8 bytes (the
 * head of the newest request) to a register. If there is only one new request and the device
 * supports BlueFlame, software stores the whole request to the register instead. A register has
 * two buffers that are used alternately. The QPs of a context share registers, so struct
 * mlx5dvl_bf, not the QP, stores which buffer is next.
 *
 * Bit 0 of a completion's last byte, which the device writes last, changes with each lap of the
 * ring. The CQ's consumer index is published before the SRQ's counter, so that a CQ that is only
 * as deep as its SRQ cannot overrun. A run of n compressed completions occupies n CQEs. In these,
 * the device has written a title (CQE 0) and arrays of eight 8-byte mini-CQEs (CQEs 1, 8, 16, ...).
 * The run is expanded in place. (This is the layout of a CQ that libmlx5 creates; the layout with
 * seven mini-CQEs per CQE exists for DEVX only.)
 *
 * The SRQ is a linked list that the device follows. Consumed receives are appended at its tail, in
 * the order of their completions. Receives are written once (as {0, lkey 0x100} if they have no
 * memory), so a refill only updates the counter.
 */
#ifndef MLX5DVL_INTERNAL_H
#define MLX5DVL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5dvl.h"

#define SQ_MIN_DEPTH 16
#define SQ_MAX_DEPTH 32768 /* half of the range of the device's 16-bit counter */
#define SQ_SIGNAL_INTERVAL 64
#define SRQ_DEFAULT_DEPTH 1024
#define SRQ_MAX_DEPTH 32767
#define CQ_MAX_DEPTH (1u << 22)
#define BF_REGISTERS 1024 /* libmlx5 allocates 16; environment variables can set up to 1,024 */

/* The data that all queues of a context share. */
struct core {
	struct mlx5dvl_qp_table table; /* must be first: cq->table is cast to struct core */
	struct mlx5dvl_qp_leaf empty;
	struct mlx5dvl_bf *bf[BF_REGISTERS];
	uint32_t bf_count;
	mlx5dvl_error_fn *on_error;
	void *error_arg;
	const struct mlx5dvl_cq *reporting; /* the CQ whose poll has called on_error, or NULL */
};

void core_init(struct core *core, mlx5dvl_error_fn *on_error, void *error_arg);
void core_fini(struct core *core);
/* Returns 0; -ENOMEM; -EEXIST: another QP has this number. */
int core_add_qp(struct core *core, struct mlx5dvl_qp *qp);
void core_remove_qp(struct core *core, const struct mlx5dvl_qp *qp);
/* Counts the allocated leaves of the table. */
uint32_t core_leaves(const struct core *core);
/* Sets *bf_p to the state of the BlueFlame register at @reg. The first call for @reg creates the
 * state. Returns 0 or -ENOMEM. */
int core_get_bf(struct core *core, void *reg, uint32_t size, struct mlx5dvl_bf **bf_p);

/* @depth: number of blocks in @buf, a power of two. Returns 0 or -ENOMEM. */
int sq_init(struct mlx5dvl_qp *qp, void *buf, uint32_t depth, uint32_t *record,
	struct mlx5dvl_bf *bf, uint32_t qpn);
void sq_fini(struct mlx5dvl_qp *qp);
void sq_open(struct mlx5dvl_qp *qp); /* accepts requests, because the QP is connected */
void sq_stop(struct mlx5dvl_qp *qp, int err); /* refuses requests; only the first err is kept */

/*
 * Links the entries in order and writes the receives, but posts none. @wqes: depth + 1 entries of
 * 2^@shift bytes. The last entry of the list is never posted: the next consumed receive is appended
 * to it.
 */
void srq_init(struct mlx5dvl_srq *srq, void *wqes, uint32_t shift, uint32_t depth, uint32_t *record,
	const struct mlx5dvl_srq_attr *attr);

/* @buf: CQEs of @size bytes each; the device must not write them yet. */
void cq_init(struct mlx5dvl_cq *cq, void *buf, uint32_t depth, uint32_t size, uint32_t *record,
	struct mlx5dvl_srq *srq, struct core *core);
/* Sets the index of the next completion to consume. */
void cq_seek(struct mlx5dvl_cq *cq, uint32_t ci);
/* Drops the completions of a destroyed QP that are still in the CQ: invalidates them in a receive
 * CQ, and removes them from a send CQ. */
void cq_forget_qp(struct mlx5dvl_cq *cq, uint32_t qpn);

#endif
