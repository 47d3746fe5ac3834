/* SPDX-License-Identifier: MIT */
/* The initiator's side of revoke.c: memory of a peer, until the peer ends its registration. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine.h"

void lent_map(struct tent_segment *s, struct desc_buffer *b)
{
	const struct transport *tr = s->t->transport;
	uint64_t begin = clock_ns();

	if (tr->map)
		b->lent.at = tr->map(&s->desc, b);
	s->mapping_ns += clock_ns() - begin;
}

static void lent_free(const struct tent_segment *s, struct desc_buffer *b)
{
	if (b && b->lent.at)
		s->t->transport->unmap(b->lent.at, b);
	desc_buffer_free(b);
}

void lent_forget(struct tent_segment *s)
{
	while (s->desc.n_buffers)
		lent_free(s, s->desc.buffers[--s->desc.n_buffers]);
}

void lent_fini(struct tent_segment *s)
{
	lent_forget(s);
	lent_free(s, s->desc.stage);
	s->desc.stage = NULL;
	while (s->leaving) {
		struct desc_buffer *b = s->leaving;

		s->leaving = b->lent.next;
		lent_free(s, b);
	}
}

static bool is_leaving(const struct tent_segment *s, uint32_t id)
{
	const struct desc_buffer *b = s->leaving;

	while (b && b->id != id)
		b = b->lent.next;
	return b;
}

static struct desc_buffer *find(const struct tent_segment *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->desc.n_buffers; i++) {
		if (s->desc.buffers[i]->id == id)
			return s->desc.buffers[i];
	}
	return NULL;
}

/*
 * True: the text that is under way may describe this registration. The peer sends the first part of
 * a text as soon as it has made the text. So if no part has come, the peer makes the text after it
 * has ended this registration.
 */
static bool may_come(const struct tent_segment *s, uint32_t id)
{
	return s->growth.len && id > s->growth.version;
}

/* Confirms at once if this side does not know the memory, and thus does not use it. */
void lent_revoked(struct tent_segment *s, uint32_t id)
{
	struct ctl_msg msg = {.type = CTL_UNREGISTERED, .rail = id};
	struct desc_buffer *b = find(s, id);

	if (b) {
		desc_remove(&s->desc, b);
		b->lent.next = s->leaving;
		s->leaving = b;
		tasks_refuse(s, b);
	} else if (!is_leaving(s, id)) {
		s->growth.stale |= may_come(s, id);
		peer_send(s, &msg);
	}
}

/* Removes a buffer that no request uses from tent_segment.leaving. NULL: there is none. */
static struct desc_buffer *take_unused(struct tent_segment *s)
{
	struct desc_buffer *b, **link = &s->leaving;

	while (*link && (*link)->lent.moving)
		link = &(*link)->lent.next;
	b = *link;
	if (b)
		*link = b->lent.next;
	return b;
}

bool lent_answer(struct tent_segment *s)
{
	struct tent *t = s->t;
	struct desc_buffer *b;
	bool some = false;

	while ((b = take_unused(s))) {
		struct ctl_msg msg = {.type = CTL_UNREGISTERED, .rail = b->id};

		s->movers++;
		pthread_mutex_unlock(&t->lock);
		lent_free(s, b);
		pthread_mutex_lock(&t->lock);
		s->movers--;
		pthread_cond_broadcast(&t->ended);
		peer_send(s, &msg);
		some = true;
	}
	return some;
}
