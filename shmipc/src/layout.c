/* SPDX-License-Identifier: MIT */
#include "layout.h"

#include <errno.h>
#include <stdlib.h>

#define LINE_PAIR (2 * CACHE_LINE) /* what an adjacent-line prefetcher takes together */

static uint32_t or_default(uint32_t value, uint32_t def)
{
	return value ? value : def;
}

/* Packed: what is published together shares lines. */
static uint32_t slot_stride(uint32_t payload)
{
	return (uint32_t)align_up(sizeof(struct shmipc_slot) + payload, sizeof(uint64_t));
}

/*
 * More than depth, since a response counts as read before its callback has run. Four times
 * as many where messages travel in bursts, which then need not wait for those before; more
 * would only leave the nearest cache.
 */
static uint32_t ring_slots(uint32_t depth, uint32_t stride)
{
	uint32_t slots = depth + 1;

	if (stride <= SHMIPC_STAGED)
		slots = 4 * depth > SHMIPC_LEAST_SLOTS ? 4 * depth : SHMIPC_LEAST_SLOTS;
	return (uint32_t)pow2_ceil(slots);
}

static uint64_t ring_bytes(uint32_t slots, uint32_t stride)
{
	return align_up((uint64_t)slots * stride, CACHE_LINE);
}

int shmipc_layout_plan(const struct shmipc_attr *attr, struct shmipc_layout *l_p)
{
	struct shmipc_layout l = { 0 };

	l.attr.max_clients = or_default(attr->max_clients, 64);
	l.attr.depth = or_default(attr->depth, 64);
	l.attr.req_size = or_default(attr->req_size, 56);
	l.attr.resp_size = or_default(attr->resp_size, 56);
	l.attr.extra_size = attr->extra_size;
	if (l.attr.max_clients > SHMIPC_MAX_CLIENTS || l.attr.depth > SHMIPC_MAX_DEPTH ||
		l.attr.req_size > SHMIPC_MAX_PAYLOAD || l.attr.resp_size > SHMIPC_MAX_PAYLOAD)
		return -EINVAL;
	l.req_stride = slot_stride(l.attr.req_size);
	l.resp_stride = slot_stride(l.attr.resp_size);
	l.req_slots = ring_slots(l.attr.depth, l.req_stride);
	l.resp_slots = ring_slots(l.attr.depth, l.resp_stride);
	/*
	 * Half a page on: a side writes one ring and reads the other at about the same
	 * index, and a load waits for an earlier store whose low 12 address bits are equal.
	 */
	l.resp_ring = sizeof(struct shmipc_place) + ring_bytes(l.req_slots, l.req_stride) + 2048;
	l.extra = l.resp_ring + ring_bytes(l.resp_slots, l.resp_stride);
	l.area = align_up(l.extra + l.attr.extra_size, CACHE_LINE);
	/* At most 2^12 areas of 2 * 2^18 slots of little over 2^20: no overflow. */
	l.size = sizeof(struct shmipc_header) + l.attr.max_clients * l.area;
	*l_p = l;
	return 0;
}

static struct shmipc_cursor ring_start(void *ring, uint32_t slots, uint32_t stride)
{
	char *base = ring;

	return (struct shmipc_cursor){
		.slot = base,
		.ready = base,
		.base = base,
		.end = base + (size_t)slots * stride,
		.stride = stride,
		.lap = 1,
	};
}

struct shmipc_cursor shmipc_req_start(const struct shmipc_layout *l, struct shmipc_place *place)
{
	return ring_start(place + 1, l->req_slots, l->req_stride);
}

struct shmipc_cursor shmipc_resp_start(const struct shmipc_layout *l, struct shmipc_place *place)
{
	return ring_start((char *)place + l->resp_ring, l->resp_slots, l->resp_stride);
}

void *shmipc_alloc(size_t n, size_t size)
{
	size_t bytes = align_up(n * size, LINE_PAIR);
	void *p = aligned_alloc(LINE_PAIR, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}
