/* SPDX-License-Identifier: MIT */
/*
 * mlx5dv-lite: reliable-connection RDMA on ConnectX without a library call on the hot path.
 *
 * libibverbs creates the objects (protection domain, memory regions, CQs, SRQ, QPs);
 * this layer takes over their memory and writes work requests, doorbells, and reads
 * completions itself, inline in the caller. For message-rate-bound programs: one receive
 * CQ for all QPs, one SRQ with receives that need no memory (the data comes by RDMA
 * WRITE), signaled completions only now and then, one doorbell for many requests.
 *
 *	static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *r)
 *	{
 *		struct peer *p = mlx5dvl_qp_user(qp);   // p's memory now holds the message
 *		p->handle(p, r->imm);
 *	}
 *	mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){ .on_error = failed }, &ctx);
 *	mlx5dvl_srq_create(ctx, &(struct mlx5dvl_srq_attr){ .depth = 1024 }, &srq);
 *	mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){ .depth = 1024, .srq = srq }, &rcq);
 *	mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){ .depth = 256 }, &scq);
 *	mlx5dvl_qp_create(ctx, &(struct mlx5dvl_qp_attr){ scq, rcq, .user = p }, &qp);
 *	mlx5dvl_qp_info(qp, &mine);                     // send it to the peer, get theirs
 *	mlx5dvl_qp_connect(qp, &theirs);
 *	mlx5dvl_post_write_imm(qp, buf, mr.lkey, 64, raddr, rkey, imm, 0, 0);
 *	mlx5dvl_ring(qp);
 *	mlx5dvl_mono_poll(rcq, 64, on_recv, NULL), mlx5dvl_srq_refill(srq);
 *	mlx5dvl_send_poll(scq, 64, on_sent, NULL);
 *
 * Threads: a context, and all that was created from it, belongs to one thread at a time;
 * there are no locks. Open one context per thread: each has its own ibv_context, and so
 * its own doorbell registers. Different contexts are independent.
 *
 * Trust: what the device writes is believed, what a peer says (struct mlx5dvl_qp_info)
 * is checked. Not fork-safe: do not use a context in a child of the process that opened it.
 *
 * Errors: functions return 0 or a count, or -errno; output arguments are written on
 * success only. The functions marked "hot" are inline, in mlx5dvl_inline.h.
 */
#ifndef MLX5DVL_H
#define MLX5DVL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct mlx5dvl_ctx;
struct mlx5dvl_cq;
struct mlx5dvl_srq;
struct mlx5dvl_qp;
struct mlx5dvl_error;

/* ---- context ------------------------------------------------------------------- */

/*
 * Told of every completion with error, of sends and of receives, signaled or not, from
 * within mlx5dvl_mono_poll() and mlx5dvl_send_poll(). The QP has stopped: the device has
 * moved it to its error state, and each request still in its send queue is reported
 * here, too, as flushed (-ECANCELED), in order. The callback may post to other QPs,
 * and may destroy any QP, @qp included; it must not poll.
 */
typedef void mlx5dvl_error_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error);

struct mlx5dvl_error {
	uint64_t token; /* of the failed request; 0 when is_recv */
	int err; /* -ECANCELED flushed, -ETIMEDOUT peer does not answer (retries exceeded),
		    -ENOBUFS peer has no receive (RNR retries exceeded), -EACCES remote key,
		    bounds or permission, -EFAULT local key, bounds or permission,
		    -EMSGSIZE length, -EREMOTEIO peer refused or failed, -EIO anything else */
	uint8_t syndrome; /* as the device gave it */
	uint8_t vendor_syndrome;
	uint8_t opcode; /* enum mlx5dvl_opcode of the request; undefined when is_recv */
	bool is_recv;
};

/* Fields of mlx5dvl_ctx_attr whose 0 is a value: it counts if the bit is in `set`. */
enum mlx5dvl_ctx_set {
	MLX5DVL_SET_GID_INDEX = 1 << 0,
	MLX5DVL_SET_PKEY_INDEX = 1 << 1,
};

struct mlx5dvl_ctx_attr {
	const char *device; /* "mlx5_0"; NULL: the first one that mlx5 drives and that has a
			       port which is active */
	uint8_t port; /* 0: the first active one */
	unsigned set; /* of enum mlx5dvl_ctx_set */
	int gid_index; /* > 0, or set: use this GID, on InfiniBand, too. 0 or -1: on RoCE the
			  first RoCE v2 GID, of IPv4 if there is one; on InfiniBand address
			  by LID, or by GID 0 where the port requires a global route header
			  (then the other end needs a GID, too) */
	uint16_t pkey_index; /* > 0, or set: the partition; 0: the first of which the port is a
				full member */
	mlx5dvl_error_fn *on_error; /* NULL: errors show in mlx5dvl_qp_status() only */
	void *error_arg; /* first argument of on_error */
};

/*
 * Opens the device: an ibv_context and a protection domain of its own.
 * -ENODEV no such device, or none that mlx5 drives; -EINVAL no such port, GID or P_Key
 * index out of range; -ENETDOWN no port that may be used is active: bring it up, or name
 * another; -EADDRNOTAVAIL a port without a GID that needs one: give a RoCE port's interface an
 * address; -ENOKEY the port is a full member of no partition: give its index; -ENOMEM; else
 * what the driver said (-EACCES, -EPERM: permissions of /dev/infiniband).
 */
int mlx5dvl_ctx_open(const struct mlx5dvl_ctx_attr *attr, struct mlx5dvl_ctx **ctx_p);

/* Everything created from @ctx must be destroyed before. NULL is fine. */
void mlx5dvl_ctx_close(struct mlx5dvl_ctx *ctx);

/* Name of the device, valid until close. */
const char *mlx5dvl_ctx_device(const struct mlx5dvl_ctx *ctx);

/* ---- asynchronous events ------------------------------------------------------- */

enum mlx5dvl_event_type {
	MLX5DVL_EVENT_FATAL = 1, /* the device has failed: no completion need come any more;
				    destroy everything, and open another */
	MLX5DVL_EVENT_QUEUE, /* a CQ or the SRQ has failed: the same, for this context */
	MLX5DVL_EVENT_QP, /* a QP was stopped from the other side; `qp` */
	MLX5DVL_EVENT_DRAINED, /* a QP that receives from a SRQ and has stopped takes no
				  receive any more; `qp` */
	MLX5DVL_EVENT_PORT_DOWN, /* what is under way is repeated, as long as its time-outs say */
	MLX5DVL_EVENT_PORT_UP, /* the addresses of new QPs are the port's of now */
	MLX5DVL_EVENT_ADDRESS, /* LID, GID or P_Key table has changed; the same */
	MLX5DVL_EVENT_OTHER,
};

struct mlx5dvl_event {
	enum mlx5dvl_event_type type;
	struct mlx5dvl_qp *qp; /* EVENT_QP, EVENT_DRAINED; may be NULL: it is gone */
};

/* Takes the next event of the device, if there is one: 1 and *event_p, else 0; never waits.
 * Call it now and then (it is a system call), or when the fd is readable. */
int mlx5dvl_ctx_event(struct mlx5dvl_ctx *ctx, struct mlx5dvl_event *event_p);
int mlx5dvl_ctx_event_fd(const struct mlx5dvl_ctx *ctx);

/* ---- memory regions ------------------------------------------------------------ */

enum mlx5dvl_access {
	MLX5DVL_LOCAL_WRITE = 1 << 0, /* receives, and results of READ and atomics, land here */
	MLX5DVL_REMOTE_WRITE = 1 << 1, /* needs LOCAL_WRITE */
	MLX5DVL_REMOTE_READ = 1 << 2,
	MLX5DVL_REMOTE_ATOMIC = 1 << 3, /* needs LOCAL_WRITE */
};

struct mlx5dvl_mr {
	void *addr;
	size_t len;
	uint32_t lkey; /* for local addresses of a request */
	uint32_t rkey; /* what a peer names to reach this memory */
	void *priv;
};

/*
 * Registers [addr, addr+len) with @access (or of enum mlx5dvl_access). The memory stays
 * the caller's and must stay mapped until dereg.
 * -EINVAL access that needs LOCAL_WRITE without it, len 0; -EFAULT not mapped;
 * -ENOMEM locked-memory limit (ulimit -l) or device resources.
 */
int mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);

/* No request may still use it. A zeroed struct is fine. */
void mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);

/* ---- shared receive queue ------------------------------------------------------ */

struct mlx5dvl_srq_attr {
	uint32_t depth; /* receives, up to 32,767; 0: 1024 */
	/* For SENDs that carry data; all zero: receives without memory, for WRITE_IMM and
	   empty SENDs. Receive i lands in buf + i * buf_size. */
	void *buf; /* at least mlx5dvl_srq_buf_len(depth, buf_size) bytes, registered */
	uint32_t buf_size;
	uint32_t lkey;
};

/* Bytes that a SRQ of that attr.depth needs as attr.buf. */
size_t mlx5dvl_srq_buf_len(uint32_t depth, uint32_t buf_size);

/*
 * Creates a SRQ and posts all its receives. -EINVAL buf_size without buf, depth over
 * 32,767; -ENOMEM; else what the driver said.
 */
int mlx5dvl_srq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_srq_attr *attr,
	struct mlx5dvl_srq **srq_p);

/* -EBUSY while a CQ was created over it. NULL is fine. */
int mlx5dvl_srq_destroy(struct mlx5dvl_srq *srq);

/*
 * hot. Posts the receives that were consumed again, all at once, when less than two
 * thirds are posted. Call it after mlx5dvl_mono_poll(): the consumer index of the CQ must
 * be out first when the CQ is no deeper than the SRQ. Returns the number posted.
 */
static inline uint32_t mlx5dvl_srq_refill(struct mlx5dvl_srq *srq);

/* hot. Receives that the device can use without a refill. */
static inline uint32_t mlx5dvl_srq_posted(const struct mlx5dvl_srq *srq);

/* ---- completion queues --------------------------------------------------------- */

struct mlx5dvl_cq_attr {
	uint32_t depth; /* 0: a receive CQ is as deep as its SRQ, a send CQ 4096;
			   rounded up to a power of two, at least 64 */
	struct mlx5dvl_srq *srq; /* set: a receive CQ, for QPs that receive from this SRQ
				    and no other; NULL: a send CQ */
	uint32_t cqe_size; /* 0: 64; or 128 */
	bool compress; /* let the device compress completions (mini-CQEs): not seen on a card */
	bool force_compress; /* of a receive CQ, too, where immediates would have to be alike */
	bool events; /* make it armable: mlx5dvl_cq_fd(), mlx5dvl_cq_arm() */
};

/*
 * -EINVAL a receive CQ less deep than its SRQ (it could overrun), depth over 2^22, a
 * cqe_size other than 64 and 128; -EOPNOTSUPP the device does not compress, or a receive CQ
 * without force_compress: create it without; -ENOMEM; else what the driver said.
 */
int mlx5dvl_cq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_cq_attr *attr,
	struct mlx5dvl_cq **cq_p);

/* -EBUSY while a QP uses it. NULL is fine. */
int mlx5dvl_cq_destroy(struct mlx5dvl_cq *cq);

enum mlx5dvl_recv_opcode {
	MLX5DVL_RECV_WRITE_IMM = 1,
	MLX5DVL_RECV_SEND = 2,
	MLX5DVL_RECV_SEND_IMM = 3,
};

struct mlx5dvl_recv {
	uint32_t imm; /* host byte order; undefined for RECV_SEND */
	uint32_t len; /* bytes written or sent */
	uint8_t opcode; /* enum mlx5dvl_recv_opcode */
	const void *buf; /* the SEND's data, valid until the handler returns; NULL when the
			    SRQ has no memory */
};

/* @qp: never NULL. May post, ring, and destroy any QP, @qp included; must not poll. */
typedef void mlx5dvl_recv_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv);

/*
 * hot. Takes up to @max completions off a receive CQ and calls fn(arg, qp, recv) for each
 * in the order the device gave. Errors go to on_error of the context. Inlined whole: pass
 * a function whose body the compiler sees, and no call is left. Completions of a QP
 * that was destroyed are dropped. Returns the completions taken, errors included.
 */
static inline int mlx5dvl_mono_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_recv_fn *fn, void *arg);

enum mlx5dvl_opcode {
	MLX5DVL_NOP = 0x00,
	MLX5DVL_WRITE = 0x08,
	MLX5DVL_WRITE_IMM = 0x09,
	MLX5DVL_SEND = 0x0a,
	MLX5DVL_SEND_IMM = 0x0b,
	MLX5DVL_READ = 0x10,
	MLX5DVL_CMP_SWAP = 0x11,
	MLX5DVL_FETCH_ADD = 0x12,
};

struct mlx5dvl_sent {
	uint64_t token; /* of the request */
	uint8_t opcode; /* enum mlx5dvl_opcode */
};

/* As mlx5dvl_recv_fn: may post, ring, destroy any QP; must not poll. */
typedef void mlx5dvl_sent_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent);

/*
 * hot. Takes up to @max completions off a send CQ, frees the slots of the send queues,
 * and calls fn(arg, qp, sent) for each request that was posted with MLX5DVL_SIGNALED.
 * (Others complete silently: about one in 64 is signaled on the library's own account.)
 * Errors go to on_error, for unsignaled requests, too. Returns the completions taken.
 */
static inline int mlx5dvl_send_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_sent_fn *fn, void *arg);

/*
 * Sleeping instead of polling, for a CQ created with attr.events. The order that loses
 * nothing: arm, look with mlx5dvl_cq_ready() (or poll once more), and only when that found
 * nothing wait for the fd to become readable (poll(2), epoll); then mlx5dvl_cq_event() and
 * poll the CQ. The fd does not block; an arm gives one event, for the first completion that
 * the program had not taken when it armed.
 */
int mlx5dvl_cq_fd(const struct mlx5dvl_cq *cq); /* -EINVAL without attr.events */
void mlx5dvl_cq_arm(struct mlx5dvl_cq *cq);
int mlx5dvl_cq_event(struct mlx5dvl_cq *cq); /* eats one event: 1; 0: there was none */

/* hot. Is there a completion to take? */
static inline bool mlx5dvl_cq_ready(const struct mlx5dvl_cq *cq);

/* ---- queue pairs --------------------------------------------------------------- */

/* Fields of mlx5dvl_qp_attr whose 0 is a value: it counts if the bit is in `set`. */
enum mlx5dvl_qp_set {
	MLX5DVL_SET_TIMEOUT = 1 << 0,
	MLX5DVL_SET_RETRY_CNT = 1 << 1,
	MLX5DVL_SET_RNR_RETRY = 1 << 2,
	MLX5DVL_SET_MIN_RNR_TIMER = 1 << 3,
};

struct mlx5dvl_qp_attr {
	struct mlx5dvl_cq *send_cq; /* required */
	struct mlx5dvl_cq *recv_cq; /* a CQ with a SRQ; NULL: this QP receives nothing */
	void *user; /* mlx5dvl_qp_user() */
	uint32_t sq_depth; /* send queue in blocks of 64 bytes (a request takes 1 to 4);
			      0: 256; rounded up to a power of two, 16 to 32,768 */
	/* InfiniBand's values; 0 everywhere means the default that is named. */
	uint8_t mtu; /* 1 (256) to 5 (4096); 0: of the port; the smaller of both ends */
	uint8_t timeout; /* 4.096 us * 2^timeout, up to 31, until a request is repeated;
			    0: 14, 67 ms; 0 set: never */
	uint8_t retry_cnt; /* 1 to 7 repetitions; 0: 7; 0 set: none */
	uint8_t rnr_retry; /* 1 to 6 when the peer has no receive; 7 and 0: for ever; 0 set: none */
	uint8_t min_rnr_timer; /* 1 to 31: how long a peer is told to wait for a receive;
				  0: 12, 0.64 ms; 0 set: 655 ms */
	uint8_t rd_atomic; /* READs and atomics at once, each way, 1 to 16; 0: 4 */
	uint8_t sl; /* service level, 0 to 15; on RoCE its priority */
	uint8_t traffic_class; /* of the global route header: on RoCE v2 DSCP << 2 */
	uint32_t flow_label; /* of the global route header, 20 bits */
	unsigned set; /* of enum mlx5dvl_qp_set */
	bool no_remote; /* peers get no right to WRITE, READ or use atomics here */
};

/*
 * Creates a RC QP. -EINVAL attribute out of range, CQs of another context or of the wrong
 * kind; -ENOSPC the send CQ is less deep than the sum of the send queues over it (each
 * request can need a completion when a QP fails): make it deeper, or wait until QPs that
 * were destroyed are drained; -ENOMEM; else what
 * the driver said.
 */
int mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p);

/*
 * Ends the QP at once; requests that have not completed are not reported any more, and
 * completions of it that are still in a CQ are dropped. Allowed in handlers. NULL is fine.
 *
 * The device may still hold a receive of the SRQ for it, so that it is stopped first, and
 * freed when the device says that it is drained: until then its send queue counts in the send
 * CQ. That is found out by the calls that create or destroy a QP, and by
 * mlx5dvl_ctx_retired(), which returns how many QPs are left to be freed.
 */
void mlx5dvl_qp_destroy(struct mlx5dvl_qp *qp);
uint32_t mlx5dvl_ctx_retired(struct mlx5dvl_ctx *ctx);

/* What the peer needs for its connect; carry it there by any means, in any encoding. */
struct mlx5dvl_qp_info {
	uint32_t qpn; /* 24 bits */
	uint32_t psn; /* 24 bits, random */
	uint16_t lid; /* 0 on RoCE */
	uint8_t mtu; /* 1 to 5 */
	uint8_t rd_atomic; /* that this side serves */
	uint8_t gid[16]; /* all zero: addressed by LID; both ends alike */
};

void mlx5dvl_qp_info(const struct mlx5dvl_qp *qp, struct mlx5dvl_qp_info *info_p);

/*
 * Connects to the peer (INIT -> RTR -> RTS). @peer is checked: -EINVAL a field out of
 * range, no LID on InfiniBand, no GID on RoCE; -EISCONN connected already; else what the driver
 * said (-ETIMEDOUT, -EHOSTUNREACH: RoCE cannot resolve the GID). After an error other than
 * -EISCONN the QP can only be destroyed. A peer may send as soon as both have connected.
 */
int mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer);

/*
 * Moves the QP to its error state: posted requests are flushed and reported to on_error,
 * posting returns -ENOTCONN, the peer's requests fail. 0, or what the driver said.
 */
int mlx5dvl_qp_to_error(struct mlx5dvl_qp *qp);

/* 0 connected; -ENOTCONN not yet; else the error that stopped it (struct mlx5dvl_error.err). */
int mlx5dvl_qp_status(const struct mlx5dvl_qp *qp);

static inline void *mlx5dvl_qp_user(const struct mlx5dvl_qp *qp); /* hot */
static inline uint32_t mlx5dvl_qp_qpn(const struct mlx5dvl_qp *qp); /* hot */

/* ---- posting (all hot) --------------------------------------------------------- */

enum mlx5dvl_flags {
	MLX5DVL_SIGNALED = 1 << 0, /* tell mlx5dvl_send_poll()'s handler when it is done */
	MLX5DVL_SOLICITED = 1 << 1, /* the receiver's completion is a solicited event */
	MLX5DVL_FENCE = 1 << 2, /* start after earlier READs and atomics have completed */
	MLX5DVL_BY_REF = 1 << 3, /* do not copy payload into the request: the device reads it
				    all from laddr, which stays untouched until completion */
};

/*
 * Each writes one request into the send queue; nothing is sent before mlx5dvl_ring().
 *
 * @laddr, @lkey, @len: payload (of READ and atomics: where the result goes), at most
 * 2^30 bytes; len 0 is allowed, and laddr and lkey are then unused. Up to
 * MLX5DVL_INLINE_MAX (220) bytes are copied into the request: lkey is not used, and
 * laddr is free again at return. Above, the first 204 bytes are copied and the rest is
 * read from laddr by the device at any time until completion. A constant @len makes the
 * copy, and the layout of the request, compile-time decisions.
 * @raddr, @rkey: memory of the peer. @imm: host byte order. @flags: enum mlx5dvl_flags.
 * @token: the caller's; comes back in struct mlx5dvl_sent and struct mlx5dvl_error.
 *
 * 0; -EAGAIN the send queue is full: ring, mlx5dvl_send_poll(), retry; -ENOTCONN not
 * connected, or the QP has failed.
 */
static inline int mlx5dvl_post_write(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token);
static inline int mlx5dvl_post_write_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, uint32_t imm, unsigned flags, uint64_t token);
static inline int mlx5dvl_post_read(struct mlx5dvl_qp *qp, void *laddr, uint32_t lkey, uint32_t len,
	uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token);
static inline int mlx5dvl_post_send(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, unsigned flags, uint64_t token);
static inline int mlx5dvl_post_send_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint32_t imm, unsigned flags, uint64_t token);
/* Does nothing, in order: with MLX5DVL_SIGNALED it tells that all before it is done. */
static inline int mlx5dvl_post_nop(struct mlx5dvl_qp *qp, unsigned flags, uint64_t token);
/* 8 bytes at raddr, which is a multiple of 8; the value before goes to *laddr. Atomic
   among requests through the same device, not against the CPU. */
static inline int mlx5dvl_post_fetch_add(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t add, unsigned flags, uint64_t token);
static inline int mlx5dvl_post_cmp_swap(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t compare, uint64_t swap, unsigned flags,
	uint64_t token);

/* Requests, of any size, that can be posted now without -EAGAIN. */
static inline uint32_t mlx5dvl_sq_room(const struct mlx5dvl_qp *qp);

/* hot. True when mlx5dvl_sq_room() is 0; cheaper. */
static inline bool mlx5dvl_sq_full(const struct mlx5dvl_qp *qp);

/* NOPs posted since creation because a request did not fit before the ring's end. */
static inline uint64_t mlx5dvl_sq_fillers(const struct mlx5dvl_qp *qp);

/*
 * Hands all requests posted since the last ring to the device: one doorbell. A single
 * request goes along with it (BlueFlame) where the device can; otherwise the device
 * fetches. Without new requests it does nothing.
 */
static inline void mlx5dvl_ring(struct mlx5dvl_qp *qp);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#include "mlx5dvl_inline.h"

#endif
