/* SPDX-License-Identifier: MIT */
#include "pairing.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "why.h"

static int read_name(const json_t *pair, const char *key, char *name_p)
{
	const char *name = json_string_value(json_object_get(pair, key));

	if (!name || !*name || strlen(name) >= TENT_NAME_LEN)
		return -EINVAL;
	why_printable(name, name_p, TENT_NAME_LEN);
	return 0;
}

static int read_map(const json_t *root, struct rail_map *map)
{
	const json_t *pairs = json_object_get(root, "pairs");

	if (json_object_size(root) != 1 || !json_array_size(pairs) ||
		json_array_size(pairs) > TENT_MAX_RAILS)
		return -EINVAL;
	for (map->n = 0; map->n < json_array_size(pairs); map->n++) {
		const json_t *pair = json_array_get(pairs, map->n);

		if (json_object_size(pair) != 2 || read_name(pair, "local", map->local[map->n]) ||
			read_name(pair, "remote", map->remote[map->n]))
			return -EINVAL;
	}
	return 0;
}

int rail_map_load(const char *path, struct rail_map *map_p, struct tent_why *why)
{
	struct rail_map map;
	json_error_t e;
	json_t *root;
	FILE *f = fopen(path, "re");
	int err;

	if (!f)
		return why_say(why, -errno, "rail map %s: %s", path, strerror(errno));
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	fclose(f);
	err = read_map(root, &map);
	json_decref(root);
	if (err)
		return why_say(why, err,
			"rail map %s: give {\"pairs\": [{\"local\": NAME, \"remote\": NAME}, ...]}, 1 "
			"to %d pairs",
			path, TENT_MAX_RAILS);
	*map_p = map;
	return 0;
}

static bool is_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

bool rails_meet(const struct rail_id *a, const struct rail_id *b)
{
	if (strcmp(a->kind, b->kind))
		return false;
	if (is_ipv4(a->gid) != is_ipv4(b->gid))
		return false;
	return !memcmp(a->gid, b->gid, is_ipv4(a->gid) ? 15 : 8);
}

/* Returns the partner of a rail, or -1. @partners: how many partners each remote rail has. */
static int partner(const struct rail_id *rail, const struct rail_id *remote, uint32_t n_remote,
	const uint32_t *partners)
{
	int best = -1;

	for (uint32_t j = 0; j < n_remote; j++) {
		if (!rails_meet(rail, &remote[j]))
			continue;
		if (!strcmp(rail->name, remote[j].name))
			return (int)j;
		if (best < 0 || partners[j] < partners[best])
			best = (int)j;
	}
	return best;
}

static int find_rail(const struct rail_id *rails, uint32_t n, const char *name, const char *where,
	struct tent_why *why)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(rails[i].name, name))
			return (int)i;
	}
	return why_say(why, -EINVAL, "rail map: %s is no rail %s", name, where);
}

static int pair_by_map(const struct rail_id *local, uint32_t n_local, const struct rail_id *remote,
	uint32_t n_remote, const struct rail_map *map, struct rail_pair *pairs_p,
	struct tent_why *why)
{
	for (uint32_t i = 0; i < map->n; i++) {
		int l = find_rail(local, n_local, map->local[i], "of this engine", why);
		int r = l < 0 ? l : find_rail(remote, n_remote, map->remote[i], "of the peer", why);

		if (r < 0)
			return r;
		if (strcmp(local[l].kind, remote[r].kind))
			return why_say(why, -EINVAL,
				"rail map: %s is %s here and %s is %s at the peer: they cannot be "
				"connected",
				local[l].name, local[l].kind, remote[r].name, remote[r].kind);
		pairs_p[i] = (struct rail_pair){(uint32_t)l, (uint32_t)r};
	}
	return (int)map->n;
}

int pair_rails(const struct rail_id *local, uint32_t n_local, const struct rail_id *remote,
	uint32_t n_remote, const struct rail_map *map, struct rail_pair *pairs_p,
	struct tent_why *why)
{
	uint32_t partners[TENT_MAX_RAILS] = {0};

	if (map)
		return pair_by_map(local, n_local, remote, n_remote, map, pairs_p, why);
	for (uint32_t i = 0; i < n_local; i++) {
		int j = partner(&local[i], remote, n_remote, partners);

		if (j < 0)
			return why_say(why, -ENETUNREACH,
				"rail %s (%s) has no partner of its subnet at the peer: pair rails with "
				"rail_map, or leave it out with topology",
				local[i].name, local[i].kind);
		partners[j]++;
		pairs_p[i] = (struct rail_pair){i, (uint32_t)j};
	}
	return (int)n_local;
}
