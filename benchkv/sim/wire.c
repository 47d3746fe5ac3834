/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <string.h>

static_assert(sizeof(struct batch) + 12 * sizeof(uint32_t) == CACHE_LINE, "a line holds 12 slots");

void pool_fini(struct pool *p)
{
	for (uint32_t kind = 0; kind < POOL_KINDS; kind++) {
		while (p->free[kind]) {
			struct batch *b = p->free[kind];

			p->free[kind] = b->next;
			free(b);
		}
	}
}

static struct batch *new_batch(const struct pool *p, uint32_t kind)
{
	size_t size = (size_t)CACHE_LINE << kind;
	size_t slots = size - sizeof(struct batch);
	struct batch *b = aligned_alloc(CACHE_LINE, p->words ? size * 2 : size);

	if (b)
		*b = (struct batch){.room = (uint32_t)(slots / sizeof(b->slots[0])), .kind = kind};
	return b;
}

static struct batch *pool_get(struct pool *p, uint32_t kind)
{
	struct batch *b = p->free[kind];

	if (unlikely(!b))
		return new_batch(p, kind);
	p->free[kind] = b->next;
	p->n[kind]--;
	return b;
}

struct batch *pool_larger(struct pool *p, struct batch *full)
{
	struct batch *b = pool_get(p, full ? full->kind + 1 : 0);

	if (!b || !full)
		return b;
	memcpy(b->slots, full->slots, full->room * sizeof(full->slots[0]));
	if (p->words)
		memcpy(batch_words(b), batch_words(full), full->room * sizeof(full->slots[0]));
	pool_put(p, full);
	return b;
}

int timeline_grow(struct timeline *t)
{
	uint32_t size = t->size ? t->size * 2 : 16;
	struct event *events = realloc(t->events, size * sizeof(*events));

	if (!events)
		return -ENOMEM;
	t->events = events;
	for (uint32_t i = t->size; i < size; i++)
		events[i].next = i + 1 < size ? i + 1 : TIMELINE_NONE;
	t->free = t->size;
	t->size = size;
	return 0;
}

static int grow_mail(struct mail *mail)
{
	size_t size = mail->size ? mail->size * 2 : 128;
	struct parcel *larger = realloc(mail->parcels, size * sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	mail->parcels = larger;
	mail->size = size;
	return 0;
}

/* Sends a WRITE of @n messages, posted at @ns. Returns the arrival's event; NULL: no memory. */
static struct event *send_write(const struct route *r, struct endpoint *e, uint32_t n, uint64_t ns)
{
	struct nic *nic = r->nic;
	const struct machine *m = r->machine;
	uint64_t begin = ns > nic->send_free ? ns : nic->send_free;
	double bytes = WIRE_MESSAGE_BYTES * (n + 1.0);
	struct parcel *p;

	if (unlikely(r->mail->n == r->mail->size) && grow_mail(r->mail))
		return NULL;
	e->writes++;
	nic->send_free = begin + (uint64_t)(m->send_ns + bytes / m->bytes_per_ns);
	p = &r->mail->parcels[r->mail->n++];
	p->to = r->to;
	p->event.ns = nic->send_free + (uint64_t)m->wire_ns;
	p->event.from = r->from;
	p->event.messages = n;
	p->event.consumed = e->received;
	return &p->event;
}

int wire_post_one(const struct route *r, struct endpoint *e, uint32_t i, uint64_t ns)
{
	struct event *event = send_write(r, e, 1, ns);

	if (!event)
		return -ENOMEM;
	event->one.slot = e->gathered->slots[i];
	event->one.word = r->pool->words ? batch_words(e->gathered)[i] : 0;
	return 0;
}

int wire_post(const struct route *r, struct endpoint *e, uint64_t ns)
{
	uint32_t n = e->calls + e->replies;
	struct event *event;

	if (n == 1) {
		if (wire_post_one(r, e, 0, ns))
			return -ENOMEM;
		pool_put(r->pool, e->gathered);
	} else {
		event = send_write(r, e, n, ns);
		if (!event)
			return -ENOMEM;
		event->batch = e->gathered;
	}
	endpoint_posted(e);
	return 0;
}
