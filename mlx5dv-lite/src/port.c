/* SPDX-License-Identifier: MIT */
/* Names of devices, attributes of the port. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

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

/* Rate of one lane in 0.1 Gb/s, for a speed bit of the IBTA specification. */
static uint32_t lane_tenths(uint32_t speed)
{
	static const uint16_t tenths[] = {25, 50, 100, 100, 140, 250, 500, 1000, 2000};

	for (size_t i = 0; i < sizeof(tenths) / sizeof(tenths[0]); i++) {
		if (speed == 1u << i)
			return tenths[i];
	}
	return 0;
}

/* Number of lanes for a width bit of the IBTA specification: 1X, 4X, 8X, 12X, 2X. */
static uint32_t lanes(uint8_t width)
{
	static const uint8_t n[] = {1, 4, 8, 12, 2};

	for (size_t i = 0; i < sizeof(n); i++) {
		if (width == 1u << i)
			return n[i];
	}
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

int mlx5dvl_ctx_port(struct mlx5dvl_ctx *ctx, struct mlx5dvl_port *port_p)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(ctx->ibv, &device) || ibv_query_port(ctx->ibv, ctx->port, &port))
		return -EIO;
	*port_p = (struct mlx5dvl_port){
		.max_mr_len = device.max_mr_size,
		.mbps = 100 * lane_tenths(port.active_speed) * lanes(port.active_width),
		.lid = port.lid,
		.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET,
		.active = port.state == IBV_PORT_ACTIVE,
	};
	if (ctx->gid_index >= 0)
		memcpy(port_p->gid, &ctx->gid, sizeof(port_p->gid));
	else
		ibv_query_gid(ctx->ibv, ctx->port, 0, (union ibv_gid *)port_p->gid);
	return 0;
}
