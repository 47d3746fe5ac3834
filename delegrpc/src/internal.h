/* SPDX-License-Identifier: MIT */
/* Definitions that the two sides of the library share and users do not see. */
#ifndef DELEGRPC_INTERNAL_H
#define DELEGRPC_INTERNAL_H

#include <assert.h>

#include "base/compiler.h"
#include "base/sized.h"
#include "base/waiter.h"
#include "delegrpc.h"

#define PREFIX "delegrpc"
static_assert(sizeof(PREFIX) - 1 + DELEGRPC_MAX_NAME == SHM_NAME_MAX, "the name's limit");

/* Lock byte of a client id; byte 0 is SHM_SERVER. */
#define CLIENT_BYTE(id) (1 + (id))

/* The offsets of the parts of a region, in bytes from its start. */
struct layout {
	size_t control, lines, requests, responses, size;
	uint32_t req_stride, resp_stride;
	size_t resp_pitch; /* from one client's responses to the next one's */
};

/* Fills in defaults, rounds up. -EINVAL when out of range. */
int attr_complete(struct delegrpc_attr *attr);

/* Reads the access to a region from its attributes. -EINVAL if mode, gid and set are not valid. */
int access_of(const struct delegrpc_attr *attr, struct shm_access *access_p);

/* Reads a caller's attributes, which may be NULL. 0 or -E2BIG. */
int attr_in(struct delegrpc_attr *to, const struct delegrpc_attr *from);

/* Writes the attributes of a region, with who may open it, into a caller's struct of that size. */
void attr_out(struct delegrpc_attr *attr_p, size_t size, const struct delegrpc_attr *attr,
	const struct shm_region *region);

/* attr is complete. */
void layout_of(const struct delegrpc_attr *attr, struct layout *l);

/* True if all calls that can be in flight fit into the ring, so that it is never full. */
static inline bool ring_holds_all(const struct delegrpc_attr *attr)
{
	return (uint64_t)attr->max_clients * attr->resp_depth <= attr->ring_depth;
}

/* The public header includes nothing of base. */
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
