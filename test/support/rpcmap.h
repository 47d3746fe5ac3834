/* SPDX-License-Identifier: MIT */
#ifndef SUPPORT_RPCMAP_H
#define SUPPORT_RPCMAP_H

#include "base/shm.h"
#include "base/wakefd.h"

/* A mapped region: the sleep words and addresses (base/wakefd.h) of server and client 0. */
struct rpc_map {
	struct shm_region region;
	uint32_t *server_state, *client_state;
	struct wakefd_addr *server_addr, *client_addr, *door;
};

/* Maps the region of a living server. The test/map.h of a layer defines it. */
static void map_region(const char *name, struct rpc_map *m);

#endif
