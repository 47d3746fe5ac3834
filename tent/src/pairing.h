/* SPDX-License-Identifier: MIT */
/*
 * Pairing: decides which rail here is connected with which rail of the peer. The functions use only
 * names and addresses, no devices.
 *
 * With a rail map, exactly the pairs in the map are made. Without a map, each rail here gets one
 * partner of its own subnet: the rail of the same name, else the first of those with the fewest
 * partners. A rail without a partner is an error: leaving it out, or crossing subnets, would reduce
 * the bandwidth without a message.
 *
 * The subnet of an InfiniBand port is the prefix of its GID. The subnet of a RoCE port is the first
 * 64 bits of its GID or, if the GID is an IPv4 address, the first 24 bits of that. For other masks,
 * use a map:
 *
 *	{"pairs": [{"local": "mlx5_0", "remote": "mlx5_2"}]}
 */
#ifndef TENT_PAIRING_H
#define TENT_PAIRING_H

#include "tent.h"

struct rail_id {
	char name[TENT_NAME_LEN];
	const char *kind; /* one of transport.kinds */
	uint8_t gid[16];
};

struct rail_pair {
	uint32_t local, remote;
};

struct rail_map {
	uint32_t n;
	char local[TENT_MAX_RAILS][TENT_NAME_LEN], remote[TENT_MAX_RAILS][TENT_NAME_LEN];
};

/* 0; -EINVAL: the map is wrong, see @why; or -errno: the file cannot be opened. */
int rail_map_load(const char *path, struct rail_map *map_p, struct tent_why *why);

/* True: the rails are in one subnet, so that one can send to the other. */
bool rails_meet(const struct rail_id *a, const struct rail_id *b);

/*
 * @map: may be NULL. @pairs_p: must have room for TENT_MAX_RAILS pairs. Returns the number of
 * pairs; -ENETUNREACH: a rail has no partner; -EINVAL: the map names a rail that does not exist, or
 * rails that cannot be connected.
 */
int pair_rails(const struct rail_id *local, uint32_t n_local, const struct rail_id *remote,
	uint32_t n_remote, const struct rail_map *map, struct rail_pair *pairs_p,
	struct tent_why *why);

#endif
