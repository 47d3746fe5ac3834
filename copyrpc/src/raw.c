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

/* Takes a free entry. The entries are allocated at the first operation. An entry is in use until
 * copyrpc_raw_recv() returns it. */
static int raw_get(struct copyrpc_ep *ep, uint32_t len, uint64_t token, uint32_t *id_p)
{
	uint32_t id;

	if (ep->ch.status)
		return ep->ch.status;
	if (ep->ch.away)
		return -EAGAIN;
	if (!len || len > RAW_LEN_MAX)
		return -EINVAL;
	if (unlikely(!ep->raw)) {
		ep->raw = calloc(ep->ctx->attr.sq_depth, sizeof(*ep->raw));
		if (!ep->raw)
			return -ENOMEM;
		if (slab_init(&ep->raw_ids, ep->ctx->attr.sq_depth)) {
			free(ep->raw);
			ep->raw = NULL;
			return -ENOMEM;
		}
	}
	if (mlx5dvl_sq_full(ep->qp))
		return -EAGAIN;
	id = slab_get(&ep->raw_ids);
	if (id == SLAB_NONE)
		return -EAGAIN;
	ep->raw[id] = (struct raw_op){.ep = ep, .token = token};
	*id_p = id;
	return 0;
}

static int raw_start(struct copyrpc_ep *ep, uint32_t id, int rc)
{
	if (unlikely(rc)) {
		slab_put(&ep->raw_ids, id);
		return rc == -EAGAIN ? rc : -ECONNRESET;
	}
	ep->raw[id].posted = true;
	ep->ch.stats.wqes++;
	ep->ch.stats.doorbells++;
	mlx5dvl_ring(ep->qp);
	return 0;
}

int copyrpc_read(struct copyrpc_ep *ep, void *laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
	uint32_t len, uint64_t token)
{
	uint32_t id;
	int rc = raw_get(ep, len, token, &id);

	if (rc)
		return rc;
	return raw_start(ep, id,
		mlx5dvl_post_read(ep->qp, laddr, lkey, len, raddr, rkey, MLX5DVL_SIGNALED, id));
}

/* No part of a long payload is copied into the request: the payload may be in device memory, which
 * the HCA reads faster from its beginning. */
static unsigned write_flags(uint32_t len)
{
	return len > MLX5DVL_INLINE_MAX ? MLX5DVL_SIGNALED | MLX5DVL_BY_REF : MLX5DVL_SIGNALED;
}

int copyrpc_write(struct copyrpc_ep *ep, const void *laddr, uint32_t lkey, uint64_t raddr,
	uint32_t rkey, uint32_t len, uint64_t token)
{
	uint32_t id;
	int rc = raw_get(ep, len, token, &id);

	if (rc)
		return rc;
	return raw_start(ep, id,
		mlx5dvl_post_write(ep->qp, laddr, lkey, len, raddr, rkey, write_flags(len), id));
}

void raw_done(struct copyrpc_ep *ep, uint64_t token, int status)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	struct raw_op *op = &ep->raw[token];

	op->posted = false;
	op->status = status;
	op->next = NULL;
	*ctx->raw_tail_p = op;
	ctx->raw_tail_p = &op->next;
}

void raw_end(struct copyrpc_ep *ep, int status)
{
	for (uint32_t id = 0; ep->raw && id < ep->ctx->attr.sq_depth; id++)
		if (ep->raw[id].posted)
			raw_done(ep, id, status);
}

int copyrpc_raw_recv(struct copyrpc_ctx *ctx, struct copyrpc_raw_done *done_p)
{
	struct raw_op *op = ctx->raw_head;

	if (!op)
		return 0;
	ctx->raw_head = op->next;
	if (!op->next)
		ctx->raw_tail_p = &ctx->raw_head;
	*done_p = (struct copyrpc_raw_done){op->ep, op->token, op->status};
	slab_put(&op->ep->raw_ids, (uint32_t)(op - op->ep->raw));
	return 1;
}

uint32_t copyrpc_raw_pending(const struct copyrpc_ep *ep)
{
	return ep->raw_ids.used;
}

void raw_drop(struct copyrpc_ep *ep)
{
	struct raw_op **at = &ep->ctx->raw_head;

	while (*at) {
		if ((*at)->ep == ep)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
	ep->ctx->raw_tail_p = at;
	slab_fini(&ep->raw_ids);
	free(ep->raw);
	ep->raw = NULL;
}
