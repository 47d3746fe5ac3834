/* SPDX-License-Identifier: MIT */
/*
 * Ends registrations that peers use. The target sends UNREGISTER to each peer. A peer starts no
 * more requests on that memory, waits for its requests that are under way, and confirms. When all
 * peers have confirmed, only the target uses the memory. If a peer is silent and the transport has
 * `bars` (see transport.h), the peer's requests fail.
 *
 *	target     READY --UNREGISTER to all--> GOING --all UNREGISTERED, or time over--> gone
 *	initiator  used --UNREGISTER--> no new requests --nothing moves--> UNREGISTERED
 *
 * A description may be older than the end of a registration. WELCOME contains the number of
 * registrations that have ended. If it differs from the description's epoch, tent_import() forgets
 * the registrations of the description, and requests all that exist, see grow.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "engine.h"

static bool may_use(const struct conn *c, const struct buffer *b)
{
	return c->known && (!c->cut || b->id <= c->version);
}

int revoke_begin(struct tent *t, struct buffer *b)
{
	struct ctl_msg msg = {.type = CTL_UNREGISTER, .rail = b->id};

	b->awaits = calloc(MAX_IMPORTERS / 64, sizeof(*b->awaits));
	if (!b->awaits)
		return -ENOMEM;
	b->state = BUFFER_GOING;
	b->next = t->going;
	t->going = b;
	t->n_going++;
	t->n_revoked++;
	for (struct conn *c = t->conns; c; c = c->next) {
		if (!may_use(c, b))
			continue;
		b->awaits[c->place / 64] |= 1ull << c->place % 64;
		b->n_awaits++;
		conn_send(c, &msg);
	}
	return 0;
}

static bool awaits(const struct buffer *b, const struct conn *c)
{
	return c->known && (b->awaits[c->place / 64] >> c->place % 64 & 1);
}

void revoke_cut(struct conn *c)
{
	if (c->cut)
		return;
	c->cut = true;
	c->version = c->t->version;
	c->err = 0; /* else the connection would end before the peer has closed its end */
	c->until = clock_ns() + PEER_NS;
	if (c->until < c->t->conns_due)
		c->t->conns_due = c->until;
	ctl_end(&c->ctl);
}

int revoke_wait(struct tent *t, struct buffer *b)
{
	const struct timespec until = clock_timespec(clock_ns() + PEER_NS);
	int err = 0;

	while (b->n_awaits && !err)
		err = -pthread_cond_timedwait(&t->ended, &t->lock, &until);
	while (b->copies)
		pthread_cond_wait(&t->ended, &t->lock);
	/*
	 * The buffer stays in the list until here, so that revoke_left() clears the bits of peers
	 * that leave: a new peer may get such a place, and must not be cut.
	 */
	LIST_REMOVE(&t->going, b);
	t->n_going--;
	err = (b->n_awaits || b->left_open) && !t->transport->bars ? -ETIMEDOUT : 0;
	for (struct conn *c = t->conns; c && err; c = c->next) {
		if (awaits(b, c))
			revoke_cut(c);
	}
	if (err)
		loop_wake(t, 0);
	free(b->awaits);
	b->awaits = NULL;
	return err;
}

static void confirm(struct tent *t, struct buffer *b, const struct conn *c)
{
	if (!awaits(b, c))
		return;
	b->awaits[c->place / 64] &= ~(1ull << c->place % 64);
	if (!--b->n_awaits)
		pthread_cond_broadcast(&t->ended);
}

void revoke_confirmed(struct tent *t, const struct conn *c, uint32_t id)
{
	for (struct buffer *b = t->going; b; b = b->next) {
		if (b->id == id)
			confirm(t, b, c);
	}
}

void revoke_left(struct tent *t, const struct conn *c)
{
	for (uint32_t i = 0; i < t->n_by_id && !c->closed; i++) {
		struct buffer *b = t->by_id[i];

		b->left_open |= b->state == BUFFER_READY && may_use(c, b);
	}
	for (struct buffer *b = t->going; b; b = b->next) {
		b->left_open |= awaits(b, c) && !c->closed;
		confirm(t, b, c);
	}
	pthread_cond_broadcast(&t->ended);
}
