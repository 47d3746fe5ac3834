/* SPDX-License-Identifier: MIT */
#include "layout.h"

#define LOOK(state) SHMIPC_LOOK_##state

static int look_at_layer(const struct shm_region *r, const struct shmipc_header *h,
	const struct shmipc_layout *l, struct shmipc_look_region *look)
{
	look->changes = h->changes;
	return 0;
}

static int look_at_client(const struct shm_region *r, const struct shmipc_header *h,
	const struct shmipc_layout *l, uint32_t i, uint32_t *word_p)
{
	struct shmipc_place place;
	int err = shm_read(r, sizeof(*h) + i * l->area, &place, sizeof(place));

	if (err)
		return err;
	*word_p = place.client_state;
	return h->active[i / 64] >> i % 64 & 1;
}

#include "base/waitlook.h"

int shmipc_remove_dead(const char *name)
{
	return shm_remove_remains(PREFIX, name, SHMIPC_MAGIC);
}
