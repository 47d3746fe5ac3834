/* SPDX-License-Identifier: MIT */
/* Topology files; the two forms are described in topo.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "topo.h"
#include "why.h"

static int bad(struct tent_why *why, const char *what, const char *give)
{
	return why_say(why, -EINVAL, "topology: %s: give %s", what, give);
}

/*
 * Returns the rail of a device in a list: a name or, in the first form, the number of one of the
 * nics.
 */
static int rail_of(struct topo *t, const json_t *v, bool may_add, struct tent_why *why)
{
	const char *name = json_string_value(v);
	int rail, err;

	if (json_is_integer(v) && !may_add && json_integer_value(v) >= 0 &&
		json_integer_value(v) < t->n_rails)
		return (int)json_integer_value(v);
	if (!name)
		return bad(why, "a device of a list", "its name");
	rail = topo_rail(t, name);
	if (rail >= 0)
		return rail;
	if (!may_add)
		return bad(why, "a device of a list", "one of the names in nics");
	err = topo_add_rail(t, name, why);
	return err ? err : (int)t->n_rails - 1;
}

/* Reads the devices of one tier of a location. For location 0, only checks or adds the names. */
static int read_tier(struct topo *t, uint32_t location, const json_t *list, uint8_t tier,
	bool may_add, struct tent_why *why)
{
	json_t *v;
	size_t i;

	if (!json_is_array(list))
		return bad(why, "devices of a location", "an array of names");
	json_array_foreach(list, i, v)
	{
		int rail = rail_of(t, v, may_add, why);

		if (rail < 0)
			return rail;
		if (location)
			t->tiers[location][rail] = tier;
	}
	return 0;
}

static int read_nics(struct topo *t, const json_t *nics, struct tent_why *why)
{
	json_t *v;
	size_t i;
	int err;

	if (!json_is_array(nics))
		return bad(why, "nics", "an array of objects");
	json_array_foreach(nics, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));

		if (!name)
			return bad(why, "nics", "objects with a name");
		err = topo_add_rail(t, name, why);
		if (err)
			return err;
	}
	return 0;
}

static int read_mem(struct topo *t, const json_t *mem, struct tent_why *why)
{
	static const char *const ranks[TENT_TIERS] = {"rank0", "rank1", "rank2"};
	const char *name = json_string_value(json_object_get(mem, "name"));
	const json_t *lists = json_object_get(mem, "device_list");
	int err;

	if (!name || !json_is_object(lists))
		return bad(why, "mems", "objects with a name and a device_list");
	err = topo_add_location(t, name, why);
	for (uint8_t tier = 0; tier < TENT_TIERS && !err; tier++) {
		const json_t *list = json_object_get(lists, ranks[tier]);

		if (list)
			err = read_tier(t, t->n_locations - 1, list, tier, false, why);
	}
	return err;
}

static int read_native(struct topo *t, const json_t *root, struct tent_why *why)
{
	const json_t *mems = json_object_get(root, "mems");
	int err = read_nics(t, json_object_get(root, "nics"), why);
	json_t *v;
	size_t i;

	if (!err && mems && !json_is_array(mems))
		return bad(why, "mems", "an array of objects");
	json_array_foreach(mems, i, v)
	{
		if (!err)
			err = read_mem(t, v, why);
	}
	return err;
}

static int read_location(struct topo *t, const char *name, const json_t *tiers,
	struct tent_why *why)
{
	bool known = strcmp(name, "*") != 0;
	int err = 0;

	if (!json_is_array(tiers) || json_array_size(tiers) > TENT_TIERS)
		return bad(why, "a location", "an array of up to 3 arrays of names");
	if (known)
		err = topo_add_location(t, name, why);
	for (size_t i = 0; i < json_array_size(tiers) && !err; i++)
		err = read_tier(t, known ? t->n_locations - 1 : 0, json_array_get(tiers, i),
			(uint8_t)i, true, why);
	return err;
}

static int read_classic(struct topo *t, const json_t *root, struct tent_why *why)
{
	const char *name;
	json_t *tiers;
	int err;

	json_object_foreach((json_t *)root, name, tiers)
	{
		err = read_location(t, name, tiers, why);
		if (err)
			return err;
	}
	return 0;
}

static int read_root(const json_t *root, struct topo *t_p, struct tent_why *why)
{
	struct topo t;
	int err;

	topo_init(&t);
	if (!json_is_object(root))
		return bad(why, "the file", "a JSON object");
	if (json_object_get(root, "nics"))
		err = read_native(&t, root, why);
	else
		err = read_classic(&t, root, why);
	if (!err && !t.n_rails)
		return bad(why, "no device is named", "at least one rail");
	if (!err)
		*t_p = t;
	return err;
}

int topo_load(const char *path, struct topo *t_p, struct tent_why *why)
{
	json_error_t e;
	FILE *f = fopen(path, "re");
	json_t *root;
	int err;

	if (!f)
		return why_say(why, -errno, "topology file %s: %s", path, strerror(errno));
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	err = root ? read_root(root, t_p, why) :
		     why_say(why, -EINVAL, "topology file %s: line %d, column %d: no valid JSON",
			     path, e.line, e.column);
	json_decref(root);
	fclose(f);
	return err;
}
