/* SPDX-License-Identifier: MIT */
/* Descriptions of the engine and of its registrations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "search.h"

static uint64_t id_of(const void *by_id, uint32_t i)
{
	return ((struct buffer *const *)by_id)[i]->id;
}

uint32_t buffers_behind(const struct tent *t, uint32_t id)
{
	return search_behind(t->by_id, t->n_by_id, id_of, id);
}

/* NULL: no memory is left. */
static struct desc_buffer *describe_buffer(const struct tent *t, const struct buffer *b)
{
	struct desc_buffer *d = calloc(1, sizeof(*d));
	uint32_t n_keys = t->n_ports * b->n_parts;

	if (!d)
		return NULL;
	*d = (struct desc_buffer){.id = b->id,
		.fd = b->fd,
		.staged = b->staged,
		.shared = b->of_gpu && b->gpu.shared && t->transport->gpus,
		.handle = b->gpu.handle,
		.offset = b->gpu.offset,
		.addr = b->addr,
		.len = b->len,
		.part_len = b->part_len,
		.n_parts = b->n_parts};
	if (b->of_gpu)
		snprintf(d->location, sizeof(d->location), "cuda:%d", b->gpu.device);
	else
		strcpy(d->location, t->topo.locations[b->location]);
	memcpy(d->tiers, t->topo.tiers[b->location], sizeof(d->tiers));
	if (!t->transport->regions)
		return d;
	d->keys = calloc(n_keys, sizeof(*d->keys));
	for (uint32_t i = 0; d->keys && b->regions && i < n_keys; i++)
		d->keys[i] = b->regions[i].rkey;
	if (d->keys)
		return d;
	desc_buffer_free(d);
	return NULL;
}

int describe_memory(const struct tent *t, struct buffer *const *buffers, uint32_t n, struct desc *d)
{
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct desc_buffer *b = NULL;

		if (buffers[i]->state != BUFFER_READY)
			continue;
		b = describe_buffer(t, buffers[i]);
		err = b ? desc_insert(d, b) : -ENOMEM;
		if (err)
			desc_buffer_free(b);
	}
	if (!err && t->stage_in && !(d->stage = describe_buffer(t, t->stage_in)))
		err = -ENOMEM;
	return err;
}

static int describe(const struct tent *t, struct desc *d)
{
	*d = (struct desc){
		.port = t->port,
		.pid = getpid(),
		.proof = (uintptr_t)t->key,
		.epoch = t->n_revoked,
		.n_rails = t->topo.n_rails,
	};
	strcpy(d->host, t->host);
	strcpy(d->boot, t->boot);
	memcpy(d->key, t->key, sizeof(d->key));
	memcpy(d->rails, t->rails, sizeof(d->rails));
	return describe_memory(t, t->buffers, t->n_buffers, d);
}

int tent_export(struct tent *t, char **text_p)
{
	struct desc d;
	int err;

	pthread_mutex_lock(&t->lock);
	err = describe(t, &d);
	pthread_mutex_unlock(&t->lock);
	if (!err)
		err = desc_write(&d, text_p);
	desc_fini(&d);
	return err;
}
