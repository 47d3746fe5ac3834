/* SPDX-License-Identifier: MIT */
#ifndef SHMIPC_TEST_MAP_H
#define SHMIPC_TEST_MAP_H

#include "support/rpcmap.h"
#include "support/test.h"
#include "layout.h"

static void map_region(const char *name, struct rpc_map *m)
{
	struct shmipc_header *h;
	struct shmipc_place *place;

	CHECK_EQ(shm_attach(PREFIX, name, sizeof(*h), &m->region), 0);
	h = m->region.addr;
	place = (struct shmipc_place *)(h + 1);
	m->server_state = &h->server_state;
	m->server_addr = &h->server_addr;
	m->door = &h->door;
	m->client_state = &place->client_state;
	m->client_addr = &place->client_addr;
}

#endif
