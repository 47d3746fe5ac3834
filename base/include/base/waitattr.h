/* SPDX-License-Identifier: MIT */
/*
 * The attributes of a region of delegrpc or shmipc. Before it includes this file, the layer defines
 * WAITER_LAYER, which is its name, and includes its public header.
 */
#ifndef BASE_WAITATTR_H
#define BASE_WAITATTR_H

#include "base/sized.h"
#include "base/waiter.h"

/* Writes a region's sizes and access to a caller's struct, at most @size bytes. */
static inline void attr_out(struct LAYER(attr) * attr_p, size_t size,
	const struct LAYER(attr) * sizes, const struct shm_region *region)
{
	struct LAYER(attr) a = *sizes;

	a.size = size < sizeof(a) ? size : sizeof(a);
	a.mode = region->access.mode;
	a.gid = region->access.gid;
	/* A region of one user has no group, and shm_access_init() refuses SHM_SET_GID for it. */
	a.set = a.mode == 0660 ? SHM_SET_GID : 0;
	sized_out(attr_p, size, &a, sizeof(a));
}

#endif
