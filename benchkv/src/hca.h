/* SPDX-License-Identifier: MIT */
/* Finds the mlx5 device. */
#ifndef BENCHKV_HCA_H
#define BENCHKV_HCA_H

#include <stdint.h>

#define HCA_NAME_MAX 64

/*
 * Finds the device with the name @want, or with NULL the first mlx5 device. 0 and the name, or
 * -ENODEV and in @why the names of the existing devices.
 */
int hca_find(const char *want, char name[HCA_NAME_MAX], char *why, int size);

/* Facts by which a rank is judged to reach another one. */
struct hca_port {
	uint32_t mtu; /* bytes */
	uint16_t partition; /* the P_Key without the bit of the membership */
	uint8_t ethernet, software;
};

/*
 * Describes the port and the partition of a device that copyrpc chooses. 0; -ENETDOWN: no port is
 * active; -ENOKEY: it is a full member of no partition; another -errno.
 */
int hca_query(const char *name, struct hca_port *port_p);

#endif
