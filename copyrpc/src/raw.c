/* SPDX-License-Identifier: MIT */
/* Raw RDMA READ and WRITE of the application, on the endpoints' queue pairs. */
#include <stdlib.h>

#include "internal.h"

#define RAW_LEN_MAX (1u << 30)

int copyrpc_mr_reg(struct copyrpc_ctx *ctx, void *addr, size_t len, int access,
	struct copyrpc_mr *mr_p)
{
	unsigned flags = MLX5DVL_LOCAL_WRITE;
	struct mlx5dvl_mr mr;
	int rc;

	if (access & ~(COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE))
		return -EINVAL;
	if (access & COPYRPC_REMOTE_READ)
		flags |= MLX5DVL_REMOTE_READ;
	if (access & COPYRPC_REMOTE_WRITE)
		flags |= MLX5DVL_REMOTE_WRITE;
	rc = mlx5dvl_mr_reg(ctx->dev, addr, len, flags, &mr);
	if (!rc)
		*mr_p = (struct copyrpc_mr){addr, len, mr.lkey, mr.rkey, mr.priv};
	return rc;
}

void copyrpc_mr_dereg(struct copyrpc_mr *mr)
{
	if (!mr)
		return;
	mlx5dvl_mr_dereg(&(struct mlx5dvl_mr){.priv = mr->handle});
	*mr = (struct copyrpc_mr){0};
}

int raw_open(struct copyrpc_ep *ep)
{
	if (likely(ep->raw))
		return 0;
	ep->raw = calloc(ep->ctx->attr.sq_depth, sizeof(*ep->raw));
	if (!ep->raw)
		return -ENOMEM;
	if (slab_init(&ep->raw_ids, ep->ctx->attr.sq_depth)) {
		free(ep->raw);
		ep->raw = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Takes a free entry. The entries are allocated at the first operation. The entry of an operation
 * of the program is in use until copyrpc_raw_recv() returns the operation; that of an operation
 * with an owner, until it completes. */
static int raw_get(struct copyrpc_ep *ep, uint32_t len, uint32_t *id_p)
{
	int rc;

	if (ep->ch.status)
		return ep->ch.status;
	if (ep->ch.away)
		return -EAGAIN;
	if (!len || len > RAW_LEN_MAX)
		return -EINVAL;
	rc = raw_open(ep);
	if (rc)
		return rc;
	if (mlx5dvl_sq_full(ep->qp))
		return -EAGAIN;
	*id_p = slab_get(&ep->raw_ids);
	return *id_p == SLAB_NONE ? -EAGAIN : 0;
}

/* No part of a long payload is copied into the request. The payload may be in device memory, which
 * the HCA reads faster from the beginning of the buffer than from a later byte on. */
static unsigned write_flags(uint32_t len)
{
	return len > MLX5DVL_INLINE_MAX ? MLX5DVL_SIGNALED | MLX5DVL_BY_REF : MLX5DVL_SIGNALED;
}

int raw_post(struct copyrpc_ep *ep, const struct raw_move *m, uint64_t token,
	struct raw_owner *owner)
{
	uint32_t id;
	int rc = raw_get(ep, m->len, &id);

	if (rc)
		return rc;
	if (m->is_read)
		rc = mlx5dvl_post_read(ep->qp, m->laddr, m->lkey, m->len, m->raddr, m->rkey,
			MLX5DVL_SIGNALED, id);
	else
		rc = mlx5dvl_post_write(ep->qp, m->laddr, m->lkey, m->len, m->raddr, m->rkey,
			write_flags(m->len), id);
	if (unlikely(rc)) {
		slab_put(&ep->raw_ids, id);
		return rc == -EAGAIN ? rc : -ECONNRESET;
	}
	ep->raw[id] = (struct raw_op){.ep = ep, .token = token, .owner = owner, .posted = true};
	ep->raw_owned += !!owner;
	ep->ch.stats.wqes++;
	ep->ch.stats.moved += m->len;
	return 0;
}

void raw_ring(struct copyrpc_ep *ep)
{
	ep->ch.stats.doorbells++;
	mlx5dvl_ring(ep->qp);
}

static int raw_start(struct copyrpc_ep *ep, const struct raw_move *m, uint64_t token)
{
	int rc = raw_post(ep, m, token, NULL);

	if (!rc)
		raw_ring(ep);
	return rc;
}

int copyrpc_read(struct copyrpc_ep *ep, void *laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
	uint32_t len, uint64_t token)
{
	return raw_start(ep, &(struct raw_move){true, laddr, lkey, raddr, rkey, len}, token);
}

int copyrpc_write(struct copyrpc_ep *ep, const void *laddr, uint32_t lkey, uint64_t raddr,
	uint32_t rkey, uint32_t len, uint64_t token)
{
	void *from = (void *)(uintptr_t)laddr; /* is only read */

	return raw_start(ep, &(struct raw_move){false, from, lkey, raddr, rkey, len}, token);
}

void raw_done(struct copyrpc_ep *ep, uint64_t token, int status)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	struct raw_op *op = &ep->raw[token];

	op->posted = false;
	if (op->owner) {
		ep->raw_owned--;
		slab_put(&ep->raw_ids, (uint32_t)token);
		if (op->owner->done)
			op->owner->done(op->owner, status);
		return;
	}
	op->status = status;
	QUEUE_APPEND(&ctx->raw, op, next);
}

void raw_end(struct copyrpc_ep *ep, int status)
{
	for (uint32_t id = 0; ep->raw && id < ep->ctx->attr.sq_depth; id++)
		if (ep->raw[id].posted)
			raw_done(ep, id, status);
}

void raw_disown(struct copyrpc_ep *ep)
{
	static struct raw_owner nobody;

	for (uint32_t id = 0; ep->raw && id < ep->ctx->attr.sq_depth; id++)
		if (ep->raw[id].posted && ep->raw[id].owner)
			ep->raw[id].owner = &nobody;
}

int copyrpc_raw_recv(struct copyrpc_ctx *ctx, struct copyrpc_raw_done *done_p)
{
	struct raw_op *op = ctx->raw.head;

	if (!op)
		return 0;
	QUEUE_SHIFT(&ctx->raw, next);
	*done_p = (struct copyrpc_raw_done){op->ep, op->token, op->status};
	slab_put(&op->ep->raw_ids, (uint32_t)(op - op->ep->raw));
	if (ctx->work.head) /* a transfer may wait for the entry */
		ctx->work_due = true;
	return 1;
}

uint32_t copyrpc_raw_pending(const struct copyrpc_ep *ep)
{
	return ep->raw_ids.used - ep->raw_owned;
}

void raw_drop(struct copyrpc_ep *ep)
{
	struct raw_op **at = &ep->ctx->raw.head;

	while (*at) {
		if ((*at)->ep == ep)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	ep->ctx->raw.tail_p = at;
	slab_fini(&ep->raw_ids);
	free(ep->raw);
	ep->raw = NULL;
}
