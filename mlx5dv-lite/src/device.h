/* SPDX-License-Identifier: MIT */
/* The objects: the public queue, and the parts that libibverbs has made. */
#ifndef MLX5DVL_DEVICE_H
#define MLX5DVL_DEVICE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "base/clock.h"
#include "internal.h"

/* The longest time that a destroyed QP waits for the event that it is drained. A device sends the event within
 * milliseconds. Some never do: a QP that is freed then may take a receive of its SRQ along. */
#define DRAIN_NS NSEC_PER_SEC

/* An event that was read and not yet returned to the user. */
struct async_event {
	struct async_event *prev, *next; /* `next` is NULL while it is in no list */
	enum mlx5dvl_event type;
	struct mlx5dvl_qp *qp; /* NULL: of no QP */
};

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
	struct mlx5dvl_ctx_attr attr; /* as given, for when the port's addresses change */
	struct qp *retired; /* destroyed by the user, and not yet drained or not yet freed */
	uint32_t nretired;
	struct async_event pending; /* head of the circular list of kept events, oldest first */
	struct async_event events[MLX5DVL_EVENT_ADDRESS + 1]; /* by type: those of no QP */
	int unread; /* eventfd, readable while `pending` is not empty */
	bool shown; /* `unread` is readable */
	int fd; /* epoll of `unread` and the device's events */
	uint64_t (*clock)(void); /* ns; tests have their own */
};

struct srq {
	struct mlx5dvl_srq queue; /* first: what users point to */
	struct ibv_srq *ibv;
	uint32_t cqs; /* CQs that use it */
};

struct cq {
	struct mlx5dvl_cq queue; /* first */
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel; /* NULL: not armable */
	void *uar;
	uint32_t cqn;
	uint32_t arm_sn; /* events consumed; the device accepts each number once */
	uint32_t qps; /* QPs that use it */
	uint32_t blocks; /* sum of the depths of the send queues that use it */
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
	bool drained; /* it uses no receive of the SRQ any more */
	uint64_t free_at; /* retired: when it is freed even if it is not drained */
	struct async_event events[2]; /* MLX5DVL_EVENT_QP and MLX5DVL_EVENT_DRAINED */
};

static inline struct srq *srq_of(struct mlx5dvl_srq *srq)
{
	return (struct srq *)srq;
}

static inline struct cq *cq_of(struct mlx5dvl_cq *cq)
{
	return (struct cq *)cq;
}

static inline struct qp *qp_of(struct mlx5dvl_qp *qp)
{
	return (struct qp *)qp;
}

/* Checks the fields of @peer. Returns 0 or -EINVAL. */
int qp_check_peer(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_info *peer);
/* The address of @peer, as seen from @qp. */
void qp_address(const struct qp *qp, const struct mlx5dvl_qp_info *peer, struct ibv_ah_attr *ah_p);

/* Queries the port and chooses its GID and P_Key. Returns 0, or an error of mlx5dvl_ctx_open(). */
int port_setup(struct mlx5dvl_ctx *ctx);

/* Makes the descriptor of mlx5dvl_ctx_fd(). Returns 0 or -errno; events_close() in any case. */
int events_open(struct mlx5dvl_ctx *ctx);
void events_close(struct mlx5dvl_ctx *ctx);
/* Reads the device's events, to learn which QPs are drained. */
void ctx_read_events(struct mlx5dvl_ctx *ctx);
/* Drops the events of this QP that the user has not been told. */
void ctx_forget_events(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp *qp);
/* Frees the retired QPs that are drained, or have waited long enough for that; with @force also those
 * that use @cq (NULL: all). */
void ctx_reap(struct mlx5dvl_ctx *ctx, bool force, const struct cq *cq);

/* True if an error may come from the limit of open descriptors: few of them are left. */
bool descriptors_are_short(void);

/* Makes reading from @fd non-blocking. Returns 0 or -errno. */
int fd_unblock(int fd);

/* The errno of a verbs call that has returned NULL. */
static inline int verbs_errno(void)
{
	return errno ? -errno : -EIO;
}

#endif
