/* SPDX-License-Identifier: MIT */
/*
 * The function LAYER(look)() of delegrpc and shmipc, which reads a region without connecting.
 * Everything in the region is untrusted: the sizes are checked as a client checks them, and the
 * file is read with pread(2), so that shortening the file meanwhile causes an error, not SIGBUS.
 *
 * Before it includes this file, the layer defines WAITER_LAYER, which is its name, and
 *
 *	PREFIX			as for base/waitconnect.h
 *	CLIENT_BYTE(i)		as for base/waitserver.h
 *	LOOK(STATE)		the constant of enum LAYER(look_state) for DEAD, RUNNING, ...
 *	LAYER(header_check)(h, size, l)	checks a header, and computes the struct LAYER(layout)
 *	look_at_layer(r, h, l, look)	fills in the fields that only this layer's struct
 *				LAYER(look_region) has. Returns 0 or -errno
 *	look_at_client(r, h, l, i, word_p)	reads the sleep word of client i. Returns 1 if a
 *				client has taken place i (shmipc) or client id i (delegrpc), 0 if
 *				not, or -errno
 */
#ifndef BASE_WAITLOOK_H
#define BASE_WAITLOOK_H

#include "base/waitattr.h"

static enum LAYER(look_state) state_of(int alive, uint32_t word)
{
	if (!alive)
		return LOOK(DEAD);
	return word == SLEEP_RUNNING ? LOOK(RUNNING) :
	       word == SLEEP_WAITING ? LOOK(WAITING) :
				       LOOK(ASLEEP);
}

/* Counts the living and the dead clients, and calls fn, unless it is NULL, for each. */
static int look_at_clients(const struct shm_region *r, const struct LAYER(header) * h,
	const struct LAYER(layout) * l, struct LAYER(look_region) * look, LAYER(look_fn) * fn,
	void *arg)
{
	for (uint32_t i = 0; i < look->attr.max_clients; i++) {
		int alive = shm_locked(r, CLIENT_BYTE(i)), taken;
		uint32_t word = 0;

		taken = alive < 0 ? alive : look_at_client(r, h, l, i, &word);
		if (taken < 0)
			return taken;
		if (!alive && !taken)
			continue;
		look->clients += alive > 0;
		look->dead_clients += !alive;
		if (fn)
			fn(arg, &(struct LAYER(look_client)){i, state_of(alive, word)});
	}
	return 0;
}

int LAYER(look)(const char *name, struct LAYER(look_region) * look_p, size_t size,
	LAYER(look_fn) * fn, void *arg)
{
	struct LAYER(look_region) look = {0};
	struct LAYER(header) h;
	struct LAYER(layout) l;
	struct shm_region r;
	int err = shm_look(PREFIX, name, &r), alive;

	if (err)
		return err;
	err = shm_read(&r, 0, &h, sizeof(h));
	if (!err)
		err = LAYER(header_check)(&h, r.size, &l);
	if (err)
		goto close;
	attr_out(&look.attr, sizeof(look.attr), &l.attr, &r);
	look.size = r.size;
	alive = shm_locked(&r, SHM_SERVER);
	look.server = state_of(alive > 0, h.server_state);
	err = alive < 0 ? alive : look_at_layer(&r, &h, &l, &look);
	if (!err)
		err = look_at_clients(&r, &h, &l, &look, fn, arg);
	if (!err)
		sized_out(look_p, size, &look, sizeof(look));
close:
	shm_close(&r);
	return err;
}

#endif
