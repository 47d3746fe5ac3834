/* SPDX-License-Identifier: MIT */
/* What belongs to an object besides its queue: the parts that libibverbs made. */
#ifndef MLX5DVL_DEVICE_H
#define MLX5DVL_DEVICE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "internal.h"

#define PENDING_EVENTS 32

struct mlx5dvl_ctx {
	struct core core;
	struct ibv_context *ibv;
	struct ibv_pd *pd;
	struct ibv_port_attr port_attr;
	uint8_t port;
	uint16_t pkey_index;
	bool atomics; /* the device has them */
	int gid_index; /* -1: addressed by LID */
	union ibv_gid gid;
	/* What was asked for, for when the port's addresses change. */
	struct mlx5dvl_ctx_attr attr;
	struct qp *retired; /* destroyed by the user, and not yet drained or not yet freed */
	uint32_t nretired;
	struct mlx5dvl_event pending[PENDING_EVENTS]; /* read, not yet told; oldest first */
	uint32_t npending;
};

struct srq {
	struct mlx5dvl_srq queue; /* first: what users point to */
	struct ibv_srq *ibv;
	uint32_t cqs; /* over it */
};

struct cq {
	struct mlx5dvl_cq queue; /* first */
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel; /* NULL: not armable */
	void *uar;
	uint32_t cqn;
	uint32_t arm_sn; /* events taken: the device answers each number once */
	uint32_t qps; /* that use it */
	uint32_t blocks; /* of the send queues over it */
	struct mlx5dvl_ctx *ctx;
};

struct qp {
	struct mlx5dvl_qp queue; /* first */
	struct ibv_qp *ibv;
	struct mlx5dvl_ctx *ctx;
	struct cq *send_cq;
	struct cq *recv_cq; /* NULL: receives nothing */
	struct mlx5dvl_qp_attr attr; /* with the defaults filled in */
	uint32_t psn;
	struct qp *next_retired;
	bool retired;
	bool drained; /* it takes no receive of the SRQ any more */
};

static inline struct srq *to_srq(struct mlx5dvl_srq *srq)
{
	return (struct srq *)srq;
}

static inline struct cq *to_cq(struct mlx5dvl_cq *cq)
{
	return (struct cq *)cq;
}

static inline struct qp *to_qp(struct mlx5dvl_qp *qp)
{
	return (struct qp *)qp;
}

/* Asks the port for its addresses. 0, or what mlx5dvl_ctx_open() says. */
int ctx_setup_port(struct mlx5dvl_ctx *ctx);

/* Reads the device's events, as many as there is room for, to learn which QPs are drained. */
void ctx_read_events(struct mlx5dvl_ctx *ctx);
/* Nobody is told of this QP any more. */
void ctx_forget_events(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp *qp);
/* Frees the retired QPs that are drained, and if @force those that use @cq, or if it is
 * NULL all. */
void ctx_reap(struct mlx5dvl_ctx *ctx, bool force, const struct cq *cq);

/* Reading from @fd must not wait. 0, or -errno. */
int fd_unblock(int fd);

/* What a verbs call that returns NULL said. */
static inline int verbs_errno(void)
{
	return errno ? -errno : -EIO;
}

#endif
