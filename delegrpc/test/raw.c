/* SPDX-License-Identifier: MIT */
#include "support/test.h"
#include "raw.h"

struct raw *raw_open(const char *name)
{
	struct raw *raw = calloc(1, sizeof(*raw));
	unsigned char *base;

	CHECK(raw);
	CHECK_EQ(shm_attach("delegrpc", name, sizeof(*raw->header), &raw->region), 0);
	base = raw->region.addr;
	raw->header = (void *)base;
	raw->control = (void *)(base + 128);
	raw->lines = (void *)(base + 256);
	raw->requests = (void *)(raw->lines + raw->header->max_clients);
	raw->req_stride = (16 + raw->header->req_size + 15) / 16 * 16;
	raw->responses = raw->requests + raw->header->ring_depth * raw->req_stride;
	raw->responses += -(uintptr_t)raw->responses % 64;
	return raw;
}

void raw_close(struct raw *raw)
{
	shm_close(&raw->region);
	free(raw);
}

void raw_end(struct raw **raw)
{
	raw_close(*raw);
}

uint64_t raw_reserve(struct raw *raw, uint32_t client, uint32_t n)
{
	uint64_t *claim = &raw->lines[client].claim, pos;

	CHECK_EQ(shm_lock(&raw->region, 1 + client), 0);
	__atomic_store_n(claim, DELEGRPC_CLAIM_INTENT, __ATOMIC_RELEASE);
	pos = __atomic_fetch_add(&raw->control->head, n, __ATOMIC_ACQ_REL);
	__atomic_store_n(claim, DELEGRPC_CLAIM_AT(pos, n), __ATOMIC_RELEASE);
	return pos;
}

void raw_fill(struct raw *raw, uint64_t pos, uint32_t client, uint64_t id, uint32_t value)
{
	raw_fill_length(raw, pos, client, id, value, sizeof(value));
}

void raw_fill_length(struct raw *raw, uint64_t pos, uint32_t client, uint64_t id, uint32_t value,
	uint32_t len)
{
	uint32_t depth = raw->header->ring_depth;
	unsigned char *slot = raw->requests + (pos & (depth - 1)) * raw->req_stride;
	uint64_t head = (uint64_t)len << DELEGRPC_REQ_LEN_SHIFT | (uint64_t)(client & 0x7fff) << 32;

	memcpy(slot + 8, &id, sizeof(id));
	memcpy(slot + 16, &value, sizeof(value));
	__atomic_store_n((uint64_t *)(void *)slot, head | (uint32_t)(pos / depth + 1),
		__ATOMIC_RELEASE);
}
