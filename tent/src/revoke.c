/* SPDX-License-Identifier: MIT */
/*
 * The end of a registration that peers use. The target tells each of them; a peer starts
 * nothing more on that memory, waits for what it has under way, and confirms. When all have
 * confirmed, the memory is the target's alone. On adapters what a silent peer still sends is
 * refused, because the memory regions go; a copying thread has no such bar.
 *
 *	target     READY --UNREGISTER to all--> GOING --all UNREGISTERED, or time over--> gone
 *	initiator  used --UNREGISTER--> gone, owed --nothing is moving--> UNREGISTERED
 *
 * A description may be older than the end of a registration: WELCOME has the number of
 * registrations that have ended, and if it is not the description's, import asks which are left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine.h"

/* ---- the target's side ---- */

void revoke_begin(struct tent *t, struct buffer *b)
{
	struct ctl_msg msg = {.type = CTL_UNREGISTER, .rail = b->id};

	b->state = BUFFER_GOING;
	t->n_going++;
	t->n_revoked++;
	for (struct conn *c = t->conns; c; c = c->next) {
		if (!c->known)
			continue;
		b->awaits[c->place / 64] |= 1ull << c->place % 64;
		ctl_send(&c->ctl, &msg); /* who does not get it does not confirm it */
	}
}

static bool awaits(const struct buffer *b, const struct conn *c)
{
	return c->known && (b->awaits[c->place / 64] >> c->place % 64 & 1);
}

static bool confirmed(const struct buffer *b)
{
	for (uint32_t i = 0; i < MAX_IMPORTERS / 64; i++) {
		if (b->awaits[i])
			return false;
	}
	return true;
}

int revoke_wait(struct tent *t, struct buffer *b)
{
	const struct timespec until = clock_timespec(clock_ns() + PEER_NS);
	int err = 0;

	while (!confirmed(b) && !err)
		err = -pthread_cond_timedwait(&t->ended, &t->lock, &until);
	t->n_going--;
	if (confirmed(b) || t->n_devs)
		return 0;
	for (struct conn *c = t->conns; c; c = c->next) {
		if (awaits(b, c))
			conn_cut(c);
	}
	engine_wake(t, 0);
	return -ETIMEDOUT;
}

static void confirm(struct buffer *b, const struct conn *c)
{
	b->awaits[c->place / 64] &= ~(1ull << c->place % 64);
}

static struct buffer *buffer_of(struct tent *t, uint32_t id)
{
	for (uint32_t i = 0; i < t->n_buffers; i++) {
		if (t->buffers[i]->id == id)
			return t->buffers[i];
	}
	return NULL;
}

void revoke_confirmed(struct tent *t, const struct conn *c, uint32_t id)
{
	struct buffer *b = buffer_of(t, id);

	if (b)
		confirm(b, c);
	pthread_cond_broadcast(&t->ended);
}

void revoke_left(struct tent *t, const struct conn *c)
{
	for (uint32_t i = 0; i < t->n_buffers; i++)
		confirm(t->buffers[i], c);
	pthread_cond_broadcast(&t->ended);
}

int revoke_asked(struct tent *t, struct conn *c, const struct ctl_msg *msg)
{
	struct ctl_msg reply = {.type = CTL_KNOWN};
	uint32_t ids[CTL_IDS];

	memcpy(ids, msg->bytes, sizeof(ids));
	for (uint32_t i = 0; i < CTL_IDS; i++) {
		const struct buffer *b = buffer_of(t, ids[i]);

		if (b && b->state == BUFFER_READY)
			reply.rail |= 1u << i;
	}
	return ctl_send(&c->ctl, &reply);
}

/* ---- the initiator's side ---- */

int lent_init(struct tent_segment *s)
{
	s->lent = calloc(s->desc.n_buffers + 1, sizeof(*s->lent));
	return s->lent ? 0 : -ENOMEM;
}

struct lent *lent_of(const struct tent_segment *s, const struct desc_buffer *remote)
{
	return &s->lent[remote - s->desc.buffers];
}

/* It may be told of memory that its description does not have: that it does not use. */
void lent_revoked(struct tent_segment *s, uint32_t id)
{
	struct ctl_msg msg = {.type = CTL_UNREGISTERED, .rail = id};

	for (uint32_t i = 0; i < s->desc.n_buffers; i++) {
		if (s->desc.buffers[i].id != id)
			continue;
		s->owed += !s->lent[i].owed;
		s->lent[i].gone = s->lent[i].owed = true;
		tasks_refuse(s, &s->desc.buffers[i]);
		return;
	}
	move_send(s, &msg);
}

void lent_answer(struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->desc.n_buffers && s->owed; i++) {
		struct ctl_msg msg = {.type = CTL_UNREGISTERED, .rail = s->desc.buffers[i].id};

		if (!s->lent[i].owed || s->lent[i].moving)
			continue;
		s->lent[i].owed = false;
		s->owed--;
		move_send(s, &msg);
	}
}

/* Asks for some buffers from first on; what else comes meanwhile is treated as ever. */
static int ask(struct tent_segment *s, uint32_t first, int timeout_ms)
{
	struct ctl_msg msg = {.type = CTL_ASK};
	uint32_t ids[CTL_IDS] = {0};
	int err;

	for (uint32_t i = 0; i < CTL_IDS && first + i < s->desc.n_buffers; i++)
		ids[i] = s->desc.buffers[first + i].id;
	memcpy(msg.bytes, ids, sizeof(ids));
	err = ctl_send(&s->ctl, &msg);
	while (!err && !(err = ctl_await(&s->ctl, timeout_ms, &msg)) && msg.type != CTL_KNOWN) {
		pthread_mutex_lock(&s->t->lock);
		err = move_message(s, &msg, clock_ns());
		pthread_mutex_unlock(&s->t->lock);
	}
	for (uint32_t i = 0; !err && i < CTL_IDS && first + i < s->desc.n_buffers; i++)
		s->lent[first + i].gone |= !(msg.rail >> i & 1);
	return err;
}

int lent_ask(struct tent_segment *s, int timeout_ms)
{
	int err = 0;

	for (uint32_t i = 0; i < s->desc.n_buffers && !err; i += CTL_IDS)
		err = ask(s, i, timeout_ms);
	return err;
}
