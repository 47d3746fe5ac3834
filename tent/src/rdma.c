/* SPDX-License-Identifier: MIT */
/*
 * The transport of adapters. A link is a queue pair with its own completion queues, so it can be
 * destroyed without the others.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "mlx5dvl.h"
#include "transport.h"
#include "why.h"

#define SEND_BLOCKS 256 /* each slice, mark or probe needs one; the queue's end may be padding */
/*
 * After each refill at least two thirds of the receives are posted. A rail carries at most
 * NOTICE_SLOTS marks at a time for itself, and as many for each failed rail. So the receives
 * suffice while at most four rails have failed. If more have failed, marks may have to be sent
 * again.
 */
#define RECEIVES 128
#define PAGE 4096
#define STALL_NS (20 * NSEC_PER_MSEC) /* a process may be descheduled for that long */

struct rdma_port {
	struct port port;
	struct mlx5dvl_ctx *ctx;
};

/* The end of a link in control messages, little-endian. */
struct rdma_end {
	uint32_t qpn, psn;
	uint16_t lid;
	uint8_t mtu, rd_atomic;
	uint8_t gid[16];
};

static_assert(sizeof(struct rdma_end) <= LINK_END_LEN, "a message has room for it");

struct rdma_link {
	struct link link;
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq; /* target only; mr and receives are its memory */
	struct mlx5dvl_mr mr;
	void *receives;
	struct mlx5dvl_cq *scq, *rcq;
	struct mlx5dvl_qp *qp;
	bool armed[2]; /* scq, rcq */
	/* The callbacks of the current poll; on_error() needs them. */
	link_done_fn *done;
	void *done_arg;
	link_mark_fn *mark;
	void *mark_arg;
};

static void on_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct rdma_link *l = mlx5dvl_qp_user(qp);

	if (error->is_recv)
		return;
	l->link.posted--;
	if (l->done)
		l->done(l->done_arg, error->token, error->err);
}

/* ---- ports ---- */

static struct mlx5dvl_ctx *ctx_of(struct port *p)
{
	return container_of(p, struct rdma_port, port)->ctx;
}

static int rdma_find(const struct tent_attr *attr, char names[TENT_MAX_RAILS][TENT_NAME_LEN],
	struct tent_why *why)
{
	int n = mlx5dvl_devices(TENT_MAX_RAILS, names);

	static_assert(TENT_NAME_LEN == MLX5DVL_NAME_LEN, "a rail has the name of its adapter");
	return n > 0 ? n :
		       why_say(why, n ? n : -ENODEV,
			       "there is no adapter: see ibv_devinfo(1), or use shm_rails or, if size is set, tcp_rails");
}

static void rdma_close(struct port *p)
{
	mlx5dvl_ctx_close(ctx_of(p));
	free(container_of(p, struct rdma_port, port));
}

static int open_device(const char *name, struct rdma_port *r)
{
	const struct mlx5dvl_ctx_attr attr = {.device = name, .on_error = on_error};
	struct mlx5dvl_port port;
	int err = mlx5dvl_ctx_open(&attr, &r->ctx);

	if (err)
		return err;
	err = mlx5dvl_ctx_get_port(r->ctx, &port, sizeof(port));
	if (err) {
		mlx5dvl_ctx_close(r->ctx);
		return err;
	}
	r->port = (struct port){
		.id.kind = port.ethernet ? "roce" : "ib",
		.gbps = port.mbps / 1e3,
		.max_region = port.max_mr_len,
		.fd = mlx5dvl_ctx_fd(r->ctx),
	};
	strncpy(r->port.id.name, name, sizeof(r->port.id.name) - 1);
	memcpy(r->port.id.gid, port.gid, sizeof(r->port.id.gid));
	return 0;
}

static int rdma_open(const struct tent_attr *attr, const char *name, bool named, struct port **p_p,
	struct tent_why *why)
{
	struct rdma_port *r = calloc(1, sizeof(*r));
	int err = r ? open_device(name, r) : -ENOMEM;

	if (!err) {
		*p_p = &r->port;
		return 0;
	}
	free(r);
	if (err == -ENETDOWN && !named)
		return err;
	return why_say(why, err, "rail %s: %s", name,
		err == -ENODEV ? "there is no such adapter" : strerror(-err));
}

/*
 * An event may be old and report an outage that is over. So the result is the port's current state,
 * which is also what the engine sends to the peers.
 */
static bool rdma_event(struct port *p, bool *up_p)
{
	struct mlx5dvl_port port;
	enum mlx5dvl_event e;
	bool some = false;

	while ((e = mlx5dvl_ctx_event(ctx_of(p))) != MLX5DVL_EVENT_NONE) {
		p->dead |= e == MLX5DVL_EVENT_FATAL;
		some |= e != MLX5DVL_EVENT_OTHER;
	}
	if (some)
		*up_p = !mlx5dvl_ctx_get_port(ctx_of(p), &port, sizeof(port)) && port.active &&
			!p->dead;
	return some;
}

/* ---- regions ---- */

#define ACCESS (MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE | MLX5DVL_REMOTE_READ)

/* Frees @mr if its registration has failed with @err, else writes a region. Returns @err. */
static int take_region(struct mlx5dvl_mr *mr, int err, struct region *r_p)
{
	if (err)
		free(mr);
	else
		*r_p = (struct region){mr->lkey, mr->rkey, mr};
	return err;
}

static int rdma_add(struct port *p, uint64_t addr, uint64_t len, struct region *r_p)
{
	struct mlx5dvl_mr *mr = calloc(1, sizeof(*mr));
	void *at = (void *)(uintptr_t)addr;

	return take_region(mr, mr ? mlx5dvl_mr_reg(ctx_of(p), at, len, ACCESS, mr) : -ENOMEM, r_p);
}

static int rdma_add_dmabuf(struct port *p, int fd, uint64_t offset, uint64_t addr, uint64_t len,
	struct region *r_p)
{
	struct mlx5dvl_mr *mr = calloc(1, sizeof(*mr));
	int err =
		mr ? mlx5dvl_mr_reg_dmabuf(ctx_of(p), fd, offset, len, addr, ACCESS, mr) : -ENOMEM;

	return take_region(mr, err, r_p);
}

static void rdma_remove(struct region *r)
{
	mlx5dvl_mr_dereg(r->own);
	free(r->own);
}

/* ---- links ---- */

static struct rdma_link *to_rdma(struct link *l)
{
	return container_of(l, struct rdma_link, link);
}

static void rdma_end(const struct link *link, struct link_end *end_p)
{
	struct mlx5dvl_qp_info info;
	struct rdma_end end;

	mlx5dvl_qp_get_info(container_of(link, const struct rdma_link, link)->qp, &info,
		sizeof(info));
	end = (struct rdma_end){info.qpn, info.psn, info.lid, info.mtu, info.rd_atomic, {0}};
	memcpy(end.gid, info.gid, sizeof(end.gid));
	*end_p = (struct link_end){0};
	memcpy(end_p->bytes, &end, sizeof(end));
}

/*
 * In one network, no two QPs have the same number and address. If the peer's QP has those of this
 * QP, it is in another network, and messages to it would come back to this QP.
 */
static bool is_own_end(const struct link *link, const struct rdma_end *peer)
{
	struct link_end own;
	struct rdma_end end;

	rdma_end(link, &own);
	memcpy(&end, own.bytes, sizeof(end));
	return end.qpn == peer->qpn && end.lid == peer->lid &&
	       !memcmp(end.gid, peer->gid, sizeof(end.gid));
}

static int rdma_connect(struct link *link, const struct link_end *peer)
{
	struct rdma_end end;
	struct mlx5dvl_qp_info info;

	memcpy(&end, peer->bytes, sizeof(end));
	if (is_own_end(link, &end))
		return -EADDRINUSE;
	info = (struct mlx5dvl_qp_info){.qpn = end.qpn,
		.psn = end.psn,
		.lid = end.lid,
		.mtu = end.mtu,
		.rd_atomic = end.rd_atomic};
	memcpy(info.gid, end.gid, sizeof(info.gid));
	return mlx5dvl_qp_connect(to_rdma(link)->qp, &info, sizeof(info));
}

/* Counts a post that has succeeded. Returns @err. */
static int posted(struct rdma_link *l, int err)
{
	l->link.posted += !err;
	return err;
}

static int rdma_post(struct link *link, const struct link_move *m)
{
	struct rdma_link *l = to_rdma(link);
	const unsigned flags = MLX5DVL_SIGNALED | MLX5DVL_BY_REF;

	if (l->link.posted >= LINK_DEPTH)
		return -EAGAIN;
	if (m->write)
		return posted(l, mlx5dvl_post_write(l->qp, m->local, m->lkey, (uint32_t)m->len,
					 m->remote, m->rkey, flags, m->token));
	return posted(l, mlx5dvl_post_read(l->qp, m->local, m->lkey, (uint32_t)m->len, m->remote,
				 m->rkey, flags, m->token));
}

static int rdma_post_probe(struct link *link, uint64_t token)
{
	struct rdma_link *l = to_rdma(link);

	return posted(l, mlx5dvl_post_write(l->qp, NULL, 0, 0, 0, 0, MLX5DVL_SIGNALED, token));
}

static int rdma_post_mark(struct link *link, const struct notice_mark *mark, uint64_t token)
{
	struct rdma_link *l = to_rdma(link);

	if (l->link.posted >= LINK_DEPTH + LINK_EXTRA - 1)
		return -EAGAIN;
	return posted(l, mlx5dvl_post_send(l->qp, mark, 0, sizeof(*mark), MLX5DVL_SIGNALED, token));
}

static void rdma_flush(struct link *link)
{
	mlx5dvl_ring(to_rdma(link)->qp);
}

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct rdma_link *l = arg;

	l->link.posted--;
	l->done(l->done_arg, sent->token, 0);
}

static int rdma_poll(struct link *link, link_done_fn *fn, void *arg)
{
	struct rdma_link *l = to_rdma(link);
	int n;

	l->done = fn;
	l->done_arg = arg;
	n = mlx5dvl_send_poll(l->scq, LINK_DEPTH, on_sent, l);
	l->done = NULL;
	return n;
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct rdma_link *l = arg;
	struct notice_mark mark;

	if (recv->opcode != MLX5DVL_RECV_SEND || recv->len != sizeof(mark))
		return;
	memcpy(&mark, recv->buf, sizeof(mark));
	l->mark(l->mark_arg, &mark);
}

static int rdma_poll_marks(struct link *link, int max, link_mark_fn *fn, void *arg)
{
	struct rdma_link *l = to_rdma(link);
	int n;

	if (!l->rcq || max <= 0)
		return 0;
	l->mark = fn;
	l->mark_arg = arg;
	n = mlx5dvl_mono_poll(l->rcq, max, on_recv, l);
	mlx5dvl_srq_refill(l->srq);
	return n;
}

static int rdma_stop(struct link *link)
{
	struct mlx5dvl_qp *qp = to_rdma(link)->qp;

	return mlx5dvl_qp_status(qp) == -ENOTCONN ? 0 : mlx5dvl_qp_to_error(qp);
}

static void rdma_arm(struct link *link)
{
	struct rdma_link *l = to_rdma(link);

	if (!l->armed[0] && l->link.posted)
		mlx5dvl_cq_arm(l->scq);
	l->armed[0] |= l->link.posted != 0;
	/*
	 * While marks wait for room in the ring of notices, arming would cause an event at once;
	 * next_due() makes the thread poll meanwhile.
	 */
	if (!l->rcq || l->armed[1] || mlx5dvl_cq_ready(l->rcq))
		return;
	mlx5dvl_cq_arm(l->rcq);
	l->armed[1] = true;
}

static void rdma_disarm(struct link *link)
{
	struct rdma_link *l = to_rdma(link);

	if (l->armed[0] && mlx5dvl_cq_event(l->scq))
		l->armed[0] = false;
	if (l->rcq && l->armed[1] && mlx5dvl_cq_event(l->rcq))
		l->armed[1] = false;
}

static void rdma_destroy(struct link *link)
{
	struct rdma_link *l = to_rdma(link);

	mlx5dvl_qp_destroy(l->qp);
	mlx5dvl_cq_destroy(l->rcq);
	mlx5dvl_cq_destroy(l->scq);
	mlx5dvl_srq_destroy(l->srq);
	mlx5dvl_mr_dereg(&l->mr);
	free(l->receives);
	free(l);
}

static const struct link_ops rdma_ops = {
	.end = rdma_end,
	.connect = rdma_connect,
	.post = rdma_post,
	.post_probe = rdma_post_probe,
	.post_mark = rdma_post_mark,
	.flush = rdma_flush,
	.poll = rdma_poll,
	.poll_marks = rdma_poll_marks,
	.stop = rdma_stop,
	.arm = rdma_arm,
	.disarm = rdma_disarm,
	.destroy = rdma_destroy,
};

static int create_srq(struct rdma_link *l)
{
	struct mlx5dvl_srq_attr attr = {.depth = RECEIVES, .buf_size = sizeof(struct notice_mark)};
	size_t len = mlx5dvl_srq_buf_len(attr.depth, attr.buf_size);
	int err;

	/* Whole pages, so that no other memory is in the pinned pages. */
	len = (len + PAGE - 1) / PAGE * PAGE;
	l->receives = aligned_alloc(PAGE, len);
	if (!l->receives)
		return -ENOMEM;
	err = mlx5dvl_mr_reg(l->ctx, l->receives, len, MLX5DVL_LOCAL_WRITE, &l->mr);
	if (err)
		return err;
	attr.buf = l->receives;
	attr.lkey = l->mr.lkey;
	return mlx5dvl_srq_create(l->ctx, &attr, &l->srq);
}

static int create_receives(struct rdma_link *l)
{
	struct mlx5dvl_cq_attr attr = {.events = true};
	int err = create_srq(l);

	if (err)
		return err;
	attr.srq = l->srq;
	err = mlx5dvl_cq_create(l->ctx, &attr, &l->rcq);
	if (!err)
		l->link.fds[1] = mlx5dvl_cq_fd(l->rcq);
	return err;
}

static int create(struct port *p, bool target, struct link **l_p)
{
	const struct mlx5dvl_cq_attr cq = {.depth = SEND_BLOCKS, .events = true};
	struct rdma_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->link.ops = &rdma_ops;
	l->link.fds[0] = l->link.fds[1] = -1;
	l->ctx = ctx_of(p);
	err = mlx5dvl_cq_create(l->ctx, &cq, &l->scq);
	if (!err && target)
		err = create_receives(l);
	if (!err)
		err = mlx5dvl_qp_create(l->ctx,
			&(struct mlx5dvl_qp_attr){.send_cq = l->scq,
				.recv_cq = l->rcq,
				.user = l,
				.sq_depth = SEND_BLOCKS,
				.no_remote = !target},
			&l->qp);
	if (err) {
		rdma_destroy(&l->link);
		return err;
	}
	l->link.fds[0] = mlx5dvl_cq_fd(l->scq);
	*l_p = &l->link;
	return 0;
}

static int rdma_new(struct port *p, const struct desc *peer, struct link **l_p)
{
	return create(p, false, l_p);
}

static int rdma_accept(struct port *p, const struct link_end *theirs, struct link_end *mine_p,
	struct link **l_p)
{
	struct link *l;
	int err = create(p, true, &l);

	if (err)
		return err;
	rdma_end(l, mine_p);
	err = rdma_connect(l, theirs);
	if (err)
		rdma_destroy(l);
	else
		*l_p = l;
	return err;
}

static const char *const kinds[] = {"ib", "roce", NULL};

extern const struct transport rdma_transport;
const struct transport rdma_transport = {
	.rails = "adapters",
	.kinds = kinds,
	.regions = true,
	.marks = true,
	.bars = true,
	.beside = true,
	.blames = true,
	.stall_ns = STALL_NS,
	.asked = offsetof(struct tent_attr, adapters),
	.find = rdma_find,
	.open = rdma_open,
	.close = rdma_close,
	.event = rdma_event,
	.add = rdma_add,
	.add_dmabuf = rdma_add_dmabuf,
	.remove = rdma_remove,
	.link = rdma_new,
	.accept = rdma_accept,
};
