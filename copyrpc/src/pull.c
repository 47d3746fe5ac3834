/* SPDX-License-Identifier: MIT */
/* Pulls and pushes of the program. */
#include <stdlib.h>

#include "bulk.h"
#include "transfer.h"

struct pull {
	struct transfer t;
	struct reg *reg;
	copyrpc_bulk_fn *fn;
	void *arg;
};

static void pull_end(struct transfer *t, int status)
{
	struct pull *p = container_of(t, struct pull, t);
	struct copyrpc_ep *ep = t->ep;
	copyrpc_bulk_fn *fn = p->fn;
	void *arg = p->arg;

	reg_put(p->reg);
	free(p);
	if (!ep->ctx->closing)
		fn(arg, ep, status);
}

static int start(const struct transfer *t, struct reg *reg, copyrpc_bulk_fn *fn, void *arg)
{
	struct pull *p = malloc(sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	*p = (struct pull){.t = *t, .reg = reg, .fn = fn, .arg = arg};
	rc = transfer_start(&p->t);
	if (rc)
		free(p);
	else
		reg->refs++;
	return rc;
}

static int move(struct copyrpc_ep *ep, const struct copyrpc_remote *remote, uint64_t remote_off,
	struct copyrpc_bulk *local, uint64_t local_off, uint64_t len, bool is_read,
	copyrpc_bulk_fn *fn, void *arg)
{
	const struct transfer t = {
		.ep = ep,
		.is_read = is_read,
		.laddr = local->addr + local_off,
		.lkey = local->reg->mr.lkey,
		.raddr = remote->addr + remote_off,
		.rkey = remote->rkey,
		.len = len,
		.end = pull_end,
	};

	if (!range_fits(remote_off, len, remote->len) || !range_fits(local_off, len, local->len) ||
		local->reg->ctx != ep->ctx)
		return -EINVAL;
	if (!(remote->access & (is_read ? COPYRPC_REMOTE_READ : COPYRPC_REMOTE_WRITE)))
		return -EACCES;
	return start(&t, local->reg, fn, arg);
}

int copyrpc_bulk_pull(struct copyrpc_ep *ep, const struct copyrpc_remote *from, uint64_t from_off,
	struct copyrpc_bulk *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn, void *arg)
{
	return move(ep, from, from_off, to, to_off, len, true, fn, arg);
}

int copyrpc_bulk_push(struct copyrpc_ep *ep, struct copyrpc_bulk *from, uint64_t from_off,
	const struct copyrpc_remote *to, uint64_t to_off, uint64_t len, copyrpc_bulk_fn *fn,
	void *arg)
{
	return move(ep, to, to_off, from, from_off, len, false, fn, arg);
}
