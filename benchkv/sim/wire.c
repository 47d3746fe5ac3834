/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>

void endpoint_init(struct endpoint *e)
{
	*e = (struct endpoint){.size = ENDPOINT_FEW};
	e->msgs = e->few;
}

void endpoint_fini(struct endpoint *e)
{
	if (e->msgs != e->few)
		free(e->msgs);
}

int endpoint_grow(struct endpoint *e)
{
	uint32_t size = e->size * 2;
	uint32_t *msgs = malloc(size * sizeof(*msgs));

	if (!msgs)
		return -ENOMEM;
	for (uint32_t i = e->head; i != e->tail; i++)
		msgs[i & (size - 1)] = e->msgs[i & (e->size - 1)];
	endpoint_fini(e);
	e->msgs = msgs;
	e->size = size;
	return 0;
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

/* Counts what leaves: all that is gathered, or its first n. */
static uint32_t take_gathered(struct endpoint *e, uint32_t most)
{
	uint32_t n = e->tail - e->posted;

	if (n <= most) {
		e->pending += e->calls;
		e->calls = e->replies = 0;
		e->posted = e->tail;
		return n;
	}
	for (uint32_t i = 0; i < most; i++) {
		if (e->msgs[e->posted++ & (e->size - 1)] & WIRE_RESPONSE) {
			e->replies--;
		} else {
			e->calls--;
			e->pending++;
		}
	}
	return most;
}

int wire_post(const struct machine *m, struct nic *from, uint32_t rank, struct endpoint *e,
	struct nic *to, uint32_t most, uint64_t ns)
{
	uint32_t n = take_gathered(e, most);
	uint64_t begin = ns > from->send_free ? ns : from->send_free;
	double bytes = WIRE_MESSAGE_BYTES * (n + 1.0);

	e->writes++;
	from->send_free = begin + (uint64_t)(m->send_ns + bytes / m->bytes_per_ns);
	return timeline_put(&to->arrivals,
		&(struct event){.ns = from->send_free + (uint64_t)m->wire_ns,
			.from = rank,
			.messages = n,
			.consumed = e->received});
}
