/* SPDX-License-Identifier: MIT */
/*
 * The context, and the SRQs, CQs and QPs. Each SRQ, CQ and QP contains its public queue (such as
 * struct mlx5dvl_srq) and the object that libibverbs has created.
 */
#ifndef MLX5DVL_DEVICE_H
#define MLX5DVL_DEVICE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "base/clock.h"
#include "internal.h"

/*
 * The longest time that a destroyed QP waits for the event that reports it as drained. A device
 * usually sends the event within milliseconds. Some devices never send it: if the QP is then freed,
 * its SRQ may lose a receive.
 */
#define DRAIN_NS NSEC_PER_SEC

/* Place for an event, in a list from the time it is read until it is returned to the user. */
struct async_event {
	struct async_event *prev, *next; /* `next` is NULL while the event is in no list */
	enum mlx5dvl_event type;
	struct mlx5dvl_qp *qp; /* NULL: the event concerns no QP */
};

struct mlx5dvl_ctx {
	struct core core;
	struct ibv_context *ibv;
	struct ibv_pd *pd;
	struct ibv_port_attr port_attr;
	uint8_t port;
	uint16_t pkey_index;
	bool atomics; /* the device supports atomics */
	uint32_t vector; /* vector of the CQs for which the user chooses none */
	int gid_index; /* -1: addressed by LID */
	union ibv_gid gid;
	struct mlx5dvl_ctx_attr attr; /* as set by the user; used again when the port's addresses
					 change */
	struct qp *retired; /* list of QPs that the user has destroyed and that are not freed yet */
	uint32_t nretired;
	struct async_event pending; /* head of the circular list of kept events, oldest first */
	struct async_event events[MLX5DVL_EVENT_ADDRESS + 1]; /* indexed by type: events that
								 concern no QP */
	int unread; /* eventfd, readable while `pending` is not empty */
	bool shown; /* `unread` is readable */
	int fd; /* epoll of `unread` and the device's events */
	uint64_t (*clock)(void); /* ns; tests replace it */
};

struct srq {
	struct mlx5dvl_srq queue; /* must be first: the user's pointer is cast to struct srq */
	struct ibv_srq *ibv;
	uint32_t cqs; /* number of CQs that use it */
};

struct cq {
	struct mlx5dvl_cq queue; /* must be first */
	struct ibv_cq *ibv;
	struct ibv_comp_channel *channel; /* NULL: the CQ cannot be armed */
	void *uar;
	uint32_t cqn;
	uint32_t vector;
	uint32_t arm_sn; /* number of events consumed; the device accepts each number once */
	uint32_t qps; /* number of QPs that use it */
	uint32_t blocks; /* sum of the depths of the send queues that use it */
	struct mlx5dvl_ctx *ctx;
};

struct qp {
	struct mlx5dvl_qp queue; /* must be first */
	struct ibv_qp *ibv;
	struct mlx5dvl_ctx *ctx;
	struct cq *send_cq;
	struct cq *recv_cq; /* NULL: the QP receives nothing */
	struct mlx5dvl_qp_attr attr; /* with the defaults filled in */
	uint32_t psn;
	struct qp *next_retired;
	bool retired;
	bool drained; /* the QP uses no receive of the SRQ any more */
	uint64_t free_at; /* if retired: the time at which the QP is freed even if it is not
			     drained */
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

/* Reads the caller's @info of @size bytes into *peer, and checks the fields. Returns 0, -E2BIG or
 * -EINVAL. */
int qp_read_peer(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_info *info, size_t size,
	struct mlx5dvl_qp_info *peer);
/* Sets *ah_p to the address of @peer for @qp. */
void qp_address(const struct qp *qp, const struct mlx5dvl_qp_info *peer, struct ibv_ah_attr *ah_p);

/* Queries the port and chooses its GID and P_Key. Returns 0, or an error of mlx5dvl_ctx_open(). */
int port_setup(struct mlx5dvl_ctx *ctx);

/* Creates the descriptor of mlx5dvl_ctx_fd(). Returns 0 or -errno; also after an error the caller
 * must call events_close(). */
int events_open(struct mlx5dvl_ctx *ctx);
void events_close(struct mlx5dvl_ctx *ctx);
/* Reads the device's events, which report the drained QPs. */
void ctx_read_events(struct mlx5dvl_ctx *ctx);
/* Drops the events of this QP that were not returned to the user. */
void ctx_forget_events(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp *qp);
/* Frees the retired QPs that are drained or have waited for DRAIN_NS. If @force is true, also frees
 * all retired QPs that use @cq (NULL: all retired QPs). */
void ctx_reap(struct mlx5dvl_ctx *ctx, bool force, const struct cq *cq);

/* Returns true if few descriptors are free, so that an error may be due to their limit. */
bool descriptors_are_short(void);

/* Makes reading from @fd non-blocking. Returns 0 or -errno. */
int fd_unblock(int fd);

/* Returns the error of a verbs function that has returned NULL. */
static inline int verbs_errno(void)
{
	return errno ? -errno : -EIO;
}

#endif
