/* SPDX-License-Identifier: MIT */
#include "internal.h"

#define LOOK(state) DELEGRPC_LOOK_##state

/*
 * Counts slots that are reserved and not given back. Reads tail before head, so tail cannot be
 * greater.
 */
static int look_at_layer(const struct shm_region *r, const struct delegrpc_header *h,
	const struct delegrpc_layout *l, struct delegrpc_look_region *look)
{
	const size_t at = l->control;
	uint64_t head, tail;
	int err = shm_read(r, at + offsetof(struct delegrpc_control, tail), &tail, sizeof(tail));

	if (!err)
		err = shm_read(r, at + offsetof(struct delegrpc_control, head), &head,
			sizeof(head));
	if (err)
		return err;
	look->connects = h->connects;
	look->in_use = head - tail < h->ring_depth ? (uint32_t)(head - tail) : h->ring_depth;
	return 0;
}

static int look_at_client(const struct shm_region *r, const struct delegrpc_header *h,
	const struct delegrpc_layout *l, uint32_t i, uint32_t *word_p)
{
	struct delegrpc_line line;
	int err = shm_read(r, l->lines + i * sizeof(line), &line, sizeof(line));

	if (err)
		return err;
	*word_p = line.state;
	return line.taken != 0;
}

#include "base/waitlook.h"

int delegrpc_remove_dead(const char *name)
{
	return shm_remove_remains(PREFIX, name, DELEGRPC_MAGIC);
}
