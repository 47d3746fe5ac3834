/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define PARCEL_WORDS (sizeof(struct parcel) / sizeof(uint64_t))

static_assert(sizeof(struct parcel) % sizeof(uint64_t) == 0, "whole words");
static_assert(sizeof(struct message) == sizeof(uint64_t), "a word each");

void messages_init(struct messages *q)
{
	*q = (struct messages){.ring = q->few, .size = ARRAY_SIZE(q->few)};
}

void messages_fini(struct messages *q)
{
	if (q->ring != q->few)
		free(q->ring);
}

int messages_grow(struct messages *q)
{
	uint32_t size = q->size * 2;
	struct message *ring = malloc(size * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (uint32_t i = q->head; i != q->tail; i++)
		ring[i & (size - 1)] = q->ring[i & (q->size - 1)];
	messages_fini(q);
	q->ring = ring;
	q->size = size;
	return 0;
}

void endpoint_init(struct endpoint *e)
{
	*e = (struct endpoint){.calls = 0};
	messages_init(&e->gathered);
	messages_init(&e->arriving);
}

void endpoint_fini(struct endpoint *e)
{
	messages_fini(&e->gathered);
	messages_fini(&e->arriving);
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

/* Room for some words more, which count as written, or NULL. */
static uint64_t *mail_room(struct mail *mail, size_t words)
{
	size_t size = mail->size ? mail->size : 512;
	uint64_t *larger;

	if (unlikely(mail->n + words > mail->size)) {
		while (size < mail->n + words)
			size *= 2;
		larger = realloc(mail->words, size * sizeof(*larger));
		if (!larger)
			return NULL;
		mail->words = larger;
		mail->size = size;
	}
	mail->n += words;
	return mail->words + mail->n - words;
}

/* Puts the first n gathered messages behind a parcel. */
static void move_messages(struct endpoint *e, struct message *to, uint32_t n)
{
	uint32_t calls = 0;

	for (uint32_t i = 0; i < n; i++) {
		to[i] = messages_take(&e->gathered);
		calls += !(to[i].slot & WIRE_RESPONSE);
	}
	e->calls -= calls;
	e->replies -= n - calls;
	e->pending += calls;
}

int wire_post(const struct machine *m, struct nic *nic, struct endpoint *e, uint32_t most,
	uint64_t ns, uint32_t from, uint32_t to, struct mail *mail)
{
	uint32_t gathered = e->gathered.tail - e->gathered.head;
	uint32_t n = gathered < most ? gathered : most;
	uint64_t begin = ns > nic->send_free ? ns : nic->send_free;
	double bytes = WIRE_MESSAGE_BYTES * (n + 1.0);
	uint64_t *words = mail_room(mail, PARCEL_WORDS + n);
	struct parcel *p = (struct parcel *)(void *)words;

	if (!words)
		return -ENOMEM;
	e->writes++;
	nic->send_free = begin + (uint64_t)(m->send_ns + bytes / m->bytes_per_ns);
	*p = (struct parcel){.ns = nic->send_free + (uint64_t)m->wire_ns,
		.from = from,
		.to = to,
		.messages = n,
		.consumed = e->received};
	move_messages(e, (struct message *)(void *)(words + PARCEL_WORDS), n);
	return 0;
}

const struct parcel *mail_next(const struct mail *mail, size_t *at)
{
	const struct parcel *p;

	if (*at == mail->n)
		return NULL;
	p = (const struct parcel *)(const void *)(mail->words + *at);
	*at += PARCEL_WORDS + p->messages;
	return p;
}

int wire_deliver(struct nic *nic, struct endpoint *e, const struct parcel *p)
{
	const struct message *m = (const struct message *)(const void *)(p + 1);
	const struct event event = {.ns = p->ns,
		.from = p->from,
		.messages = p->messages,
		.consumed = p->consumed};
	int err = 0;

	for (uint32_t i = 0; i < p->messages && !err; i++)
		err = messages_put(&e->arriving, m[i]);
	return err ? err : timeline_put(&nic->arrivals, &event);
}
