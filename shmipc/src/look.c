/* SPDX-License-Identifier: MIT */
/*
 * Reads a region without connecting. Everything in it is untrusted: the sizes are checked as a
 * client checks them, and the file is read with pread(2), so that shortening the file meanwhile
 * causes an error, not SIGBUS.
 */

#include "layout.h"

static enum shmipc_look_state state_of(int alive, uint32_t state)
{
	if (!alive)
		return SHMIPC_LOOK_DEAD;
	return state == SLEEP_RUNNING ? SHMIPC_LOOK_RUNNING :
	       state == SLEEP_WAITING ? SHMIPC_LOOK_WAITING :
					SHMIPC_LOOK_ASLEEP;
}

/* Counts the clients, and passes each to fn. */
static int look_at_clients(const struct shm_region *r, const struct shmipc_layout *l,
	const struct shmipc_header *h, struct shmipc_look_region *look, shmipc_look_fn *fn,
	void *arg)
{
	for (uint32_t i = 0; i < l->attr.max_clients; i++) {
		struct shmipc_look_client c = {.index = i};
		struct shmipc_place place;
		int alive = shm_locked(r, CLIENT_BYTE(i)), err;

		err = alive < 0 ? alive :
				  shm_read(r, sizeof(*h) + i * l->area, &place, sizeof(place));
		if (err)
			return err;
		if (!alive && !(h->active[i / 64] >> i % 64 & 1))
			continue;
		look->clients += alive > 0;
		look->dead_clients += !alive;
		c.state = state_of(alive, place.client_state);
		if (fn)
			fn(arg, &c);
	}
	return 0;
}

int shmipc_look(const char *name, struct shmipc_look_region *look_p, size_t size,
	shmipc_look_fn *fn, void *arg)
{
	struct shmipc_look_region look = {0};
	struct shmipc_header h;
	struct shmipc_layout l;
	struct shm_region r;
	int err = shm_look(PREFIX, name, &r), alive;

	if (err)
		return err;
	err = shm_read(&r, 0, &h, sizeof(h));
	if (!err)
		err = shmipc_header_check(&h, r.size, &l);
	if (err)
		goto close;
	attr_out(&look.attr, sizeof(look.attr), &l.attr, &r);
	look.size = r.size;
	look.changes = h.changes;
	alive = shm_locked(&r, SHM_SERVER);
	look.server = state_of(alive > 0, h.server_state);
	err = alive < 0 ? alive : look_at_clients(&r, &l, &h, &look, fn, arg);
	if (!err)
		sized_out(look_p, size, &look, sizeof(look));
close:
	shm_close(&r);
	return err;
}

int shmipc_remove_dead(const char *name)
{
	return shm_remove_remains(PREFIX, name, SHMIPC_MAGIC);
}
