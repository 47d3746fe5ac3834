/* SPDX-License-Identifier: MIT */
/* The memory of a network. */
#include "network.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "base/sized.h"
#include "live.h"

#define PAGE 4096u
#define INFLIGHT 256u
/*
 * The default capacity is TIMES messages per call in flight, at least LEAST. Short rings stay in
 * the first-level cache.
 */
#define TIMES 4u
#define LEAST 64u
#define PAYLOAD ((uint32_t)(CACHE_LINE - sizeof(struct cellring_message)))

static_assert(FLUX_MAX_CAPACITY <= FLUX_ONE_WAY, "an id fits into a head");
static_assert(FLUX_MAX_PAYLOAD <= CELLRING_LENGTH_MAX, "a length fits into a head");

/* The offsets of all parts of the mapping. The data of a node has pages of its own. */
struct layout {
	/* Offsets in a node's block; struct flux_shared is at 0. */
	size_t node, out, in, tokens, ids, ended, held, bursts, consumed;
	size_t block; /* bytes of a node's block */
	size_t blocks, rings; /* offsets in the mapping */
	struct cellring_plan req, resp;
	size_t pitch; /* bytes from one ring to the next */
	size_t bytes;
};

static int attr_resolve(struct flux_attr *a)
{
	if (a->reserved)
		return -E2BIG;
	if (!a->max_inflight)
		a->max_inflight =
			a->capacity && a->capacity <= INFLIGHT ? a->capacity - 1 : INFLIGHT;
	if (!a->capacity && a->max_inflight <= FLUX_MAX_CAPACITY / TIMES)
		a->capacity = a->max_inflight * TIMES > LEAST ? a->max_inflight * TIMES : LEAST;
	if (!a->capacity)
		a->capacity = FLUX_MAX_CAPACITY;
	if (!a->payload_size)
		a->payload_size = PAYLOAD;
	if (!a->reply_size)
		a->reply_size = a->payload_size;
	if (!a->nodes || a->nodes > FLUX_MAX_NODES || a->capacity > FLUX_MAX_CAPACITY ||
		!a->max_inflight || a->max_inflight >= a->capacity ||
		a->payload_size > FLUX_MAX_PAYLOAD || a->reply_size > FLUX_MAX_PAYLOAD)
		return -EINVAL;
	return 0;
}

static int layout_plan(const struct flux_attr *a, struct layout *l)
{
	size_t ids = (size_t)a->nodes * a->max_inflight, rings;
	size_t longest;

	l->node = align_up(sizeof(struct flux_shared), 2 * CACHE_LINE);
	l->out = l->node + align_up(sizeof(struct flux_node), 2 * CACHE_LINE);
	l->in = l->out + a->nodes * sizeof(struct flux_out);
	l->tokens = l->in + a->nodes * sizeof(struct flux_in);
	l->ids = l->tokens + ids * sizeof(uint64_t);
	l->ended = l->ids + a->nodes * pow2_ceil(a->max_inflight) * sizeof(uint32_t);
	l->held = l->ended + a->max_inflight;
	l->bursts = align_up(l->held + ids, CACHE_LINE);
	l->consumed = align_up(l->bursts + FLUX_OPEN * sizeof(struct flux_burst), 2 * CACHE_LINE);
	l->block = align_up(l->consumed + a->nodes * sizeof(uint32_t), PAGE);
	l->blocks = align_up(sizeof(struct flux), PAGE);
	l->rings = l->blocks + a->nodes * l->block;
	l->req = cellring_plan_for(a->payload_size, a->max_inflight, a->capacity);
	l->resp = cellring_plan_for(a->reply_size, a->max_inflight, a->capacity);
	longest = cellring_bytes(&l->req) > cellring_bytes(&l->resp) ? cellring_bytes(&l->req) :
								       cellring_bytes(&l->resp);
	/*
	 * Half a page and a cache line are added, because the slots that a node writes and reads
	 * at the same time would otherwise have the same low address bits, and a load waits for
	 * an earlier store whose low 12 address bits are the same.
	 */
	l->pitch = align_up(longest, PAGE) + PAGE / 2 + CACHE_LINE;
	if (__builtin_mul_overflow((size_t)2 * a->nodes * a->nodes, l->pitch, &rings) ||
		__builtin_add_overflow(l->rings, rings, &l->bytes))
		return -ENOMEM;
	return 0;
}

/*
 * Returns a cursor of the ring for requests (which = 0) or responses (1) of one node's calls to
 * another.
 */
static struct cellring_cursor cursor_at(char *map, const struct layout *l,
	const struct flux_attr *a, uint32_t from, uint32_t to, uint32_t which)
{
	size_t ring = 2 * ((size_t)from * a->nodes + to) + which;
	struct cellring_cursor c;

	cellring_cursor_init(&c, map + l->rings + ring * l->pitch, which ? &l->resp : &l->req);
	return c;
}

static void pair_init(char *map, const struct layout *l, const struct flux_attr *a,
	struct flux_node *node, uint32_t p)
{
	char *block = (char *)node->self;
	char *other = map + l->blocks + p * l->block;
	const struct flux_shared *peer = (struct flux_shared *)other;
	size_t ids = (size_t)p * a->max_inflight;

	node->out[p] = (struct flux_out){
		.req.at = cursor_at(map, l, a, node->index, p, 0),
		.resp = cursor_at(map, l, a, node->index, p, 1),
		.tokens = (uint64_t *)(block + l->tokens) + ids,
		.ids = (uint32_t *)(block + l->ids) + p * pow2_ceil(a->max_inflight),
		.ids_mask = (uint32_t)pow2_ceil(a->max_inflight) - 1,
		.peer = peer,
		.consumed = (uint32_t *)(other + l->consumed) + node->index,
	};
	node->in[p] = (struct flux_in){
		.req = cursor_at(map, l, a, p, node->index, 0),
		.resp.at = cursor_at(map, l, a, p, node->index, 1),
		.held = (uint8_t *)(block + l->held) + ids,
		.peer = peer,
		.from = p,
		.consumed = (uint32_t *)(block + l->consumed) + p,
	};
}

static void node_init(struct flux *f, const struct layout *l, uint32_t i)
{
	char *map = (char *)f, *block = map + l->blocks + i * l->block;
	struct flux_node *node = (struct flux_node *)(block + l->node);
	const struct flux_attr *a = &f->attr;
	char name[12];

	*node = (struct flux_node){
		.out = (struct flux_out *)(block + l->out),
		.in = (struct flux_in *)(block + l->in),
		.capacity = a->capacity,
		.nodes = a->nodes,
		.payload_size = a->payload_size,
		.reply_size = a->reply_size,
		.max_inflight = a->max_inflight,
		.index = i,
		.words = (a->nodes + 63) / 64,
		.departures = &f->departures,
		.rx = (struct flux_in *)(block + l->in),
		.ended = (uint8_t *)(block + l->ended),
		.self = (struct flux_shared *)block,
		.flux = f,
	};
	for (uint32_t k = 0; k < FLUX_OPEN; k++)
		node->open[k] = (struct flux_burst *)(block + l->bursts) + k;
	for (uint32_t p = 0; p < a->nodes; p++)
		pair_init(map, l, a, node, p);
	node->rx->next = node->rx;
	f->node[i] = node;
	f->wake[i] = WAKEFD_NONE;
	f->shared[i] = node->self;
	snprintf(name, sizeof(name), "%u", i);
	f->live[i] = live_add(&live_node, node, name);
}

int flux_create(const struct flux_attr *attr, struct flux **f_p)
{
	struct flux_attr a;
	struct layout l;
	struct flux *f;
	int r;

	r = SIZED_ATTR(&a, attr, reserved);
	if (!r)
		r = attr_resolve(&a);
	if (r < 0)
		return r;
	r = layout_plan(&a, &l);
	if (r < 0)
		return r;
	/* Zeros mark a slot as never written. A page is allocated when it is first touched. */
	f = mmap(NULL, l.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (f == MAP_FAILED)
		return -ENOMEM;
	f->attr = a;
	f->bytes = l.bytes;
	for (uint32_t i = 0; i < a.nodes; i++)
		node_init(f, &l, i);
	*f_p = f;
	return 0;
}

void flux_get_attr(const struct flux *f, struct flux_attr *attr_p, size_t size)
{
	struct flux_attr a = f->attr;

	a.size = size < sizeof(a) ? size : sizeof(a);
	sized_out(attr_p, size, &a, sizeof(a));
}

void flux_destroy(struct flux *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->attr.nodes; i++) {
		live_remove(f->live[i]);
		wakefd_close(&f->wake[i]);
	}
	munmap(f, f->bytes);
}

struct flux_node *flux_get_node(struct flux *f, uint32_t index)
{
	return index < f->attr.nodes ? f->node[index] : NULL;
}
