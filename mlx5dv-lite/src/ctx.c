/* SPDX-License-Identifier: MIT */
/* Contexts and memory regions. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "device.h"

static bool wanted(struct ibv_device *device, const char *name)
{
	if (name && strcmp(name, ibv_get_device_name(device)))
		return false;
	return mlx5dv_is_supported(device);
}

/* Finds the port @wish, which must be active, or the first active port if @wish is 0. */
static int find_port(struct ibv_context *ibv, uint8_t wish, uint8_t *port_p)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(ibv, &device))
		return -EIO;
	for (uint8_t i = wish ? wish : 1; i <= (wish ? wish : device.phys_port_cnt); i++) {
		if (ibv_query_port(ibv, i, &port))
			return -EINVAL;
		if (port.state == IBV_PORT_ACTIVE) {
			*port_p = i;
			return 0;
		}
	}
	return -ENETDOWN;
}

static int try_device(struct ibv_device *device, struct mlx5dvl_ctx *ctx, uint8_t port)
{
	struct ibv_context *ibv;
	int err;

	errno = 0;
	ibv = ibv_open_device(device);
	if (!ibv)
		return verbs_errno();
	err = find_port(ibv, port, &ctx->port);
	if (err)
		ibv_close_device(ibv);
	else
		ctx->ibv = ibv;
	return err;
}

/* Opens the first usable device. If no device is usable, returns the error of the last one. */
static int open_device(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_ctx_attr *attr)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = -ENODEV;

	if (!list) /* ENOSYS: the kernel has no RDMA support */
		return errno == ENOMEM ? -ENOMEM : -ENODEV;
	for (struct ibv_device **d = list; *d && !ctx->ibv; d++)
		if (wanted(*d, attr->device))
			err = try_device(*d, ctx, attr->port);
	ibv_free_device_list(list);
	return err;
}

static int alloc_pd(struct mlx5dvl_ctx *ctx)
{
	errno = 0;
	ctx->pd = ibv_alloc_pd(ctx->ibv);
	return ctx->pd ? 0 : verbs_errno();
}

/*
 * Returns the completion vector of a new context. The contexts of a process get the vectors in
 * turn. Processes that open their first contexts on different processors begin with different
 * vectors.
 */
static uint32_t next_vector(const struct ibv_context *ibv)
{
	static uint32_t first, contexts; /* `first`: number of a processor, plus 1; 0: not set */
	uint32_t n = __atomic_fetch_add(&contexts, 1, __ATOMIC_RELAXED), none = 0;
	int cpu = sched_getcpu();

	__atomic_compare_exchange_n(&first, &none, cpu < 0 ? 1 : (uint32_t)cpu + 1, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return (__atomic_load_n(&first, __ATOMIC_RELAXED) - 1 + n) %
	       (uint32_t)ibv->num_comp_vectors;
}

int mlx5dvl_ctx_open(const struct mlx5dvl_ctx_attr *attr, struct mlx5dvl_ctx **ctx_p)
{
	struct mlx5dvl_ctx_attr a;
	struct mlx5dvl_ctx *ctx;
	int err = SIZED_ATTR(&a, attr, error_arg);

	if (err)
		return err;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	core_init(&ctx->core, a.on_error, a.error_arg);
	ctx->clock = clock_ns;
	ctx->fd = ctx->unread = -1;
	ctx->attr = a;
	ctx->attr.device = NULL; /* the caller may free the string */
	err = open_device(ctx, &a);
	if (!err)
		err = port_setup(ctx);
	if (!err)
		err = events_open(ctx);
	if (!err)
		err = alloc_pd(ctx);
	if (!err)
		ctx->vector = next_vector(ctx->ibv);
	if (err) {
		mlx5dvl_ctx_close(ctx);
		/* If no descriptor is free, libibverbs finds no device, or cannot query a port. */
		return descriptors_are_short() ? -EMFILE : err;
	}
	*ctx_p = ctx;
	return 0;
}

void mlx5dvl_ctx_close(struct mlx5dvl_ctx *ctx)
{
	if (!ctx)
		return;
	ctx_reap(ctx, true, NULL);
	if (ctx->pd)
		ibv_dealloc_pd(ctx->pd);
	events_close(ctx);
	if (ctx->ibv)
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
	"the access bits must equal libibverbs', because they are passed on unchanged");

static bool is_valid(size_t len, unsigned access)
{
	const unsigned needs_local = MLX5DVL_REMOTE_WRITE | MLX5DVL_REMOTE_ATOMIC;
	const unsigned all = needs_local | MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_READ;

	return len && !(access & ~all) &&
	       (!(access & needs_local) || (access & MLX5DVL_LOCAL_WRITE));
}

/* If @mr is NULL, returns the error in errno. */
static int take_mr(struct ibv_mr *mr, void *addr, size_t len, struct mlx5dvl_mr *mr_p)
{
	if (!mr)
		return verbs_errno();
	*mr_p = (struct mlx5dvl_mr){.addr = addr,
		.len = len,
		.lkey = mr->lkey,
		.rkey = mr->rkey,
		.priv = mr};
	return 0;
}

int mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p)
{
	if (!is_valid(len, access))
		return -EINVAL;
	errno = 0;
	return take_mr(ibv_reg_mr(ctx->pd, addr, len, (int)access), addr, len, mr_p);
}

int mlx5dvl_mr_reg_dmabuf(struct mlx5dvl_ctx *ctx, int fd, uint64_t offset, size_t len,
	uint64_t iova, unsigned access, struct mlx5dvl_mr *mr_p)
{
	if (!is_valid(len, access))
		return -EINVAL;
	errno = 0;
	return take_mr(ibv_reg_dmabuf_mr(ctx->pd, offset, len, iova, fd, (int)access),
		(void *)(uintptr_t)iova, len, mr_p);
}

void mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr)
{
	if (!mr->priv)
		return;
	ibv_dereg_mr(mr->priv);
	*mr = (struct mlx5dvl_mr){0};
}
