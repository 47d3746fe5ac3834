/* SPDX-License-Identifier: MIT */
#include "region.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <delegrpc.h>
#include <shmipc.h>

#include "base/compiler.h"

#define SHM_DIR "/dev/shm"

/* Appends a client to the region's list. Sets r->err if there is no memory. */
static void note_client(struct region *r, uint32_t index, uint32_t state)
{
	struct region_client *grown =
		(struct region_client *)realloc(r->client, (r->n_clients + 1) * sizeof(*grown));

	if (!grown) {
		r->err = -ENOMEM;
		return;
	}
	r->client = grown;
	r->client[r->n_clients++] = (struct region_client){index, (enum region_state)state};
}

static_assert(REGION_DEAD == (int)DELEGRPC_LOOK_DEAD && REGION_ASLEEP == (int)DELEGRPC_LOOK_ASLEEP,
	"the same states");
static_assert(REGION_DEAD == (int)SHMIPC_LOOK_DEAD && REGION_ASLEEP == (int)SHMIPC_LOOK_ASLEEP,
	"the same states");

/* Copies the fields that delegrpc_look_region and shmipc_look_region both have. */
#define TAKE(r, look)                                                                              \
	do {                                                                                       \
		(r)->size = (look).size;                                                           \
		(r)->mode = (look).attr.mode;                                                      \
		(r)->gid = (look).attr.gid;                                                        \
		(r)->server = (enum region_state)(look).server;                                    \
		(r)->max_clients = (look).attr.max_clients;                                        \
		(r)->req_size = (look).attr.req_size;                                              \
		(r)->resp_size = (look).attr.resp_size;                                            \
		(r)->alive = (look).clients;                                                       \
		(r)->dead = (look).dead_clients;                                                   \
	} while (0)

static void on_delegrpc_client(void *arg, const struct delegrpc_look_client *c)
{
	note_client((struct region *)arg, c->id, c->state);
}

static int look_at_delegrpc(const char *name, struct region *r)
{
	struct delegrpc_look_region look;
	int err = delegrpc_look(name, &look, sizeof(look), on_delegrpc_client, r);

	if (err)
		return err;
	TAKE(r, look);
	r->depth = look.attr.resp_depth;
	r->has_ring = true;
	r->in_use = look.in_use;
	r->ring_depth = look.attr.ring_depth;
	return r->err;
}

static void on_shmipc_client(void *arg, const struct shmipc_look_client *c)
{
	note_client((struct region *)arg, c->index, c->state);
}

static int look_at_shmipc(const char *name, struct region *r)
{
	struct shmipc_look_region look;
	int err = shmipc_look(name, &look, sizeof(look), on_shmipc_client, r);

	if (err)
		return err;
	TAKE(r, look);
	r->depth = look.attr.depth;
	return r->err;
}

static const struct region_layer layers[] = {
	{"delegrpc", look_at_delegrpc, delegrpc_remove_dead, DELEGRPC_MAGIC, DELEGRPC_VERSION},
	{"shmipc", look_at_shmipc, shmipc_remove_dead, SHMIPC_MAGIC, SHMIPC_VERSION},
};

/* Returns the layer whose prefix this file name has, and the name after it; or NULL. */
static const struct region_layer *layer_of(const char *file, const char **name_p)
{
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++) {
		size_t n = strlen(layers[i].name);

		if (strncmp(file, layers[i].name, n) || file[n] != '.' || !file[n + 1])
			continue;
		*name_p = file + n + 1;
		return &layers[i];
	}
	return NULL;
}

/* Returns the version of the region if it is not the one that this program reads, else 0. */
static uint32_t foreign_version(const char *file, const struct region_layer *layer)
{
	struct {
		uint64_t magic;
		uint32_t version, next;
	} head = {0};
	char path[sizeof(SHM_DIR) + NAME_MAX + 2];
	int fd;

	snprintf(path, sizeof(path), SHM_DIR "/%s", file);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
		head.magic != layer->magic || head.version == layer->version)
		head.version = 0;
	close(fd);
	return head.version;
}

int region_read(const char *file, struct region *r)
{
	const char *name;
	const struct region_layer *layer = layer_of(file, &name);

	*r = (struct region){.layer = layer};
	if (!layer)
		return -EINVAL;
	r->name = strdup(name);
	if (!r->name)
		return -ENOMEM;
	r->err = layer->look(r->name, r);
	if (r->err == -EPROTO)
		r->foreign = foreign_version(file, layer);
	return 0;
}

static int by_file(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_region(const struct dirent *e)
{
	const char *name;

	return layer_of(e->d_name, &name) != NULL;
}

int regions_read(struct region **regions_p)
{
	struct dirent **entry;
	int n = scandir(SHM_DIR, &entry, is_region, by_file), k = 0, err = 0;
	struct region *r;

	if (n < 0)
		return -errno;
	r = (struct region *)calloc((size_t)n + 1, sizeof(*r));
	for (int i = 0; i < n; i++) {
		if (r && !err)
			err = region_read(entry[i]->d_name, &r[k]);
		/* A region that has just been removed is left out. */
		if (r && !err && r[k].err != -ENOENT)
			k++;
		else if (r)
			free((char *)r[k].name);
		free(entry[i]);
	}
	free(entry);
	if (!r || err) {
		regions_free(r, (size_t)k);
		return r ? err : -ENOMEM;
	}
	*regions_p = r;
	return k;
}

void regions_free(struct region *regions, size_t n)
{
	for (size_t i = 0; regions && i < n; i++) {
		free((char *)regions[i].name);
		free(regions[i].client);
	}
	free(regions);
}

const char *region_why(int err)
{
	switch (err) {
	case -ENOENT:
		return "no such region";
	case -EINVAL:
		return "not the name of a region; give delegrpc.NAME or shmipc.NAME";
	case -EACCES:
		return "owned by another user, or not a region file";
	case -ELOOP:
		return "a symbolic link";
	case -EPROTO:
		return "not a complete region of this version";
	case -EADDRINUSE:
		return "its server is alive";
	case -EAGAIN:
		return "a server is starting with this name; try again";
	default:
		return strerror(-err);
	}
}

const char *region_unread(const struct region *r, char text[REGION_TEXT])
{
	if (!r->foreign)
		return region_why(r->err);
	snprintf(text, REGION_TEXT, "of version %u, this shmls reads version %u", r->foreign,
		r->layer->version);
	return text;
}
