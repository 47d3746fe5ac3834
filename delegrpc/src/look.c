/* SPDX-License-Identifier: MIT */
/*
 * Reads a region without connecting. Everything in it is untrusted: the sizes are checked as a
 * client checks them, and the file is read with pread(2), so that shortening the file meanwhile
 * causes an error, not SIGBUS.
 */
#include "internal.h"

/*
 * Counts slots that are reserved and not given back. Reads tail before head, so tail cannot be
 * greater.
 */
static int look_at_ring(const struct shm_region *r, const struct layout *l, uint32_t ring_depth,
	uint32_t *in_use_p)
{
	const size_t at = l->control;
	uint64_t head, tail;
	int err = shm_read(r, at + offsetof(struct delegrpc_control, tail), &tail, sizeof(tail));

	if (!err)
		err = shm_read(r, at + offsetof(struct delegrpc_control, head), &head,
			sizeof(head));
	if (err)
		return err;
	*in_use_p = head - tail < ring_depth ? (uint32_t)(head - tail) : ring_depth;
	return 0;
}

static enum delegrpc_look_state state_of(int alive, uint32_t state)
{
	if (!alive)
		return DELEGRPC_LOOK_DEAD;
	return state == DELEGRPC_RUNNING ? DELEGRPC_LOOK_RUNNING :
	       state == DELEGRPC_WAITING ? DELEGRPC_LOOK_WAITING :
					   DELEGRPC_LOOK_ASLEEP;
}

/* Counts the clients, and passes each to fn. */
static int look_at_clients(const struct shm_region *r, const struct layout *l,
	struct delegrpc_look_region *look, delegrpc_look_fn *fn, void *arg)
{
	for (uint32_t i = 0; i < look->attr.max_clients; i++) {
		struct delegrpc_line line;
		struct delegrpc_look_client c = {.id = i};
		int alive = shm_locked(r, CLIENT_BYTE(i)), err;

		err = alive < 0 ? alive :
				  shm_read(r, l->lines + i * sizeof(line), &line, sizeof(line));
		if (err)
			return err;
		if (!alive && !line.taken)
			continue;
		look->clients += alive > 0;
		look->dead_clients += !alive;
		c.state = state_of(alive, line.state);
		if (fn)
			fn(arg, &c);
	}
	return 0;
}

int delegrpc_look(const char *name, struct delegrpc_look_region *look_p, size_t size,
	delegrpc_look_fn *fn, void *arg)
{
	struct delegrpc_look_region look = {0};
	struct delegrpc_attr attr;
	struct delegrpc_header h;
	struct shm_region r;
	struct layout l;
	int err = shm_look(PREFIX, name, &r), alive;

	if (err)
		return err;
	err = shm_read(&r, 0, &h, sizeof(h));
	if (!err)
		err = header_check(&h, r.size, &attr, &l);
	if (err)
		goto close;
	attr_out(&look.attr, sizeof(look.attr), &attr, &r);
	look.size = r.size;
	look.connects = h.connects;
	alive = shm_locked(&r, SHM_SERVER);
	look.server = state_of(alive > 0, h.server_state);
	err = alive < 0 ? alive : look_at_ring(&r, &l, h.ring_depth, &look.in_use);
	if (!err)
		err = look_at_clients(&r, &l, &look, fn, arg);
	if (!err)
		sized_out(look_p, size, &look, sizeof(look));
close:
	shm_close(&r);
	return err;
}

int delegrpc_remove_dead(const char *name)
{
	return shm_remove_remains(PREFIX, name, DELEGRPC_MAGIC);
}
