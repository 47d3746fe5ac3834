/* SPDX-License-Identifier: MIT */
/*
 * mlx5dv-lite: RDMA on ConnectX without a library call on the hot path. QPs are RC by default; UC
 * and UD are also supported.
 *
 * libibverbs creates the objects (protection domain, memory regions, CQs, SRQ, QPs). This layer
 * then works on the memory of the queues itself: it writes work requests and doorbells and reads
 * completions, inline in the caller. It is made for programs that are limited by message rate: all
 * QPs share one receive CQ and one SRQ, whose receives need no memory (the data arrives by RDMA
 * WRITE); few completions are signaled, and one doorbell announces many requests.
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
 *	mlx5dvl_qp_create(ctx, &(struct mlx5dvl_qp_attr){ .send_cq = scq, .recv_cq = rcq, .user = p }, &qp);
 *	mlx5dvl_qp_get_info(qp, &mine, sizeof(mine));   // send it to the peer, get theirs
 *	mlx5dvl_qp_connect(qp, &theirs, sizeof(theirs));
 *	mlx5dvl_post_write_imm(qp, buf, mr.lkey, 64, raddr, rkey, imm, 0, 0);
 *	mlx5dvl_ring(qp);
 *	mlx5dvl_mono_poll(rcq, 64, on_recv, NULL), mlx5dvl_srq_refill(srq);
 *	mlx5dvl_send_poll(scq, 64, on_sent, NULL);
 *
 * Threads: there are no locks. Only one thread at a time may use a context and the objects that
 * were created from it. Open one context per thread: each has its own ibv_context, and so its own
 * doorbell registers. Different contexts are independent. mlx5dvl_mr_reg() and mlx5dvl_mr_dereg()
 * may take long; any thread may call them, also while another thread uses the context.
 *
 * Trust: the device is trusted; data from a peer (struct mlx5dvl_qp_info) is checked.
 *
 * fork(): a child must not use a context of its parent; it may execute another program or end. On
 * kernels before 5.12, copy-on-write can give the parent copies of the pages that the device uses,
 * and leave the pages themselves to the child. To prevent this, call ibv_fork_init(), or set
 * IBV_FORK_SAFE=1, before the first context is opened, and do not register memory on a page that
 * the child needs. Newer kernels copy pinned pages for the child.
 *
 * Sizes: a pointer to an attribute struct may be NULL if no field is required; all fields are then
 * 0. A later version may add fields to the end of an attribute struct. A program that sets such a
 * field must also set `size` to the size of its struct. Fields beyond `size` count as 0, the
 * default. If a program sets a field that an older library does not know, the function returns
 * -E2BIG. The same holds for struct mlx5dvl_qp_info, whose size is an argument. Functions that fill
 * struct mlx5dvl_port or mlx5dvl_qp_info write at most @size bytes. So a program that was compiled
 * for an older version gets and passes the fields that it knows.
 *
 * Errors: functions return 0 or a count, or -errno. They write output arguments only on success.
 * The functions marked "hot" are inline, in mlx5dvl_inline.h.
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

/*
 * Linkage of the functions that are compiled into their callers. Programs must not define this
 * macro. src/ffi.c of the library defines it, so that libmlx5dv-lite exports the same functions for
 * programs in other languages.
 */
#ifndef MLX5DVL_INLINE
#define MLX5DVL_INLINE static inline __attribute__((always_inline))
#endif

/* ---- context ------------------------------------------------------------------- */

/*
 * Callback of mlx5dvl_mono_poll() and mlx5dvl_send_poll() for every completion with error, of
 * requests (signaled or not) and of receives. The device has moved the QP to its error state. The
 * polls then report each announced request that is still in the QP's send queue as flushed
 * (-ECANCELED), in order. The NOPs with which the library fills the ring's end are also reported as
 * flushed, with opcode MLX5DVL_NOP and token 0. The callback may post to other QPs and may destroy
 * any QP, including @qp; it must not poll.
 */
typedef void mlx5dvl_error_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error);

/* Returns a short description of a syndrome. */
const char *mlx5dvl_syndrome_text(uint8_t syndrome);

struct mlx5dvl_error {
	uint64_t token; /* of the failed request; 0 when is_recv, and for a NOP of the library */
	int err; /* -ECANCELED: flushed; -ETIMEDOUT: the peer does not answer (retries exceeded);
		    -ENOBUFS: the peer has no receive (RNR retries exceeded); -EACCES: wrong remote
		    key, bounds or permission; -EFAULT: wrong local key, bounds or permission;
		    -EMSGSIZE: wrong length; -EREMOTEIO: the peer refused or failed; -EIO: any
		    other error */
	uint8_t syndrome; /* as reported by the device */
	uint8_t vendor_syndrome;
	uint8_t opcode; /* enum mlx5dvl_opcode of the request; undefined when is_recv */
	bool is_recv;
};

/* Bits of `set`, for fields in which 0 is a valid value: if the bit is set, 0 means 0; otherwise 0
 * means the default. */
enum mlx5dvl_ctx_set {
	MLX5DVL_SET_GID_INDEX = 1 << 0,
	MLX5DVL_SET_PKEY_INDEX = 1 << 1,
	MLX5DVL_SET_VECTOR = 1 << 0, /* only for struct mlx5dvl_cq_attr */
};

struct mlx5dvl_ctx_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including error_arg */
	const char *device; /* for example "mlx5_0"; NULL: the first mlx5 device with an active
			       port */
	uint8_t port; /* 0: the first active port */
	unsigned set; /* bits of enum mlx5dvl_ctx_set */
	int gid_index; /* > 0, or set: use this GID, also on InfiniBand. 0 (and not set), or -1: on
			  RoCE the first GID of RoCE v2 with an IPv4 address, or else of RoCE v2, or
			  else any; on InfiniBand no GID but the LID, or GID 0 if the port requires
			  a global route header (then the other end also needs a GID) */
	uint16_t pkey_index; /* > 0, or set: index of the partition; 0 (and not set): the first
				partition of which the port is a full member */
	mlx5dvl_error_fn *on_error; /* NULL: only mlx5dvl_qp_status() reports errors */
	void *error_arg; /* first argument of on_error */
};

/*
 * Opens the device. The context has its own ibv_context and protection domain. Returns 0. -ENODEV:
 * no such device, or it is not an mlx5 device. -EINVAL: no such port, or a GID or P_Key index out
 * of range. -ENETDOWN: the port, or every port, is down; bring one up, or name another. -E2BIG: see
 * Sizes. -EADDRNOTAVAIL: the port needs a GID and has none; assign an address to a RoCE port's
 * interface. -ENOKEY: the port is not a full member of any partition; set pkey_index. -EMFILE: too
 * few free descriptors, a context needs four; raise the limit. -ENOMEM, or an error of the driver
 * (-EACCES, -EPERM: permissions of /dev/infiniband).
 */
int mlx5dvl_ctx_open(const struct mlx5dvl_ctx_attr *attr, struct mlx5dvl_ctx **ctx_p);

/* Closes the device. The caller must first destroy all objects created from @ctx. @ctx may be
 * NULL. */
void mlx5dvl_ctx_close(struct mlx5dvl_ctx *ctx);

/* Returns the name of the device, valid until mlx5dvl_ctx_close(). */
const char *mlx5dvl_ctx_device(const struct mlx5dvl_ctx *ctx);

#define MLX5DVL_NAME_LEN 64

/*
 * Writes the names of the first @max mlx5 devices, in the order of libibverbs. Returns the number
 * of names; -EMFILE: no descriptors left; or -ENOMEM.
 */
int mlx5dvl_devices(uint32_t max, char (*names_p)[MLX5DVL_NAME_LEN]);

struct mlx5dvl_port {
	uint64_t max_mr_len; /* bytes of the largest memory region that the device supports */
	uint32_t mbps; /* present rate of the link in 10^6 bits per second; 0: not known */
	uint16_t lid; /* 0 on RoCE */
	bool ethernet; /* RoCE */
	bool active;
	uint8_t gid[16]; /* the GID that the context's QPs use; if none, the port's first GID */
};

/* Queries the port. @size must be sizeof(*port_p). Returns 0, or -EIO if the device does not
 * answer. */
int mlx5dvl_ctx_get_port(struct mlx5dvl_ctx *ctx, struct mlx5dvl_port *port_p, size_t size);

/*
 * Reads a counter of the context's port, that is a file of the directories hw_counters or counters
 * in /sys/class/infiniband. For example, "out_of_buffer" is the number of messages that found no
 * receive. A counter counts for all programs that use the port. Returns 0. -ENOENT: the driver has
 * no such counter. -EINVAL: @name is not a valid name.
 */
int mlx5dvl_ctx_counter(const struct mlx5dvl_ctx *ctx, const char *name, uint64_t *value_p);

enum mlx5dvl_event {
	MLX5DVL_EVENT_NONE, /* no event */
	MLX5DVL_EVENT_PORT_DOWN, /* the context's port went down */
	MLX5DVL_EVENT_PORT_UP, /* the port is active; new QPs use its present addresses */
	MLX5DVL_EVENT_FATAL, /* the device is lost: completions may never come */
	MLX5DVL_EVENT_OTHER, /* any other event */
	MLX5DVL_EVENT_QUEUE, /* a CQ or SRQ has failed: treat as FATAL, for this context only */
	MLX5DVL_EVENT_QP, /* a QP has failed, for example because of a peer's wrong request */
	MLX5DVL_EVENT_DRAINED, /* a QP with an SRQ has stopped and uses no receive any more */
	MLX5DVL_EVENT_ADDRESS, /* LID, GID or P_Key table has changed; new QPs use the new
				  addresses */
};

/*
 * Report the asynchronous events of the device and of the context. The fd is readable when there is
 * an event, and mlx5dvl_ctx_event() consumes the event without blocking. Programs may ignore these
 * events. Several events of the same kind (and of the same QP) that were not consumed may be
 * reported as one event, in the place of the last of them. The fd belongs to the context: neither
 * read nor close it. mlx5dvl_ctx_fd() returns the fd, mlx5dvl_ctx_event() the kind of the event, or
 * MLX5DVL_EVENT_NONE if there is none.
 */
int mlx5dvl_ctx_fd(const struct mlx5dvl_ctx *ctx);
enum mlx5dvl_event mlx5dvl_ctx_event(struct mlx5dvl_ctx *ctx);

/*
 * Consumes an event like mlx5dvl_ctx_event(), and sets *qp_p to the QP of EVENT_QP and
 * EVENT_DRAINED, else to NULL. Returns the kind of the event.
 */
enum mlx5dvl_event mlx5dvl_ctx_event_qp(struct mlx5dvl_ctx *ctx, struct mlx5dvl_qp **qp_p);

/*
 * The relation between the time of day and the device's clock, which stamps completions. Unless a
 * PTP client synchronises the two clocks, they drift apart by parts per million. Compare a stamp
 * only with times of the same host.
 */
struct mlx5dvl_clock {
	uint64_t ns, stamp; /* CLOCK_REALTIME in nanoseconds, and the stamp at that time */
	uint64_t frac, mask; /* this line and the next: for mlx5dvl_clock_ns() */
	uint32_t mult, shift;
	uint64_t valid_ns; /* call mlx5dvl_ctx_clock() again within this time */
};

/*
 * Reads the relation of the device's clock to the time of day, without a system call. Returns 0.
 * -EOPNOTSUPP: the device or its driver does not offer the relation. -EAGAIN: the driver is
 * updating it; try again.
 */
int mlx5dvl_ctx_clock(struct mlx5dvl_ctx *ctx, struct mlx5dvl_clock *clock_p);

/* Returns the time of a stamp, which must be at most clock->valid_ns before or after clock->ns. */
uint64_t mlx5dvl_clock_ns(const struct mlx5dvl_clock *clock, uint64_t stamp);

/* ---- memory regions ------------------------------------------------------------ */

enum mlx5dvl_access {
	MLX5DVL_LOCAL_WRITE = 1 << 0, /* target of receives and of results of READ and atomics */
	MLX5DVL_REMOTE_WRITE = 1 << 1, /* needs LOCAL_WRITE */
	MLX5DVL_REMOTE_READ = 1 << 2,
	MLX5DVL_REMOTE_ATOMIC = 1 << 3, /* needs LOCAL_WRITE */
};

struct mlx5dvl_mr {
	void *addr;
	size_t len;
	uint32_t lkey; /* for local addresses of a request */
	uint32_t rkey; /* for a peer's access to this memory */
	void *priv;
};

/*
 * Registers [addr, addr+len) with @access (flags of enum mlx5dvl_access). The caller owns the
 * memory and must keep it mapped until mlx5dvl_mr_dereg(). Returns 0. -EINVAL: @access lacks
 * LOCAL_WRITE although another flag needs it, or has an unknown flag, or @len is 0. -EFAULT: the
 * memory is not mapped, or it is not writable although @access has LOCAL_WRITE. -ENOMEM: the
 * locked-memory limit (ulimit -l) or device resources.
 */
int mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);

/*
 * Registers @len bytes of a dma-buf (memory of a GPU, for example), beginning at @offset, as
 * mlx5dvl_mr_reg() registers memory. Requests use the addresses from @iova on for these bytes;
 * @iova and @offset must be equal modulo 4096. The caller may close @fd afterwards. -EBADF,
 * -EINVAL: @fd is not a dma-buf, or is too short. -EOPNOTSUPP: the adapter, its driver or the
 * kernel does not support dma-bufs.
 */
int mlx5dvl_mr_reg_dmabuf(struct mlx5dvl_ctx *ctx, int fd, uint64_t offset, size_t len,
	uint64_t iova, unsigned access, struct mlx5dvl_mr *mr_p);

/* Deregisters the region, which no request may use any more. A zeroed struct is allowed. */
void mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);

/* ---- shared receive queue ------------------------------------------------------ */

struct mlx5dvl_srq_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including lkey */
	uint32_t depth; /* number of receives, at most 32,767; 0: 1024 */
	/*
	 * Memory for SENDs with data. If the following fields are zero, receives have no memory,
	 * which is sufficient for WRITE_IMM and empty SENDs. The data of receive i is written to
	 * buf + i * buf_size; if the depth is 1, always to buf.
	 */
	void *buf; /* at least mlx5dvl_srq_buf_len(depth, buf_size) bytes, registered */
	uint32_t buf_size;
	uint32_t lkey;
};

/* Returns the size in bytes that attr.buf must have for an SRQ with this depth. */
size_t mlx5dvl_srq_buf_len(uint32_t depth, uint32_t buf_size);

/*
 * Creates an SRQ and posts all its receives. Returns 0. -E2BIG: see Sizes. -EINVAL: buf_size
 * without buf, or depth > 32,767. -ENOMEM, or an error of the driver.
 */
int mlx5dvl_srq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_srq_attr *attr,
	struct mlx5dvl_srq **srq_p);

/* Destroys an SRQ. @srq may be NULL. Returns 0, or -EBUSY while a CQ uses @srq. */
int mlx5dvl_srq_destroy(struct mlx5dvl_srq *srq);

/*
 * hot. Posts all consumed receives again if fewer than two thirds are posted. Call this function
 * after mlx5dvl_mono_poll(), which stores the CQ's consumer index for the device: if the device saw
 * the receives before the index, the CQ could overrun. Returns the number of receives posted.
 */
MLX5DVL_INLINE uint32_t mlx5dvl_srq_refill(struct mlx5dvl_srq *srq);

/* hot. Returns true if fewer than two thirds of the receives are posted, so that
 * mlx5dvl_srq_refill() would post receives. */
MLX5DVL_INLINE bool mlx5dvl_srq_due(const struct mlx5dvl_srq *srq);

/* hot. Returns the number of receives that the device can use without a refill. */
MLX5DVL_INLINE uint32_t mlx5dvl_srq_posted(const struct mlx5dvl_srq *srq);

/* ---- completion queues --------------------------------------------------------- */

struct mlx5dvl_cq_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including events */
	uint32_t depth; /* 0: for a receive CQ the depth of the SRQ, for a send CQ 4096; rounded up
			   to a power of two, at least 64 */
	struct mlx5dvl_srq *srq; /* not NULL: a receive CQ, for QPs that receive only from this SRQ;
				    NULL: a send CQ */
	uint32_t cqe_size; /* bytes: 64 or 128; 0: 64 */
	bool compress; /* the device may compress completions (mini-CQEs); not tested on hardware */
	bool force_compress; /* allow `compress` for a receive CQ, where all completions of a
				compressed run then have the same immediate */
	bool events; /* the CQ can be armed: mlx5dvl_cq_fd(), mlx5dvl_cq_arm() */
	unsigned set; /* 0 or MLX5DVL_SET_VECTOR of enum mlx5dvl_ctx_set */
	/* The completion vector, that is, the interrupt. 0 and not set: the vector of the context.
	 * The contexts of a process get the device's vectors in turn; the first vector is the
	 * number of the processor on which the first context was opened, modulo the number
	 * of vectors. */
	uint32_t vector;
	/* Moderation: the event of an armed CQ waits for event_count completions, but for at most
	 * event_period_us microseconds, which must be > 0 if the count is > 1. Both 0: the event
	 * does not wait. */
	uint16_t event_count;
	uint16_t event_period_us;
};

/*
 * Creates a CQ. Returns 0. -E2BIG: see Sizes. -EINVAL: a receive CQ less deep than its SRQ (it
 * could overrun), depth > 2^22, a cqe_size other than 64 and 128, a vector that the device does not
 * have, or event_count > 1 without a period (the last completions would never cause an event).
 * -EOPNOTSUPP: the device cannot compress, or `compress` is set for a receive CQ without
 * force_compress; create the CQ without compression. -ENOMEM, or an error of the driver, for
 * example if the device does not support the moderation.
 */
int mlx5dvl_cq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_cq_attr *attr,
	struct mlx5dvl_cq **cq_p);

/* Destroys a CQ. @cq may be NULL. Returns 0, or -EBUSY while a QP uses @cq. */
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

/* @qp is never NULL. The handler may post, ring, and destroy any QP, including @qp; it must not
 * poll. */
typedef void mlx5dvl_recv_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv);

/*
 * hot. Consumes up to @max completions of a receive CQ and calls fn(arg, qp, recv) for each, in the
 * device's order. Errors go to on_error of the context. The function is inlined: if the compiler
 * sees the body of @fn, no call remains. Completions of destroyed QPs are dropped. Returns the
 * number of consumed completions; errors and dropped completions are included.
 */
MLX5DVL_INLINE int mlx5dvl_mono_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_recv_fn *fn,
	void *arg);

/*
 * hot. Consumes the next completion, like mlx5dvl_mono_poll(), if it is that of a successful WRITE
 * with immediate, posted without MLX5DVL_SOLICITED, and is not compressed. Returns true if it has
 * consumed the completion, otherwise false; mlx5dvl_cq_ready() then shows whether there is a
 * completion of another kind.
 *
 * mlx5dvl_cq_release() lets the device reuse the CQEs of all consumed completions.
 * mlx5dvl_mono_poll() does the same, but only if it consumes a completion; otherwise call
 * mlx5dvl_cq_release() before mlx5dvl_srq_refill(). Until the refill the CQ cannot overrun, because
 * it has a CQE for each receive.
 */
MLX5DVL_INLINE bool mlx5dvl_mono_take_write(struct mlx5dvl_cq *cq, mlx5dvl_recv_fn *fn, void *arg);
MLX5DVL_INLINE void mlx5dvl_cq_release(struct mlx5dvl_cq *cq);

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
	uint64_t stamp; /* device time of the completion; mlx5dvl_clock_ns() converts it */
};

/* Like mlx5dvl_recv_fn: the handler may post, ring, and destroy any QP; it must not poll. */
typedef void mlx5dvl_sent_fn(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent);

/*
 * hot. Consumes up to @max completions of a send CQ, frees the slots of the send queues, and calls
 * fn(arg, qp, sent) for each request that was posted with MLX5DVL_SIGNALED. Other requests complete
 * without a report; the library itself signals a request about every 64 blocks. Errors of all
 * requests, signaled or not, go to on_error. Returns the number of consumed completions.
 */
MLX5DVL_INLINE int mlx5dvl_send_poll(struct mlx5dvl_cq *cq, int max, mlx5dvl_sent_fn *fn,
	void *arg);

/*
 * Sleep instead of polling, for a CQ created with attr.events. To lose no completion: arm the CQ;
 * check it with mlx5dvl_cq_ready() (or poll once more); if there is no completion, wait until the
 * fd is readable (poll(2), epoll); then call mlx5dvl_cq_event() and poll the CQ. The fd is
 * non-blocking. Arming a CQ causes one event: for the first completion that was not consumed before
 * the CQ was armed.
 *
 * mlx5dvl_cq_fd() returns the fd, which belongs to the CQ. -EINVAL: the CQ was created without
 * attr.events.
 *
 * mlx5dvl_cq_event() returns 1 if it has consumed an event, or 0 if there was none.
 */
int mlx5dvl_cq_fd(const struct mlx5dvl_cq *cq);
void mlx5dvl_cq_arm(struct mlx5dvl_cq *cq);
int mlx5dvl_cq_event(struct mlx5dvl_cq *cq);

/* Returns the completion vector of the CQ. */
uint32_t mlx5dvl_cq_vector(const struct mlx5dvl_cq *cq);

/* hot. Returns true if there is a completion to consume. */
MLX5DVL_INLINE bool mlx5dvl_cq_ready(const struct mlx5dvl_cq *cq);

/* hot. Returns the number of completions consumed since creation, modulo 2^32. */
MLX5DVL_INLINE uint32_t mlx5dvl_cq_count(const struct mlx5dvl_cq *cq);

/* ---- queue pairs --------------------------------------------------------------- */

enum mlx5dvl_qp_type {
	MLX5DVL_RC, /* reliable connection: all operations */
	MLX5DVL_UC, /* unreliable connection: WRITE and SEND; losses are not reported */
	MLX5DVL_UD, /* unreliable datagrams: SEND, with mlx5dvl_post_list() and an address */
};

/* Bytes before a datagram's payload in the receive's memory, included in mlx5dvl_recv.len. */
#define MLX5DVL_GRH_BYTES 40

/* Bits of `set`, for fields in which 0 is a valid value: if the bit is set, 0 means 0; otherwise 0
 * means the default. */
enum mlx5dvl_qp_set {
	MLX5DVL_SET_TIMEOUT = 1 << 0,
	MLX5DVL_SET_RETRY_CNT = 1 << 1,
	MLX5DVL_SET_RNR_RETRY = 1 << 2,
	MLX5DVL_SET_MIN_RNR_TIMER = 1 << 3,
};

struct mlx5dvl_qp_attr {
	size_t size; /* of this struct, see Sizes; 0: the fields up to and including qkey */
	struct mlx5dvl_cq *send_cq; /* required */
	struct mlx5dvl_cq *recv_cq; /* a CQ with an SRQ; NULL: this QP receives nothing */
	void *user; /* mlx5dvl_qp_user() returns it */
	uint32_t sq_depth; /* of the send queue, in blocks of 64 bytes (a request takes 1 to 4);
			      rounded up to a power of two, 16 to 32,768; 0: 256 */
	/* Values as in InfiniBand; 0 means the default that is stated, unless the field's bit is in
	 * `set`. */
	uint8_t mtu; /* 1 (256) to 5 (4096), but not above the port's; 0: the port's. The smaller
			MTU of both ends is used */
	uint8_t timeout; /* a request is repeated after 4.096 us * 2^timeout; at most 31; 0: 14 (67
			    ms); 0 and set: never */
	uint8_t retry_cnt; /* 1 to 7 repetitions; 0: 7; 0 and set: none */
	uint8_t rnr_retry; /* retries if the peer has no receive: 1 to 6; 0 (and not set) or 7: for
			      ever; 0 and set: none */
	uint8_t min_rnr_timer; /* InfiniBand's code of the time that a peer must wait if this QP has
				  no receive: 1 to 31; 0: 12 (0.64 ms); 0 and set: 655 ms */
	uint8_t rd_atomic; /* outstanding READs and atomics in each direction, 1 to 16; 0: 4 */
	uint8_t sl; /* service level, 0 to 15; on RoCE the priority */
	uint8_t traffic_class; /* of the global route header: on RoCE v2 DSCP << 2 */
	uint32_t flow_label; /* of the global route header, 20 bits */
	unsigned set; /* bits of enum mlx5dvl_qp_set */
	bool no_remote; /* refuse WRITEs, READs and atomics of the peer */
	uint8_t type; /* enum mlx5dvl_qp_type; 0: MLX5DVL_RC. Only RC has retries, RNR and READs */
	uint32_t qkey; /* UD: datagrams to this QP must have it; below 2^31 */
};

/*
 * Creates a QP. Returns 0. -E2BIG: see Sizes. -EINVAL: an attribute out of range, or a CQ of
 * another context or of the wrong kind. -ENOSPC: the send CQ is less deep than the sum of the send
 * queues that use it (each request may need a completion when a QP fails); create a deeper CQ, or
 * wait until destroyed QPs are freed. -ENOMEM, or an error of the driver.
 */
int mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p);

/* Checks the attributes of a QP without creating it. Returns 0, or -E2BIG or -EINVAL as
 * mlx5dvl_qp_create() would. */
int mlx5dvl_qp_check(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr);

/*
 * Destroys the QP without waiting. Requests that have not completed are not reported any more, and
 * the QP's completions that are still in a CQ are dropped. Handlers may call this function. @qp may
 * be NULL.
 *
 * The device may still hold a receive of the SRQ for an RC QP. The library therefore stops the QP
 * first, and frees it when the device has reported that the QP is drained. Until then the QP's send
 * queue still occupies room in the send CQ. The functions that create or destroy a QP, and
 * mlx5dvl_ctx_retired(), check for these reports. If the device makes no report, these functions
 * free the QP after a second; the SRQ may then have one receive less.
 *
 * mlx5dvl_ctx_retired() returns the number of destroyed QPs that are not freed yet.
 */
void mlx5dvl_qp_destroy(struct mlx5dvl_qp *qp);
uint32_t mlx5dvl_ctx_retired(struct mlx5dvl_ctx *ctx);

/* The data that the peer needs to connect. Send it to the peer by any means, in any encoding. If
 * the program's struct lacks a field, or the program does not send a field, the peer must pass 0
 * for that field. */
struct mlx5dvl_qp_info {
	uint32_t qpn; /* 24 bits */
	uint32_t psn; /* 24 bits, random */
	uint16_t lid; /* 0 on RoCE */
	uint8_t mtu; /* 1 to 5 */
	uint8_t rd_atomic; /* READs and atomics that this side serves in parallel */
	uint8_t gid[16]; /* all zero: addressed by LID; both ends must use the same kind of
			    address */
	uint32_t qkey; /* of a UD QP, else 0 */
};

/* Writes the data that the peer needs to connect. @size must be sizeof(*info_p). If the library is
 * older than the program, the fields that the library does not know become 0. */
void mlx5dvl_qp_get_info(const struct mlx5dvl_qp *qp, struct mlx5dvl_qp_info *info_p, size_t size);

/*
 * Connects to the peer (INIT -> RTR -> RTS). @size must be sizeof(*peer). A UD QP has no peer:
 * @peer must be NULL. Sending is allowed after both sides have connected. Returns 0. -E2BIG: see
 * Sizes. -EINVAL: a field of @peer is out of range, @peer has no LID on InfiniBand, only one side
 * has a GID, or @peer is NULL for an RC or UC QP or not NULL for a UD QP. -EISCONN: the QP is
 * connected or has failed, and is unchanged. Otherwise an error of the driver (-ETIMEDOUT,
 * -EHOSTUNREACH: RoCE cannot resolve the GID). After an error other than -EISCONN, the QP is
 * unchanged if mlx5dvl_qp_status() still returns -ENOTCONN; otherwise it can only be destroyed.
 */
int mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer, size_t size);

/*
 * Moves the QP to its error state: announced requests are flushed and reported to on_error, further
 * posts return -ENOTCONN, and the peer's requests fail. Requests that were posted but not announced
 * are flushed and reported only after mlx5dvl_ring(). Returns 0 or an error of the driver.
 */
int mlx5dvl_qp_to_error(struct mlx5dvl_qp *qp);

/* Returns 0 if the QP is connected, -ENOTCONN if not yet, else the error that stopped the QP
 * (struct mlx5dvl_error) or that mlx5dvl_qp_connect() returned. If the device has stopped the QP,
 * the function returns 0 until a poll has consumed an error completion of the QP, even if EVENT_QP
 * has reported the failure before. */
int mlx5dvl_qp_status(const struct mlx5dvl_qp *qp);

/* hot. Returns the pointer `user` of struct mlx5dvl_qp_attr. */
MLX5DVL_INLINE void *mlx5dvl_qp_user(const struct mlx5dvl_qp *qp);

/* hot. Returns the number of the QP. */
MLX5DVL_INLINE uint32_t mlx5dvl_qp_qpn(const struct mlx5dvl_qp *qp);

/* ---- posting (all hot) --------------------------------------------------------- */

enum mlx5dvl_flags {
	MLX5DVL_SIGNALED = 1 << 0, /* mlx5dvl_send_poll() reports the completion */
	MLX5DVL_SOLICITED = 1 << 1, /* the receiver's completion is solicited: it also wakes a
				       program that waits for solicited completions only */
	MLX5DVL_FENCE = 1 << 2, /* start after earlier READs and atomics have completed */
	MLX5DVL_BY_REF = 1 << 3, /* do not copy payload into the request: the device reads it
				    from laddr, which must not change until completion */
};

/*
 * Write one request into the send queue. mlx5dvl_ring() announces it to the device.
 *
 * @laddr, @lkey, @len: the payload (for READ and atomics: memory for the result), at most 2^30
 * bytes; @len may be 0, and @laddr and @lkey are then unused. A payload of at most
 * MLX5DVL_INLINE_MAX (220) bytes is copied into the request: @lkey is not used, and @laddr may be
 * reused after the return. If the payload is longer, its first 204 bytes are copied, and the device
 * reads the rest from @laddr at any time until completion. If @len is constant, the copy and the
 * layout of the request are chosen at compile time. @raddr, @rkey: memory of the peer. @imm: host
 * byte order. @flags: enum mlx5dvl_flags. @token: returned in struct mlx5dvl_sent and struct
 * mlx5dvl_error.
 *
 * Returns 0. -EAGAIN: the send queue is full; call mlx5dvl_ring() and mlx5dvl_send_poll(), then
 * retry. -ENOTCONN: the QP is not connected or has failed.
 */
MLX5DVL_INLINE int mlx5dvl_post_write(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token);
MLX5DVL_INLINE int mlx5dvl_post_write_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, uint32_t imm, unsigned flags, uint64_t token);
MLX5DVL_INLINE int mlx5dvl_post_read(struct mlx5dvl_qp *qp, void *laddr, uint32_t lkey,
	uint32_t len, uint64_t raddr, uint32_t rkey, unsigned flags, uint64_t token);
MLX5DVL_INLINE int mlx5dvl_post_send(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, unsigned flags, uint64_t token);
MLX5DVL_INLINE int mlx5dvl_post_send_imm(struct mlx5dvl_qp *qp, const void *laddr, uint32_t lkey,
	uint32_t len, uint32_t imm, unsigned flags, uint64_t token);

/*
 * Post a WRITE with immediate whose payload the caller has already written into the request. The
 * payload has @len bytes, 1 to MLX5DVL_INLINE_MAX, and begins at @here, the result of
 * mlx5dvl_sq_here(). The caller may write up to the end of the request's last block, that is (36 +
 * @len, rounded up to a multiple of 64) - 36 bytes; bytes after the payload are not sent. The
 * caller must have checked that mlx5dvl_sq_fits() is true for @len; then the function cannot fail.
 * @rkey_word: the result of mlx5dvl_rkey_word() for the remote key; it stays valid as long as the
 * key. The other parameters are those of mlx5dvl_post_write_imm().
 *
 * mlx5dvl_rkey_word() returns the word, mlx5dvl_sq_here() the address for the payload.
 */
MLX5DVL_INLINE uint64_t mlx5dvl_rkey_word(uint32_t rkey);
MLX5DVL_INLINE void *mlx5dvl_sq_here(const struct mlx5dvl_qp *qp);
MLX5DVL_INLINE void mlx5dvl_post_write_imm_here(struct mlx5dvl_qp *qp, void *here, uint32_t len,
	uint64_t raddr, uint64_t rkey_word, uint32_t imm, unsigned flags, uint64_t token);

/* Posts a request without effect. With MLX5DVL_SIGNALED it completes after all earlier requests.
 * Returns the same as mlx5dvl_post_write(). */
MLX5DVL_INLINE int mlx5dvl_post_nop(struct mlx5dvl_qp *qp, unsigned flags, uint64_t token);

/* Modify the 8 bytes of the peer's memory at @raddr, a multiple of 8: add @add, or, if they equal
 * @compare, replace them by @swap. *laddr becomes the previous value. The operation is atomic with
 * respect to requests through the same device, but not to the CPU. Return the same as
 * mlx5dvl_post_write(). */
MLX5DVL_INLINE int mlx5dvl_post_fetch_add(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t add, unsigned flags, uint64_t token);
MLX5DVL_INLINE int mlx5dvl_post_cmp_swap(struct mlx5dvl_qp *qp, uint64_t *laddr, uint32_t lkey,
	uint64_t raddr, uint32_t rkey, uint64_t compare, uint64_t swap, unsigned flags,
	uint64_t token);

/* ---- lists and datagrams ------------------------------------------------------- */

struct mlx5dvl_ah;

/*
 * Creates the address of @peer for datagrams of @qp, with the Q_Key of @peer and the service level
 * and traffic class of @qp. @size must be sizeof(*peer). Returns 0. -E2BIG: see Sizes. -EINVAL: @qp
 * is not UD, or a field of @peer is out of range (see mlx5dvl_qp_connect()), or the Q_Key of @peer
 * is 2^31 or more. -ENOMEM, or an error of the driver.
 */
int mlx5dvl_ah_create(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer, size_t size,
	struct mlx5dvl_ah **ah_p);

/* Destroys an address. Requests that were posted with @ah are not affected. @ah may be NULL. */
void mlx5dvl_ah_destroy(struct mlx5dvl_ah *ah);

#define MLX5DVL_LIST_MAX 4

struct mlx5dvl_sge {
	const void *addr; /* of the payload; for READ, of the result */
	uint32_t lkey;
	uint32_t len; /* 0: skipped */
};

struct mlx5dvl_list {
	uint8_t opcode; /* MLX5DVL_WRITE, _WRITE_IMM, _READ, _SEND or _SEND_IMM; for UD only the
			   last two */
	uint8_t nsge; /* 0 to MLX5DVL_LIST_MAX */
	const struct mlx5dvl_sge *sge;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t imm;
	const struct mlx5dvl_ah *ah; /* UD: the receiver; else NULL */
	unsigned flags; /* enum mlx5dvl_flags; MLX5DVL_BY_REF is implied: the payload is never
			   copied */
	uint64_t token;
};

/*
 * Posts one request with several data segments, or a datagram. The function is not inlined. Returns
 * 0. -EAGAIN, -ENOTCONN: as from mlx5dvl_post_write(). -EINVAL: an opcode or a number of segments
 * that is not allowed, an address with a connected QP, or no address with UD.
 */
int mlx5dvl_post_list(struct mlx5dvl_qp *qp, const struct mlx5dvl_list *list);

/* Returns the number of requests, of any size, that can be posted now without -EAGAIN. */
MLX5DVL_INLINE uint32_t mlx5dvl_sq_room(const struct mlx5dvl_qp *qp);

/* hot. Returns true if mlx5dvl_sq_room() is 0, but is faster than that function. */
MLX5DVL_INLINE bool mlx5dvl_sq_full(const struct mlx5dvl_qp *qp);

/*
 * hot. Returns true if a WRITE of @len bytes is known to fit, so that mlx5dvl_post_write_imm_here()
 * may post it. If the result is false, call mlx5dvl_sq_update(), which takes account of all
 * completions that were consumed, and try again. If the result is still false, the QP is not
 * connected or has failed, the ring is full, or the request does not fit before the ring's end. In
 * the last case the other functions can post the WRITE, because they fill the ring's end with NOPs.
 */
MLX5DVL_INLINE bool mlx5dvl_sq_fits(const struct mlx5dvl_qp *qp, uint32_t len);
void mlx5dvl_sq_update(struct mlx5dvl_qp *qp);

/* Returns the number of NOPs posted since creation because a request did not fit before the ring's
 * end. */
MLX5DVL_INLINE uint64_t mlx5dvl_sq_fillers(const struct mlx5dvl_qp *qp);

/*
 * Announces all requests posted since the last mlx5dvl_ring() to the device, with one doorbell. If
 * only one request is new and the device supports BlueFlame, the request is written along with the
 * doorbell; otherwise the device fetches the requests from memory. Does nothing if there is no new
 * request.
 */
MLX5DVL_INLINE void mlx5dvl_ring(struct mlx5dvl_qp *qp);

/* hot. Announces requests like mlx5dvl_ring(); at least one must have been posted since the last
 * doorbell. */
MLX5DVL_INLINE void mlx5dvl_ring_new(struct mlx5dvl_qp *qp);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#include "mlx5dvl_inline.h"

#endif
