/* SPDX-License-Identifier: MIT */
/* Definitions that the client and the server share and users do not see. */
#ifndef DELEGRPC_INTERNAL_H
#define DELEGRPC_INTERNAL_H

#include <assert.h>

#include "base/compiler.h"
#include "delegrpc.h"

#define WAITER_LAYER delegrpc
#include "base/waitattr.h"

#define PREFIX "delegrpc"
static_assert(sizeof(PREFIX) - 1 + DELEGRPC_MAX_NAME == SHM_NAME_MAX, "the name's limit");

/* The byte of the region's file that a client with this id locks; byte 0 is SHM_SERVER. */
#define CLIENT_BYTE(id) (1 + (id))

/* The sizes of a region, and the offsets of its parts, in bytes from its start. */
struct delegrpc_layout {
	struct delegrpc_attr attr;
	size_t control, lines, requests, responses, size;
	uint32_t req_stride, resp_stride;
	size_t resp_pitch; /* bytes from one client's responses to the next client's */
};

/* Fills in defaults, rounds up. Returns -EINVAL if a value is out of range. */
int attr_complete(struct delegrpc_attr *attr);

static_assert(DELEGRPC_SET_GID == SHM_SET_GID, "the same");

/* Computes the layout. The attributes must be complete: see attr_complete(). */
void layout_of(const struct delegrpc_attr *attr, struct delegrpc_layout *l);

/*
 * Reads the header of a region of @size bytes once and checks it. Returns 0, or -EPROTO if it is
 * not the header of a complete region of this version.
 */
int delegrpc_header_check(const struct delegrpc_header *h, size_t size, struct delegrpc_layout *l);

/* Returns true if all calls that can be in flight fit into the ring, so that it is never full. */
static inline bool ring_holds_all(const struct delegrpc_attr *attr)
{
	return (uint64_t)attr->max_clients * attr->resp_depth <= attr->ring_depth;
}

/* The public header cannot include base, so it repeats struct wakefd_addr. */
static inline struct wakefd_addr *address_of(struct delegrpc_address *address)
{
	static_assert(sizeof(struct wakefd_addr) == sizeof(struct delegrpc_address) &&
			      offsetof(struct wakefd_addr, name) ==
				      offsetof(struct delegrpc_address, name) &&
			      offsetof(struct wakefd_addr, cookie) ==
				      offsetof(struct delegrpc_address, cookie) &&
			      offsetof(struct wakefd_addr, netns) ==
				      offsetof(struct delegrpc_address, netns),
		"the same");
	static_assert(DELEGRPC_ASLEEP == SLEEP_ASLEEP && DELEGRPC_ON_FD == SLEEP_ON_FD, "the same");
	return (struct wakefd_addr *)address;
}

#endif
