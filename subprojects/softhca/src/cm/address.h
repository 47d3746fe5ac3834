/* SPDX-License-Identifier: MIT */
/*
 * IP addresses, and the adapters that they stand for. A GID is an address of its adapter. Another
 * address of the host belongs to the adapter whose network interface has it, else to the first
 * adapter. A loopback address that is no GID belongs to the first adapter, whether or not an
 * interface has it. If an adapter with udp=on has a loopback address, this exception does not
 * apply: a loopback address that no interface has may belong to another fabric.
 */
#ifndef SOFTHCA_CM_ADDRESS_H
#define SOFTHCA_CM_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/cm_ids.h"

/* The kernel's sockaddr_ib; no installed header of rdma-core declares it. */
struct cm_sockaddr_ib {
	uint16_t family;
	uint16_t pkey; /* this and all following fields are in network order */
	uint32_t flow_info;
	uint8_t addr[16];
	uint64_t service_id;
	uint64_t service_mask;
	uint64_t scope;
};

#define CM_AF_IB 27
#define CM_SOCKADDR_MAX sizeof(struct cm_sockaddr_ib)

/*
 * Decodes a socket address of @len bytes, which must include its family. An AF_IB address without a
 * GID counts as the wildcard of IPv6. Returns 0; -EINVAL if @len does not fit the family;
 * -EAFNOSUPPORT for other families, and for AF_IB with a GID.
 */
int cm_addr_decode(const void *sockaddr, size_t len, struct cm_addr *addr_p);

/*
 * The reverse of cm_addr_decode(): writes at most CM_SOCKADDR_MAX bytes. Returns the length; 0: no
 * address.
 */
size_t cm_addr_encode(const struct cm_addr *addr, void *sockaddr);

bool cm_addr_any(const struct cm_addr *addr);
bool cm_addr_loopback(const struct cm_addr *addr);
bool cm_addr_same_ip(const struct cm_addr *a, const struct cm_addr *b);

/* An adapter and one of its GIDs. */
struct cm_place {
	uint32_t rail;
	uint32_t gid;
};

/* Finds the adapter that has this GID. Returns false if there is none. */
bool cm_gid_place(const uint8_t gid[16], struct cm_place *place_p);

/*
 * Finds the adapter that has @addr. The caller must not hold the fabric's mutex, because this
 * function asks the kernel for the host's addresses. Returns 0, or -EADDRNOTAVAIL if no adapter has
 * @addr.
 */
int cm_addr_place(const struct cm_addr *addr, struct cm_place *place_p);

#endif
