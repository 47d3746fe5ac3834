/* SPDX-License-Identifier: MIT */
/* Names of the devices; attributes and addresses of the port. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/sized.h"
#include "device.h"

/* The largest number of descriptors that libibverbs, the provider and this library have open at the
 * same time. */
#define OPEN_DESCRIPTORS 8

bool descriptors_are_short(void)
{
	int fd[OPEN_DESCRIPTORS], n = 0;
	bool is_short;

	while (n < OPEN_DESCRIPTORS && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	is_short = n < OPEN_DESCRIPTORS && (errno == EMFILE || errno == ENFILE);
	while (n)
		close(fd[--n]);
	return is_short;
}

int mlx5dvl_devices(uint32_t max, char (*names_p)[MLX5DVL_NAME_LEN])
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int n = 0;

	if (!list) /* ENOSYS: the kernel has no RDMA support */
		return errno == ENOMEM ? -ENOMEM : 0;
	for (struct ibv_device **d = list; *d && (uint32_t)n < max; d++) {
		const char *name = ibv_get_device_name(*d);

		if (mlx5dv_is_supported(*d) && strlen(name) < MLX5DVL_NAME_LEN)
			strcpy(names_p[n++], name);
	}
	ibv_free_device_list(list);
	return n || !descriptors_are_short() ? n : -EMFILE;
}

/* The rate of one lane in 0.1 Gb/s, and the number of lanes. The index is the number of the bit
 * that the IBTA specification has for this speed or width (1X, 4X, 8X, 12X, 2X). */
static const uint16_t lane_tenths[] = {25, 50, 100, 100, 140, 250, 500, 1000, 2000};
static const uint16_t lanes[] = {1, 4, 8, 12, 2};

/* Returns the value for a bit, or 0 if the bit is not known. */
static uint32_t of_bit(const uint16_t *values, size_t n, uint32_t bit)
{
	for (size_t i = 0; i < n; i++)
		if (bit == 1u << i)
			return values[i];
	return 0;
}

static int read_counter(const struct mlx5dvl_ctx *ctx, const char *group, const char *name,
	uint64_t *value_p)
{
	char path[IBV_SYSFS_PATH_MAX + 128];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/ports/%u/%s/%s", ctx->ibv->device->ibdev_path, ctx->port,
		group, name);
	f = fopen(path, "re");
	if (!f)
		return -ENOENT;
	n = fscanf(f, "%" SCNu64, value_p);
	fclose(f);
	return n == 1 ? 0 : -ENOENT;
}

int mlx5dvl_ctx_counter(const struct mlx5dvl_ctx *ctx, const char *name, uint64_t *value_p)
{
	uint64_t value;
	int err;

	if (!*name || strlen(name) > 64 || strchr(name, '/') || name[0] == '.')
		return -EINVAL;
	err = read_counter(ctx, "hw_counters", name, &value);
	if (err)
		err = read_counter(ctx, "counters", name, &value);
	if (!err)
		*value_p = value;
	return err;
}

int mlx5dvl_ctx_get_port(struct mlx5dvl_ctx *ctx, struct mlx5dvl_port *port_p, size_t size)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct mlx5dvl_port own;

	if (ibv_query_device(ctx->ibv, &device) || ibv_query_port(ctx->ibv, ctx->port, &port))
		return -EIO;
	own = (struct mlx5dvl_port){
		.max_mr_len = device.max_mr_size,
		.mbps = 100 * of_bit(lane_tenths, ARRAY_SIZE(lane_tenths), port.active_speed) *
			of_bit(lanes, ARRAY_SIZE(lanes), port.active_width),
		.lid = port.lid,
		.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET,
		.active = port.state == IBV_PORT_ACTIVE,
	};
	if (ctx->gid_index >= 0)
		memcpy(own.gid, &ctx->gid, sizeof(own.gid));
	else
		ibv_query_gid(ctx->ibv, ctx->port, 0, (union ibv_gid *)own.gid);
	sized_out(port_p, size, &own, sizeof(own));
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

/* Returns the preference of a GID; higher is better; 0: there is no GID. The type of a GID is not
 * known if its network interface is in another namespace. */
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

/* Returns the index of a RoCE port's best GID, or -1 if the port has no GID. */
static int best_gid(struct mlx5dvl_ctx *ctx)
{
	int best = -1, rank = 0;

	for (int i = 0; i < ctx->port_attr.gid_tbl_len; i++) {
		int r = gid_rank(ctx, i);

		if (r > rank) {
			rank = r;
			best = i;
		}
	}
	return best;
}

static int choose_gid(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_ctx_attr *attr)
{
	bool wish = attr->gid_index > 0 || (attr->set & MLX5DVL_SET_GID_INDEX);

	if (wish && (attr->gid_index < 0 || attr->gid_index >= ctx->port_attr.gid_tbl_len))
		return -EINVAL;
	ctx->gid_index = wish ? attr->gid_index : 0;
	if (!wish && ctx->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		ctx->gid_index = best_gid(ctx);
	} else if (!wish && !(ctx->port_attr.flags & IBV_QPF_GRH_REQUIRED)) {
		ctx->gid_index = -1;
		return 0;
	}
	if (ctx->gid_index < 0 || ibv_query_gid(ctx->ibv, ctx->port, ctx->gid_index, &ctx->gid) ||
		is_zero(&ctx->gid))
		return -EADDRNOTAVAIL;
	return 0;
}

/* A full member reaches all members of a partition, other members reach only full members. So a
 * full membership is chosen. */
static int choose_pkey(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_ctx_attr *attr)
{
	const uint16_t full = 0x8000;
	uint16_t key;

	ctx->pkey_index = attr->pkey_index;
	if (attr->pkey_index || (attr->set & MLX5DVL_SET_PKEY_INDEX))
		return attr->pkey_index < ctx->port_attr.pkey_tbl_len ? 0 : -EINVAL;
	for (int i = 0; i < ctx->port_attr.pkey_tbl_len; i++) {
		if (ibv_query_pkey(ctx->ibv, ctx->port, i, &key) || !(be16toh(key) & full))
			continue;
		ctx->pkey_index = (uint16_t)i;
		return 0;
	}
	return -ENOKEY;
}

int port_setup(struct mlx5dvl_ctx *ctx)
{
	struct ibv_device_attr device;
	int err;

	if (ibv_query_device(ctx->ibv, &device) ||
		ibv_query_port(ctx->ibv, ctx->port, &ctx->port_attr))
		return -EIO;
	ctx->atomics = device.atomic_cap != IBV_ATOMIC_NONE;
	err = choose_gid(ctx, &ctx->attr);
	return err ? err : choose_pkey(ctx, &ctx->attr);
}
