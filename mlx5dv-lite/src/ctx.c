/* SPDX-License-Identifier: MIT */
/* Contexts and memory regions. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "device.h"

static bool wanted(struct ibv_device *device, const char *name)
{
	if (name && strcmp(name, ibv_get_device_name(device)))
		return false;
	return mlx5dv_is_supported(device);
}

static int open_device(const char *name, struct ibv_context **ibv_p)
{
	struct ibv_context *ibv = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = -ENODEV;

	if (!list) /* ENOSYS: the kernel has no RDMA support */
		return errno == ENOMEM ? -ENOMEM : -ENODEV;
	for (struct ibv_device **d = list; *d && !ibv; d++) {
		if (!wanted(*d, name))
			continue;
		errno = 0;
		ibv = ibv_open_device(*d);
		if (!ibv)
			err = verbs_errno();
	}
	ibv_free_device_list(list);
	if (!ibv)
		return err;
	*ibv_p = ibv;
	return 0;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid none;

	return !memcmp(gid, &none, sizeof(none));
}

/* Preference of a GID, higher is better; 0: there is no GID. The type of a GID is not known if
   its network interface is in another namespace. */
static int gid_rank(struct mlx5dvl_ctx *ctx, int index)
{
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	if (ibv_query_gid_ex(ctx->ibv, ctx->port, (uint32_t)index, &entry, 0))
		return !ibv_query_gid(ctx->ibv, ctx->port, index, &gid) && !is_zero(&gid);
	if (is_zero(&entry.gid))
		return 0;
	if (entry.gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	return is_ipv4(&entry.gid) ? 3 : 2;
}

static int choose_gid(struct mlx5dvl_ctx *ctx, int wish)
{
	int best = wish, rank = 0;

	if (wish >= ctx->port_attr.gid_tbl_len)
		return -EINVAL;
	if (wish <= 0 && ctx->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET) {
		ctx->gid_index = -1;
		return 0;
	}
	for (int i = 0; wish <= 0 && i < ctx->port_attr.gid_tbl_len; i++) {
		int r = gid_rank(ctx, i);

		if (r > rank) {
			rank = r;
			best = i;
		}
	}
	if (best < 0 || (wish <= 0 && !rank))
		return -EADDRNOTAVAIL;
	ctx->gid_index = best;
	return ibv_query_gid(ctx->ibv, ctx->port, best, &ctx->gid) ? -EINVAL : 0;
}

static int setup_port(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_ctx_attr *attr)
{
	ctx->port = attr->port ? attr->port : 1;
	if (ibv_query_port(ctx->ibv, ctx->port, &ctx->port_attr))
		return -EINVAL;
	if (ctx->port_attr.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	return choose_gid(ctx, attr->gid_index);
}

int mlx5dvl_ctx_open(const struct mlx5dvl_ctx_attr *attr, struct mlx5dvl_ctx **ctx_p)
{
	struct mlx5dvl_ctx *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return -ENOMEM;
	core_init(&ctx->core, attr->on_error, attr->error_arg);
	err = open_device(attr->device, &ctx->ibv);
	if (err)
		goto free_ctx;
	err = setup_port(ctx, attr);
	if (err)
		goto close_device;
	errno = 0;
	ctx->pd = ibv_alloc_pd(ctx->ibv);
	if (!ctx->pd) {
		err = verbs_errno();
		goto close_device;
	}
	*ctx_p = ctx;
	return 0;

close_device:
	ibv_close_device(ctx->ibv);
free_ctx:
	core_fini(&ctx->core);
	free(ctx);
	return err;
}

void mlx5dvl_ctx_close(struct mlx5dvl_ctx *ctx)
{
	if (!ctx)
		return;
	ibv_dealloc_pd(ctx->pd);
	ibv_close_device(ctx->ibv);
	core_fini(&ctx->core);
	free(ctx);
}

const char *mlx5dvl_ctx_device(const struct mlx5dvl_ctx *ctx)
{
	return ibv_get_device_name(ctx->ibv->device);
}

static_assert((int)MLX5DVL_LOCAL_WRITE == IBV_ACCESS_LOCAL_WRITE &&
		      (int)MLX5DVL_REMOTE_WRITE == IBV_ACCESS_REMOTE_WRITE &&
		      (int)MLX5DVL_REMOTE_READ == IBV_ACCESS_REMOTE_READ &&
		      (int)MLX5DVL_REMOTE_ATOMIC == IBV_ACCESS_REMOTE_ATOMIC,
	"access bits are passed on");

int mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p)
{
	const unsigned needs_local = MLX5DVL_REMOTE_WRITE | MLX5DVL_REMOTE_ATOMIC;
	const unsigned all = needs_local | MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_READ;
	struct ibv_mr *mr;

	if (!len || (access & ~all) || ((access & needs_local) && !(access & MLX5DVL_LOCAL_WRITE)))
		return -EINVAL;
	errno = 0;
	mr = ibv_reg_mr(ctx->pd, addr, len, (int)access);
	if (!mr)
		return verbs_errno();
	*mr_p = (struct mlx5dvl_mr){.addr = addr,
		.len = len,
		.lkey = mr->lkey,
		.rkey = mr->rkey,
		.priv = mr};
	return 0;
}

void mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr)
{
	if (!mr->priv)
		return;
	ibv_dereg_mr(mr->priv);
	*mr = (struct mlx5dvl_mr){0};
}
