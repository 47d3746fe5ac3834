/* SPDX-License-Identifier: MIT */
/* The port of each rail, which has only one. The caller must hold the fabric's mutex. */
#ifndef SOFTHCA_HCA_PORT_H
#define SOFTHCA_HCA_PORT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sets the link of a rail up or down. Every context open on the rail gets PORT_ERR or PORT_ACTIVE;
 * QUERY_PORT and sysfs show DOWN or ACTIVE; messages get no answer while the link is down. If the
 * state does not change, there is no event.
 */
void port_set_link(uint32_t rail, bool up);

/*
 * Sets entry @index of a rail's GID table, as if an IP address of its interface were deleted or
 * added; a GID of zeros leaves the entry empty. Messages to the old GID get no answer. Every
 * context open on the rail gets GID_CHANGE. Returns 0; -EINVAL if there is no such entry; -EEXIST
 * if a rail of the fabric has the GID already; -EOPNOTSUPP if the rail has sockets at its addresses
 * (udp=on).
 */
int port_set_gid(uint32_t rail, uint32_t index, const uint8_t gid[16]);

/*
 * Returns true if the kernel accepts an address vector with these fields. The source of a GRH
 * (@global) must be a GID of the port. On RoCE, and with grh_required, there must be a GRH.
 */
bool port_takes_path(uint32_t rail, bool global, uint32_t sgid_index);

/* Returns the enum ibv_mtu of an MTU in bytes: 1 for 256, up to 5 for 4096. */
uint8_t port_mtu_code(uint32_t bytes);

#endif
