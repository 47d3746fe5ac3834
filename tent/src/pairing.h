/* SPDX-License-Identifier: MIT */
/*
 * Pairing: decides which rail here is connected with which rail of the peer. Pure: it knows names
 * and addresses, no devices.
 *
 * With a rail map exactly the pairs that it names. Without one each rail here gets one
 * partner of its own subnet: the one of the same name, else the one that has the fewest
 * partners yet, the first of those. A rail without a partner is an error, because leaving it
 * out, or crossing subnets, would be a detour that nobody sees.
 *
 * The subnet of an InfiniBand port is the prefix of its GID; of a RoCE port the first 64 bits
 * of its GID, or of an IPv4 address the first 24 of that. Where masks are others, use a map:
 *
 *	{"pairs": [{"local": "mlx5_0", "remote": "mlx5_2"}]}
 */
#ifndef TENT_PAIRING_H
#define TENT_PAIRING_H

#include "tent.h"

struct rail_id {
	char name[TENT_NAME_LEN];
	const char *kind; /* one of its transport's */
	uint8_t gid[16];
};

struct rail_pair {
	uint32_t local, remote;
};

struct rail_map {
	uint32_t n;
	char local[TENT_MAX_RAILS][TENT_NAME_LEN], remote[TENT_MAX_RAILS][TENT_NAME_LEN];
};

/* -EINVAL: why says what; also -errno of reading it. */
int rail_map_load(const char *path, struct rail_map *map_p, struct tent_why *why);

/* Are they of one subnet, so that one can send to the other? */
bool rails_meet(const struct rail_id *a, const struct rail_id *b);

/*
 * @map: NULL for none. pairs_p has room for TENT_MAX_RAILS. The number of pairs;
 * -ENETUNREACH a rail has no partner; -EINVAL the map names a rail that is not there, or
 * rails that cannot be connected.
 */
int pair_rails(const struct rail_id *local, uint32_t n_local, const struct rail_id *remote,
	uint32_t n_remote, const struct rail_map *map, struct rail_pair *pairs_p,
	struct tent_why *why);

#endif
