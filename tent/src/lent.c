/* SPDX-License-Identifier: MIT */
/* The initiator's side of revoke.c: memory of a peer, until the peer ends its registration. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"

int lent_init(struct tent_segment *s)
{
	s->lent = calloc(s->desc.n_buffers + 1, sizeof(*s->lent));
	return s->lent ? 0 : -ENOMEM;
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
		peer_send(s, &msg);
	}
}
