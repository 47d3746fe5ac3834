/* SPDX-License-Identifier: MIT */
/* Finds the mlx5 device. */
#ifndef BENCHKV_HCA_H
#define BENCHKV_HCA_H

#include <stdint.h>

#define HCA_NAME_MAX 64

/*
 * Finds the device with the name @want, or the first mlx5 device if @want is NULL. Returns 0 with
 * the name, or -ENODEV with the names of the first devices in @why.
 */
int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size);

/* Properties that decide whether two ranks can reach each other. */
struct hca_port {
	uint32_t mtu; /* bytes */
	uint16_t partition; /* the P_Key without its bit for full membership */
	uint8_t ethernet, software;
};

/*
 * Describes the port and the partition that copyrpc chooses on a device. 0; -ENETDOWN: no port is
 * active; -ENOKEY: the port is not a full member of any partition; another -errno.
 */
int hca_query(const char *name, struct hca_port *port_p);

#endif
