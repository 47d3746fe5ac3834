/* SPDX-License-Identifier: MIT */
/*
 * The layout of a region: the header, then one area per client:
 *
 *	client's line | server's line | request ring | 2 KiB | response ring | extra buffer | loans
 *
 * The first two lines are struct shmipc_place; layout.c explains the gap of 2 KiB. Each cache line
 * of the header, and of an area in use up to its extra buffer, has one writer, with two exceptions:
 * a waker resets the sleeper's state, and several processes write the lines of `changes` and
 * `active`.
 */
#ifndef SHMIPC_LAYOUT_H
#define SHMIPC_LAYOUT_H

#include <assert.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/lines.h"

/* The library exports what the public header declares. */
#pragma GCC visibility push(default)
#include "shmipc.h"
#pragma GCC visibility pop

#define WAITER_LAYER shmipc
#include "base/waitattr.h"

#define PREFIX "shmipc" /* prefix of the file's name */
static_assert(sizeof(PREFIX) - 1 + SHMIPC_MAX_NAME == SHM_NAME_MAX, "the name's limit");
#define SHMIPC_ONE_WAY CELLRING_ID_MASK /* the id of posts and pushes */
#define SHMIPC_WORDS 64u /* words of the bitmap shmipc_header.active */
#define SHMIPC_LEAST 64u /* least number of short messages, in full bursts, that a ring can hold */
#define CLIENT_BYTE(index) (1u + (index)) /* byte of the file that is locked; 0: the server's */

/* The sizes in the header, with the same names as in struct shmipc_attr. */
#define SHMIPC_SIZES(DO)                                                                           \
	DO(max_clients)                                                                            \
	DO(depth)                                                                                  \
	DO(req_size)                                                                               \
	DO(resp_size) DO(extra_size) DO(pushes) DO(loans) DO(loan_req_size) DO(loan_resp_size)

struct shmipc_header {
	/* Written once, by the server, before a client can use the region. */
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t max_clients, depth, req_size, resp_size, extra_size;
	uint64_t size;
	uint32_t pushes;
	uint32_t loans, loan_req_size, loan_resp_size;

	/*
	 * Written by the server. A client that wakes the server clears the state, a word of
	 * base/sleep.h.
	 */
	CACHE_ALIGNED uint32_t server_state;
	uint32_t closed;
	struct wakefd_addr server_addr;
	struct wakefd_addr door; /* clients send introductions to it, see shmipc(7); name 0: none */

	/*
	 * Written by clients that connect or disconnect. The server clears `reclaim`, and the bits
	 * of places that it cleans.
	 */
	CACHE_ALIGNED uint32_t changes; /* counts calls of server_notify() */
	uint32_t reclaim; /* not 0: a client found no clean place and requests a cleanup */
	CACHE_ALIGNED uint64_t active[SHMIPC_WORDS]; /* bit i: client i is connected */
};

static_assert(offsetof(struct shmipc_header, magic) == 0, "layout");
static_assert(offsetof(struct shmipc_header, version) == 8, "layout");
static_assert(offsetof(struct shmipc_header, max_clients) == 12, "layout");
static_assert(offsetof(struct shmipc_header, depth) == 16, "layout");
static_assert(offsetof(struct shmipc_header, req_size) == 20, "layout");
static_assert(offsetof(struct shmipc_header, resp_size) == 24, "layout");
static_assert(offsetof(struct shmipc_header, extra_size) == 28, "layout");
static_assert(offsetof(struct shmipc_header, size) == 32, "layout");
static_assert(offsetof(struct shmipc_header, pushes) == 40, "layout");
static_assert(offsetof(struct shmipc_header, loans) == 44, "layout");
static_assert(offsetof(struct shmipc_header, loan_resp_size) == 52, "layout");
static_assert(offsetof(struct shmipc_header, server_state) == 64, "layout");
static_assert(offsetof(struct shmipc_header, closed) == 68, "layout");
static_assert(offsetof(struct shmipc_header, server_addr) == 72, "layout");
static_assert(offsetof(struct shmipc_header, door) == 96, "layout");
static_assert(offsetof(struct shmipc_header, changes) == 128, "layout");
static_assert(offsetof(struct shmipc_header, reclaim) == 132, "layout");
static_assert(offsetof(struct shmipc_header, active) == 192, "layout");
static_assert(sizeof(struct shmipc_header) == 704, "layout");
static_assert(sizeof(struct wakefd_addr) == 24, "name, cookie and netns, 8 bytes each");
static_assert(SHMIPC_WORDS * 64 > SHMIPC_MAX_CLIENTS, "layout");
static_assert(SHMIPC_MAX_DEPTH <= SHMIPC_ONE_WAY, "an id fits into a head");
static_assert(SHMIPC_MAX_PAYLOAD <= CELLRING_LENGTH_MAX, "a length fits into a head");

/*
 * The place of client i is area i. It is clean if its bit in `active` is clear and client_epoch
 * differs from server_epoch. A client that gets the lock of a clean place may take the place, and
 * makes the epochs equal. Only the server cleans a place; to do so it increments server_epoch.
 */
struct shmipc_place {
	/*
	 * Written by the client. The server clears client_state when it wakes the client, and
	 * pushes when it cleans the place.
	 */
	CACHE_ALIGNED uint64_t client_epoch;
	uint32_t client_state;
	struct wakefd_addr client_addr;
	uint32_t pushes; /* number consumed by the client, modulo 2^32 */

	/* Written by the server. */
	CACHE_ALIGNED uint64_t server_epoch;
	uint32_t posts; /* number consumed by the server, modulo 2^32 */
};

static_assert(offsetof(struct shmipc_place, client_epoch) == 0, "layout");
static_assert(offsetof(struct shmipc_place, client_state) == 8, "layout");
static_assert(offsetof(struct shmipc_place, client_addr) == 16, "layout");
static_assert(offsetof(struct shmipc_place, pushes) == 40, "layout");
static_assert(offsetof(struct shmipc_place, server_epoch) == 64, "layout");
static_assert(offsetof(struct shmipc_place, posts) == 72, "layout");
static_assert(sizeof(struct shmipc_place) == 128, "layout");
static_assert(CELLRING_ABI == 3, "the rings' layout belongs to the version of the region");

struct shmipc_layout {
	struct shmipc_attr attr;
	struct cellring_plan req, resp;
	/* Offsets in a client's area; the request ring is at 128. */
	uint64_t resp_ring, extra, pool;
	uint64_t loan_resp; /* offset in a chunk of the pool */
	uint64_t chunk; /* bytes of a chunk */
	uint64_t area; /* bytes of an area */
	uint64_t size; /* of the region */
};

/*
 * Uses the given sizes, and the default for each that is 0. Returns 0, or -EINVAL if one is out of
 * range, or if `loans` is set without a loan size or a loan size without `loans`.
 */
int shmipc_layout_plan(const struct shmipc_attr *attr, struct shmipc_layout *l_p);

/*
 * Reads the header of a region of @size bytes once and checks it. Returns 0, or -EPROTO if it is
 * not the header of a complete region of this version.
 */
int shmipc_header_check(const struct shmipc_header *h, uint64_t size, struct shmipc_layout *l_p);

static_assert(SHMIPC_SET_GID == SHM_SET_GID, "the same");

static inline struct shmipc_place *shmipc_place(const struct shmipc_layout *l, void *region,
	uint32_t index)
{
	return (struct shmipc_place *)((char *)region + sizeof(struct shmipc_header) +
				       index * l->area);
}

static inline void *shmipc_place_extra(const struct shmipc_layout *l, struct shmipc_place *place)
{
	return l->attr.extra_size ? (char *)place + l->extra : NULL;
}

/* Returns a chunk of a client's pool. */
static inline unsigned char *shmipc_place_chunk(const struct shmipc_layout *l,
	struct shmipc_place *place, uint32_t chunk)
{
	return (unsigned char *)place + l->pool + chunk * l->chunk;
}

struct cellring_cursor shmipc_req_start(const struct shmipc_layout *l, struct shmipc_place *place);
struct cellring_cursor shmipc_resp_start(const struct shmipc_layout *l, struct shmipc_place *place);

#endif
