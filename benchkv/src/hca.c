/* SPDX-License-Identifier: MIT */
#include "hca.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "base/underhca.h"

#define FULL_MEMBER 0x8000u

int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	char list[256] = "none";
	size_t at = 0;
	int err = -ENODEV;

	for (int i = 0; err && devices && devices[i]; i++) {
		const char *n = ibv_get_device_name(devices[i]);

		if (!mlx5dv_is_supported(devices[i]))
			continue;
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "",
				n);
		if (!want || !strcmp(n, want)) {
			snprintf(name, HCA_NAME_MAX, "%s", n);
			err = 0;
		}
	}
	if (err)
		snprintf(why, (size_t)size, "no mlx5 device '%s': give auto, or one of: %s",
			want ? want : "auto", list);
	if (devices)
		ibv_free_device_list(devices);
	return err;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *ibv = NULL;

	for (int i = 0; devices && devices[i] && !ibv; i++) {
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			ibv = ibv_open_device(devices[i]);
	}
	if (devices)
		ibv_free_device_list(devices);
	return ibv;
}

/* Finds the first active port. Returns its number, or 0. */
static uint8_t active_port(struct ibv_context *ibv, struct ibv_port_attr *attr_p)
{
	struct ibv_device_attr device;

	if (ibv_query_device(ibv, &device))
		return 0;
	for (uint8_t port = 1; port <= device.phys_port_cnt; port++) {
		if (!ibv_query_port(ibv, port, attr_p) && attr_p->state == IBV_PORT_ACTIVE)
			return port;
	}
	return 0;
}

static int first_partition(struct ibv_context *ibv, uint8_t port, int keys, uint16_t *partition_p)
{
	__be16 key;

	for (int i = 0; i < keys; i++) {
		if (ibv_query_pkey(ibv, port, i, &key) || !(be16toh(key) & FULL_MEMBER))
			continue;
		*partition_p = be16toh(key) & (uint16_t)~FULL_MEMBER;
		return 0;
	}
	return -ENOKEY;
}

int hca_query(const char *name, struct hca_port *port_p)
{
	struct ibv_context *ibv = open_device(name);
	struct hca_port own = {.software = underhca_is_software()};
	struct ibv_port_attr attr;
	uint8_t port;
	int err;

	if (!ibv)
		return -EIO;
	port = active_port(ibv, &attr);
	err = port ? first_partition(ibv, port, attr.pkey_tbl_len, &own.partition) : -ENETDOWN;
	ibv_close_device(ibv);
	if (err)
		return err;
	own.mtu = 128u << attr.active_mtu;
	own.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	*port_p = own;
	return 0;
}
