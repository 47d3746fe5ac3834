/* SPDX-License-Identifier: MIT */
#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * There are more cells than depth, because a response counts as read before its callback has run.
 * A ring has room for at least SHMIPC_LEAST short messages. A longer ring would not stay in the
 * first-level cache. Pushes have their own limit, and each may fill a cell.
 */
static struct cellring_plan ring_plan(uint32_t depth, uint32_t payload, uint32_t pushes)
{
	struct cellring_plan p = cellring_plan_for(payload, depth,
		4 * depth > SHMIPC_LEAST ? 4 * depth : SHMIPC_LEAST);

	if (p.stride > CELLRING_STAGED) /* long messages are published one by one */
		p.cells = depth + 1;
	p.cells += pushes;
	return p;
}

#define COPY(size_) l.attr.size_ = attr->size_;

int shmipc_layout_plan(const struct shmipc_attr *attr, struct shmipc_layout *l_p)
{
	struct shmipc_layout l = {0};

	SHMIPC_SIZES(COPY)
	l.attr.max_clients = or_default(attr->max_clients, 64);
	l.attr.depth = or_default(attr->depth, 64);
	l.attr.req_size = or_default(attr->req_size, 56);
	l.attr.resp_size = or_default(attr->resp_size, 56);
	l.attr.events = attr->events;
	if (l.attr.max_clients > SHMIPC_MAX_CLIENTS || l.attr.depth > SHMIPC_MAX_DEPTH ||
		l.attr.req_size > SHMIPC_MAX_PAYLOAD || l.attr.resp_size > SHMIPC_MAX_PAYLOAD ||
		l.attr.pushes > SHMIPC_MAX_DEPTH)
		return -EINVAL;
	if (l.attr.loans > SHMIPC_MAX_LOANS || l.attr.loan_req_size > SHMIPC_MAX_LOAN ||
		l.attr.loan_resp_size > SHMIPC_MAX_LOAN ||
		!l.attr.loans != !(l.attr.loan_req_size | l.attr.loan_resp_size))
		return -EINVAL;
	l.req = ring_plan(l.attr.depth, l.attr.req_size, 0);
	l.resp = ring_plan(l.attr.depth, l.attr.resp_size, l.attr.pushes);
	/*
	 * Half a page is added, because a process writes one ring and reads the other at about the
	 * same index, and a load waits for an earlier store whose low 12 address bits are equal.
	 */
	l.resp_ring = sizeof(struct shmipc_place) + cellring_bytes(&l.req) + 2048;
	l.extra = l.resp_ring + cellring_bytes(&l.resp);
	l.pool = align_up(l.extra + l.attr.extra_size, CACHE_LINE);
	l.loan_resp = align_up(l.attr.loan_req_size, CACHE_LINE);
	l.chunk = l.loan_resp + align_up(l.attr.loan_resp_size, CACHE_LINE);
	l.area = l.pool + l.attr.loans * l.chunk;
	/*
	 * This cannot overflow: there are at most 2^12 areas, each with 3 * 2^18 cells of little
	 * more than 2^20 bytes and 2^12 chunks of 2^25 bytes.
	 */
	l.size = sizeof(struct shmipc_header) + l.attr.max_clients * l.area;
	*l_p = l;
	return 0;
}

#define LOAD(size_) a.size_ = __atomic_load_n(&h->size_, __ATOMIC_RELAXED);

int shmipc_header_check(const struct shmipc_header *h, uint64_t size, struct shmipc_layout *l_p)
{
	struct shmipc_attr a = {0};

	if (h->magic != SHMIPC_MAGIC || h->version != SHMIPC_VERSION)
		return -EPROTO;
	SHMIPC_SIZES(LOAD)
	if (!a.max_clients || !a.depth || !a.req_size || !a.resp_size ||
		shmipc_layout_plan(&a, l_p) || l_p->size != size)
		return -EPROTO;
	return 0;
}

struct cellring_cursor shmipc_req_start(const struct shmipc_layout *l, struct shmipc_place *place)
{
	struct cellring_cursor c;

	cellring_cursor_init(&c, place + 1, &l->req);
	return c;
}

struct cellring_cursor shmipc_resp_start(const struct shmipc_layout *l, struct shmipc_place *place)
{
	struct cellring_cursor c;

	cellring_cursor_init(&c, (char *)place + l->resp_ring, &l->resp);
	return c;
}
