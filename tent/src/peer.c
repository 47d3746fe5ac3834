/* SPDX-License-Identifier: MIT */
/* Messages to the other side of a connection, and the initiator's ends of links. */
#include <errno.h>

#include "engine.h"

void peer_lost(struct tent_segment *s, int err)
{
	if (s->lost)
		return;
	s->lost = err;
	pthread_cond_broadcast(&s->t->ended);
}

void peer_send(struct tent_segment *s, struct ctl_msg *msg)
{
	if (ctl_send(&s->ctl, msg))
		peer_lost(s, -ECONNRESET);
}

void conn_send_all(struct conn *c, struct ctl_msg *msgs, uint32_t n)
{
	if (c->err || ctl_send_all(&c->ctl, msgs, n) != -ENOBUFS)
		return;
	c->err = -ENOBUFS;
	c->t->conns_due = 0;
	loop_wake(c->t, 0);
}

void conn_send(struct conn *c, struct ctl_msg *msg)
{
	conn_send_all(c, msg, 1);
}

void peer_close(struct tent_segment *s)
{
	if (s->ctl.fd >= 0)
		loop_unwatch(s->t, s->ctl.fd);
	ctl_close(&s->ctl);
}

int peer_connect(struct tent_segment *s, uint32_t port, struct ctl_msg *msg, struct link **l_p)
{
	struct tent *t = s->t;
	int err = t->ports[port]->dead ? -ENODEV : s->lost;

	if (!err)
		err = t->ports[port]->transport->link(t->ports[port], &s->desc, l_p);
	if (err)
		return err;
	loop_watch_link(t, *l_p);
	if ((*l_p)->ops->end)
		(*l_p)->ops->end(*l_p, &msg->end);
	peer_send(s, msg);
	return 0;
}

int peer_connected(struct link *l, const struct ctl_msg *msg, uint64_t token)
{
	int err = -(int)msg->status;

	if (!err && l->ops->connect)
		err = l->ops->connect(l, &msg->end);
	if (!err)
		err = l->ops->post_probe(l, token);
	if (!err && l->ops->flush)
		l->ops->flush(l);
	return err;
}
