/* SPDX-License-Identifier: MIT */
#ifndef SUPPORT_RPCMAP_H
#define SUPPORT_RPCMAP_H

#include "base/shm.h"
#include "base/wakefd.h"

/*
 * A mapped region: the sleep words and addresses (base/wakefd.h) of the server and of client 0, and
 * the address to which clients send introductions (@door).
 */
struct rpc_map {
	struct shm_region region;
	uint32_t *server_state, *client_state;
	struct wakefd_addr *server_addr, *client_addr, *door;
};

/* Maps the region of a living server. Each layer's test/map.h defines this function. */
static void map_region(const char *name, struct rpc_map *m);

#endif
