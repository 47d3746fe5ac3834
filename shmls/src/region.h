/* SPDX-License-Identifier: MIT */
/* The regions of delegrpc and shmipc, in a struct that is the same for both. */
#ifndef SHMLS_REGION_H
#define SHMLS_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The states of both layers; see delegrpc.h. */
enum region_state { REGION_DEAD, REGION_RUNNING, REGION_WAITING, REGION_ASLEEP };

struct region_client {
	uint32_t index;
	enum region_state state;
};

struct region {
	const struct region_layer *layer;
	const char *name; /* without the layer */
	int err; /* if not 0: the reason why the fields below are not known */
	uint32_t foreign; /* with -EPROTO: the version, if this program does not read it; else 0 */
	uint64_t size;
	uint32_t mode, gid;
	enum region_state server;
	uint32_t max_clients, depth, req_size, resp_size;
	bool has_ring; /* the layer has a shared request ring */
	uint32_t in_use, ring_depth; /* slots of that ring */
	uint32_t alive, dead; /* numbers of clients */
	struct region_client *client; /* the alive and the dead clients */
	size_t n_clients;
};

struct region_layer {
	const char *name;
	/* Fills in the region. Returns 0 or -errno. */
	int (*look)(const char *name, struct region *r);
	int (*remove_dead)(const char *name);
	uint64_t magic; /* the first bytes of a region of any version; its version follows */
	uint32_t version; /* of the regions that are read */
};

/* Reads the region in @file, "<layer>.<name>". Returns 0 (r->err shows whether the region could be
 * read), -EINVAL if there is no such layer, or -ENOMEM. */
int region_read(const char *file, struct region *r);

/* Reads all regions in /dev/shm, sorted by file. Returns their number or -errno. */
int regions_read(struct region **regions_p);

void regions_free(struct region *regions, size_t n);

/* Returns the reason why a region cannot be read or removed. */
const char *region_why(int err);

#define REGION_TEXT 96

/* Returns the reason why this region cannot be read; it may be stored in @text. */
const char *region_unread(const struct region *r, char text[REGION_TEXT]);

#endif
