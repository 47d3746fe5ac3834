/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "internal.h"

int attr_complete(struct delegrpc_attr *attr)
{
	uint64_t ring = attr->ring_depth;

	attr->max_clients = or_default(attr->max_clients, 64);
	attr->resp_depth = or_default(attr->resp_depth, 64);
	attr->req_size = or_default(attr->req_size, CACHE_LINE - DELEGRPC_REQ_HEADER);
	attr->resp_size = or_default(attr->resp_size, CACHE_LINE - DELEGRPC_RESP_HEADER);
	if (attr->max_clients > DELEGRPC_MAX_CLIENTS ||
		attr->resp_depth > DELEGRPC_MAX_RESP_DEPTH ||
		attr->req_size > DELEGRPC_MAX_PAYLOAD || attr->resp_size > DELEGRPC_MAX_PAYLOAD)
		return -EINVAL;
	attr->resp_depth = (uint32_t)pow2_ceil(attr->resp_depth);
	if (!ring) {
		ring = (uint64_t)attr->max_clients * attr->resp_depth;
		if (ring < 256) /* a shorter ring is slower: more of its lines move between cores */
			ring = 256;
		if (ring > DELEGRPC_MAX_RING_DEPTH)
			ring = DELEGRPC_MAX_RING_DEPTH;
	}
	if (ring > DELEGRPC_MAX_RING_DEPTH)
		return -EINVAL;
	attr->ring_depth = (uint32_t)pow2_ceil(ring);
	if (!ring_holds_all(attr) && attr->ring_depth <= attr->max_clients * DELEGRPC_BATCH)
		return -EINVAL;
	return 0;
}

void layout_of(const struct delegrpc_attr *attr, struct delegrpc_layout *l)
{
	l->attr = *attr;
	/*
	 * Slots are packed, so that a burst takes few cache lines. Response rings share no cache
	 * line.
	 */
	l->req_stride = (uint32_t)align_up(DELEGRPC_REQ_HEADER + attr->req_size, 16);
	l->resp_stride = (uint32_t)align_up(DELEGRPC_RESP_HEADER + attr->resp_size, 8);
	l->resp_pitch = align_up(attr->resp_depth * (size_t)l->resp_stride, CACHE_LINE);
	l->control = sizeof(struct delegrpc_header);
	l->lines = l->control + sizeof(struct delegrpc_control);
	l->requests = l->lines + attr->max_clients * sizeof(struct delegrpc_line);
	l->responses = align_up(l->requests + attr->ring_depth * (size_t)l->req_stride, CACHE_LINE);
	l->size = l->responses + attr->max_clients * l->resp_pitch;
}

int delegrpc_header_check(const struct delegrpc_header *h, size_t size, struct delegrpc_layout *l)
{
	struct delegrpc_attr attr, complete;

	if (h->magic != DELEGRPC_MAGIC || h->version != DELEGRPC_VERSION)
		return -EPROTO;
	attr = (struct delegrpc_attr){.max_clients = h->max_clients,
		.ring_depth = h->ring_depth,
		.resp_depth = h->resp_depth,
		.req_size = h->req_size,
		.resp_size = h->resp_size};
	complete = attr;
	/* attr_complete() does not change attributes that are complete and in range. */
	if (attr_complete(&complete) || memcmp(&complete, &attr, sizeof(complete)) != 0)
		return -EPROTO;
	layout_of(&attr, l);
	return l->size == size ? 0 : -EPROTO;
}
