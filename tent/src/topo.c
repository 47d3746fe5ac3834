/* SPDX-License-Identifier: MIT */
/* The lists of rails and locations, which topohwloc.c and topofile.c fill. */
#include "topo.h"

#include <errno.h>
#include <string.h>

#include "why.h"

void topo_init(struct topo *t)
{
	*t = (struct topo){.n_locations = 1, .locations = {"*"}};
}

static int find(const char (*names)[TENT_NAME_LEN], uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(name, names[i]))
			return (int)i;
	}
	return -1;
}

int topo_location(const struct topo *t, const char *name)
{
	return name ? find(t->locations, t->n_locations, name) : 0;
}

int topo_rail(const struct topo *t, const char *name)
{
	return find(t->rails, t->n_rails, name);
}

/*
 * Appends a name. @first: the number of names that topo_init() has made, which the limit in an
 * error message does not include.
 */
static int add_name(char (*names)[TENT_NAME_LEN], uint32_t *n, uint32_t max, uint32_t first,
	const char *what, const char *name, struct tent_why *why)
{
	size_t len = strlen(name), i = 0;

	while (i < len && name[i] > ' ' && name[i] <= '~')
		i++;
	if (!len || len >= TENT_NAME_LEN || i < len)
		return why_say(why, -EINVAL,
			"a name is not valid: give 1 to %d printable characters without spaces",
			TENT_NAME_LEN - 1);
	if (find((const char(*)[TENT_NAME_LEN])names, *n, name) >= 0)
		return why_say(why, -EINVAL, "%s %s is named twice: name it once", what, name);
	if (*n == max)
		return why_say(why, -EINVAL, "too many %ss: give up to %u", what, max - first);
	strcpy(names[(*n)++], name);
	return 0;
}

int topo_add_rail(struct topo *t, const char *name, struct tent_why *why)
{
	int err = add_name(t->rails, &t->n_rails, TENT_MAX_RAILS, 0, "rail", name, why);

	for (uint32_t l = 1; l < t->n_locations && !err; l++)
		t->tiers[l][t->n_rails - 1] = TENT_TIERS - 1;
	return err;
}

int topo_add_location(struct topo *t, const char *name, struct tent_why *why)
{
	int err = add_name(t->locations, &t->n_locations, TOPO_MAX_LOCATIONS, 1, "location", name,
		why);

	if (!err)
		memset(t->tiers[t->n_locations - 1], TENT_TIERS - 1, sizeof(t->tiers[0]));
	return err;
}
