/* SPDX-License-Identifier: MIT */
/* Links over queue pairs. Each has completion queues of its own, so that it can go alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "link.h"

#define SEND_BLOCKS 256 /* a slice takes one, a mark one, and what fills the ring's end */
/*
 * Of these the queue has two thirds at least: more than the marks that a peer has under way on a
 * rail, if no more than five rails have failed at a time. Else they are sent again.
 */
#define RECEIVES 128
#define PAGE 4096

struct rdma_link {
	struct link link;
	struct dev *dev;
	struct mlx5dvl_srq *srq; /* of a target, with the memory of its receives */
	struct mlx5dvl_mr mr;
	void *receives;
	struct mlx5dvl_cq *scq, *rcq;
	struct mlx5dvl_qp *qp;
	bool armed[2]; /* scq, rcq */
	/* Who is polling: errors come through the context. */
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

int dev_open(const char *name, struct dev **dev_p)
{
	const struct mlx5dvl_ctx_attr attr = {.device = name, .on_error = on_error};
	struct dev *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	err = mlx5dvl_ctx_open(&attr, &d->ctx);
	if (err)
		goto free_dev;
	err = mlx5dvl_ctx_port(d->ctx, &d->port);
	if (err)
		goto close_ctx;
	strncpy(d->name, name, sizeof(d->name) - 1);
	*dev_p = d;
	return 0;

close_ctx:
	mlx5dvl_ctx_close(d->ctx);
free_dev:
	free(d);
	return err;
}

void dev_close(struct dev *d)
{
	if (!d)
		return;
	mlx5dvl_ctx_close(d->ctx);
	free(d);
}

static struct rdma_link *to_rdma(struct link *l)
{
	return container_of(l, struct rdma_link, link);
}

static void rdma_info(const struct link *link, struct mlx5dvl_qp_info *info_p)
{
	mlx5dvl_qp_info(container_of(link, const struct rdma_link, link)->qp, info_p);
}

static int rdma_connect(struct link *link, const struct mlx5dvl_qp_info *peer)
{
	return mlx5dvl_qp_connect(to_rdma(link)->qp, peer);
}

static int rdma_post(struct link *link, const struct link_move *m)
{
	struct rdma_link *l = to_rdma(link);
	const unsigned flags = MLX5DVL_SIGNALED | MLX5DVL_BY_REF;
	int err;

	if (l->link.posted >= LINK_DEPTH)
		return -EAGAIN;
	if (m->write)
		err = mlx5dvl_post_write(l->qp, m->local, m->lkey, (uint32_t)m->len, m->remote,
			m->rkey, flags, m->token);
	else
		err = mlx5dvl_post_read(l->qp, m->local, m->lkey, (uint32_t)m->len, m->remote,
			m->rkey, flags, m->token);
	if (!err)
		l->link.posted++;
	return err;
}

static int rdma_post_probe(struct link *link, uint64_t token)
{
	struct rdma_link *l = to_rdma(link);
	int err = mlx5dvl_post_write(l->qp, NULL, 0, 0, 0, 0, MLX5DVL_SIGNALED, token);

	if (!err)
		l->link.posted++;
	return err;
}

static int rdma_post_mark(struct link *link, const struct notice_mark *mark, uint64_t token)
{
	struct rdma_link *l = to_rdma(link);
	int err;

	if (l->link.posted >= LINK_DEPTH + LINK_EXTRA - 1)
		return -EAGAIN;
	err = mlx5dvl_post_send(l->qp, mark, 0, sizeof(*mark), MLX5DVL_SIGNALED, token);
	if (!err)
		l->link.posted++;
	return err;
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
	if (l->rcq && !l->armed[1])
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
	.info = rdma_info,
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

	/* Whole pages: what is pinned is nobody else's. */
	len = (len + PAGE - 1) / PAGE * PAGE;
	l->receives = aligned_alloc(PAGE, len);
	if (!l->receives)
		return -ENOMEM;
	err = mlx5dvl_mr_reg(l->dev->ctx, l->receives, len, MLX5DVL_LOCAL_WRITE, &l->mr);
	if (err)
		return err;
	attr.buf = l->receives;
	attr.lkey = l->mr.lkey;
	return mlx5dvl_srq_create(l->dev->ctx, &attr, &l->srq);
}

static int create_receives(struct rdma_link *l)
{
	struct mlx5dvl_cq_attr attr = {.events = true};
	int err = create_srq(l);

	if (err)
		return err;
	attr.srq = l->srq;
	err = mlx5dvl_cq_create(l->dev->ctx, &attr, &l->rcq);
	if (!err)
		l->link.fds[1] = mlx5dvl_cq_fd(l->rcq);
	return err;
}

int rdma_link_create(struct dev *d, bool target, struct link **l_p)
{
	const struct mlx5dvl_cq_attr cq = {.depth = SEND_BLOCKS, .events = true};
	struct rdma_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->link.ops = &rdma_ops;
	l->link.fds[0] = l->link.fds[1] = -1;
	l->dev = d;
	err = mlx5dvl_cq_create(d->ctx, &cq, &l->scq);
	if (!err && target)
		err = create_receives(l);
	if (!err)
		err = mlx5dvl_qp_create(d->ctx,
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
