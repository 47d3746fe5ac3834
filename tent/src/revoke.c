/* SPDX-License-Identifier: MIT */
/*
 * Ends registrations that peers use. The target sends UNREGISTER to each peer. A peer starts no
 * more requests on that memory, waits for its requests that are under way, and confirms. When all
 * peers have confirmed, only the target uses the memory. If a peer is silent and the transport has
 * `bars`, the peer's requests fail.
 *
 *	target     READY --UNREGISTER to all--> GOING --all UNREGISTERED, or time over--> gone
 *	initiator  used --UNREGISTER--> gone, owed --nothing is moving--> UNREGISTERED
 *
 * A description may be older than the end of a registration. WELCOME contains the number of
 * registrations that have ended. If it differs from the description's epoch, tent_import() forgets
 * the registrations of the description, and requests all that exist, see grow.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine.h"

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
		ctl_send(&c->ctl, &msg); /* without the message there is no confirmation */
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

void revoke_cut(struct conn *c)
{
	if (c->cut)
		return;
	c->cut = true;
	c->until = clock_ns() + PEER_NS;
	ctl_end(&c->ctl);
}

int revoke_wait(struct tent *t, struct buffer *b)
{
	const struct timespec until = clock_timespec(clock_ns() + PEER_NS);
	int err = 0;

	while (!confirmed(b) && !err)
		err = -pthread_cond_timedwait(&t->ended, &t->lock, &until);
	t->n_going--;
	while (b->copies)
		pthread_cond_wait(&t->ended, &t->lock);
	if (confirmed(b) || t->transport->bars)
		return 0;
	for (struct conn *c = t->conns; c; c = c->next) {
		if (awaits(b, c))
			revoke_cut(c);
	}
	loop_wake(t, 0);
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
