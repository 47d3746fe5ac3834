/* SPDX-License-Identifier: MIT */
#ifndef DELEGRPC_TEST_MAP_H
#define DELEGRPC_TEST_MAP_H

#include "support/rpcmap.h"
#include "support/test.h"
#include "delegrpc.h"

static void map_region(const char *name, struct rpc_map *m)
{
	struct delegrpc_header *h;
	struct delegrpc_line *line;

	CHECK_EQ(shm_attach("delegrpc", name, sizeof(*h), &m->region), 0);
	h = m->region.addr;
	line = (void *)((char *)(h + 1) + sizeof(struct delegrpc_control));
	m->server_state = &h->server_state;
	m->server_addr = (struct wakefd_addr *)&h->server_address;
	m->door = (struct wakefd_addr *)&h->door;
	m->client_state = &line->state;
	m->client_addr = (struct wakefd_addr *)&line->address;
}

#endif
