/* SPDX-License-Identifier: MIT */
/* Registrations, and descriptors of memory. */
#include <endian.h>
#include <stdlib.h>

#include "bulk.h"

#define VERSION 1

/* ------------------------------------------------------------ registrations */

/* Returns the registration of a bulk that covers the memory, or NULL. The memory must be within the
 * bulk, not only within its registration, because a registration may also cover memory of a freed
 * bulk. That memory may have been unmapped, and replaced by other memory. */
static struct reg *shared(const struct copyrpc_ctx *ctx, const uint8_t *addr, size_t len,
	unsigned flags)
{
	const struct copyrpc_bulk *b = ctx->bulks;

	/* If the memory begins before the bulk, the difference wraps and does not fit. */
	while (b && ((flags & ~b->reg->flags) ||
			    !range_fits((uintptr_t)addr - (uintptr_t)b->addr, len, b->len)))
		b = b->next;
	return b ? b->reg : NULL;
}

int reg_get(struct copyrpc_ctx *ctx, const void *addr, size_t len, unsigned flags,
	struct reg **reg_p)
{
	struct reg *r = shared(ctx, addr, len, flags);
	int rc;

	if (r) {
		r->refs++;
		*reg_p = r;
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	/* The cast removes const; without a flag that permits writing, the HCA does not write. */
	rc = mlx5dvl_mr_reg(ctx->dev, (void *)(uintptr_t)addr, len, flags, &r->mr);
	if (rc) {
		free(r);
		return rc;
	}
	r->ctx = ctx;
	r->flags = flags;
	r->refs = 1;
	LINK(&ctx->regs, r);
	*reg_p = r;
	return 0;
}

void reg_put(struct reg *r)
{
	if (!r || --r->refs)
		return;
	UNLINK(r);
	mlx5dvl_mr_dereg(&r->mr);
	free(r);
}

int copyrpc_bulk_create(struct copyrpc_ctx *ctx, void *addr, size_t len, int access,
	struct copyrpc_bulk **bulk_p)
{
	struct copyrpc_bulk *b;
	unsigned flags = MLX5DVL_LOCAL_WRITE;
	int rc;

	if (!len || (access & ~(COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE)))
		return -EINVAL;
	flags |= access & COPYRPC_REMOTE_READ ? MLX5DVL_REMOTE_READ : 0;
	flags |= access & COPYRPC_REMOTE_WRITE ? MLX5DVL_REMOTE_WRITE : 0;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	rc = reg_get(ctx, addr, len, flags, &b->reg);
	if (rc) {
		free(b);
		return rc;
	}
	b->addr = addr;
	b->len = len;
	b->access = access;
	LINK(&ctx->bulks, b);
	*bulk_p = b;
	return 0;
}

void copyrpc_bulk_free(struct copyrpc_bulk *b)
{
	if (!b)
		return;
	UNLINK(b);
	reg_put(b->reg);
	free(b);
}

void ctx_free_bulks(struct copyrpc_ctx *ctx)
{
	while (ctx->bulks)
		copyrpc_bulk_free(ctx->bulks);
}

/* -------------------------------------------------------------- descriptors */

struct descriptor {
	uint64_t connection;
	uint64_t addr, len;
	uint32_t rkey;
	uint8_t version, access;
	uint8_t zero[2];
};
static_assert(sizeof(struct descriptor) == COPYRPC_BULK_SIZE, "no holes");
static_assert(offsetof(struct descriptor, rkey) == 24, "");
static_assert(offsetof(struct descriptor, access) == 29, "");

int copyrpc_bulk_export(const struct copyrpc_bulk *b, const struct copyrpc_ep *ep, uint64_t off,
	uint64_t len, void *desc)
{
	struct descriptor d = {
		.connection = htole64(ep->number),
		.addr = htole64((uintptr_t)b->addr + off),
		.len = htole64(len),
		.rkey = htole32(b->reg->mr.rkey),
		.version = VERSION,
		.access = (uint8_t)b->access,
	};

	if (!range_fits(off, len, b->len) || ep->ctx != b->reg->ctx)
		return -EINVAL;
	memcpy(desc, &d, sizeof(d));
	return 0;
}

int copyrpc_bulk_import(const struct copyrpc_ep *ep, const void *desc, size_t size,
	struct copyrpc_remote *remote_p)
{
	struct copyrpc_remote r;
	struct descriptor d;

	if (ep->ch.status == -ENOTCONN)
		return -ENOTCONN;
	if (size != sizeof(d))
		return -EINVAL;
	memcpy(&d, desc, sizeof(d)); /* the peer may change it meanwhile */
	if (d.version != VERSION)
		return -EPROTONOSUPPORT;
	r = (struct copyrpc_remote){le64toh(d.addr), le64toh(d.len), le32toh(d.rkey), d.access};
	if (!range_fits(r.addr, r.len, UINT64_MAX) || d.zero[0] || d.zero[1] ||
		(r.access & ~(COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE)))
		return -EINVAL;
	if (le64toh(d.connection) != ep->peer_number)
		return -EXDEV;
	*remote_p = r;
	return 0;
}
