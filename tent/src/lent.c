/* SPDX-License-Identifier: MIT */
/* The initiator's side of revoke.c: memory of a peer, until the peer ends its registration. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"

int lent_init(struct tent_segment *s)
{
	const struct transport *tr = s->t->transport;

	s->lent = calloc(s->desc.n_buffers + 1, sizeof(*s->lent));
	if (!s->lent)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->desc.n_buffers + s->desc.has_stage && tr->map; i++)
		s->lent[i].at = tr->map(&s->desc, &s->desc.buffers[i]);
	return 0;
}

static void unmap(struct tent_segment *s, uint32_t i)
{
	if (s->lent[i].at)
		s->t->transport->unmap(s->lent[i].at, &s->desc.buffers[i]);
	s->lent[i].at = NULL;
}

void lent_fini(struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->desc.n_buffers + s->desc.has_stage && s->lent; i++)
		unmap(s, i);
	free(s->lent);
}

/* If the description does not contain the memory, this side does not use it: confirms at once. */
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
	peer_send(s, &msg);
}

void lent_answer(struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->desc.n_buffers && s->owed; i++) {
		struct ctl_msg msg = {.type = CTL_UNREGISTERED, .rail = s->desc.buffers[i].id};

		if (!s->lent[i].owed || s->lent[i].moving)
			continue;
		s->lent[i].owed = false;
		s->owed--;
		unmap(s, i);
		peer_send(s, &msg);
	}
}
