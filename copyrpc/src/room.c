/* SPDX-License-Identifier: MIT */
/* Memory for larger rings (grow.h). */
#include "grow.h"
#include "internal.h"

void ep_set_route(struct copyrpc_ep *ep, struct route route)
{
	ep->route = route;
	ep->peer_shift = route.peer - (uintptr_t)ep->ch.send_ring;
	ep->peer_ring_rkey_word = mlx5dvl_rkey_word(route.rkey);
}

/* Frees the old rings that are not needed any more. */
static void give_old(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;

	if (chan_left_recv(ch)) {
		ch->grow.old_recv = NULL;
		memory_give(ep->ctx, &ep->old_recv);
	}
	if (chan_left_send(ch) && !ep->moving) {
		ch->grow.old_send = NULL;
		memory_give(ep->ctx, &ep->old_send);
	}
}

static int offer(struct copyrpc_ep *ep)
{
	struct piece *p = &ep->next_recv;
	int rc;

	if (!chan_offer_due(&ep->ch))
		return 0;
	rc = memory_take(ep->ctx, MEMORY_RECV, ep->ch.grow.need * WIRE_BLOCK, p);
	if (rc)
		return rc;
	rc = chan_offer(&ep->ch, p->at, p->rkey);
	if (rc)
		memory_give(ep->ctx, p);
	return rc;
}

static int accept_offer(struct copyrpc_ep *ep)
{
	struct piece *p = &ep->next_send;
	int rc;

	if (!chan_accept_due(&ep->ch))
		return 0;
	rc = memory_take(ep->ctx, MEMORY_SEND, ep->ch.grow.offered.blocks * WIRE_BLOCK, p);
	if (rc)
		return rc;
	rc = chan_accept_offer(&ep->ch, p->at);
	if (rc)
		memory_give(ep->ctx, p);
	return rc;
}

/* Updates the pieces of the receive ring, if the peer has moved. */
static void follow(struct copyrpc_ep *ep)
{
	if (ep_recv_piece(ep) != &ep->next_recv)
		return;
	ep->old_recv = ep->recv;
	ep->recv = ep->next_recv;
	ep->next_recv = (struct piece){0};
}

COLD void ep_grow(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;

	follow(ep);
	if (!ch->handling) /* a callback may read the old ring */
		give_old(ep);
	if (!ep->grow_at || ep->ctx->clock() >= ep->grow_at) {
		/* There may be memory for one ring and not for the other. */
		int recv = offer(ep), send = accept_offer(ep);

		ep->grow_at = recv || send ? ep->ctx->clock() + GROW_AGAIN_NS : 0;
	}
	if (ep->grow_at)
		ep_keep(ep);
	chan_set_growing(ch);
}

COLD void ep_moved(struct copyrpc_ep *ep)
{
	const struct growth *g = &ep->ch.grow;

	ep->old_send = ep->send;
	ep->send = ep->next_send;
	ep->next_send = (struct piece){0};
	ep->old_route = ep->route;
	ep_set_route(ep, (struct route){ep->send.lkey, g->offered.key, g->offered.addr});
}

COLD void ep_count_laps(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;
	uint64_t now = ep->ctx->clock(), size = (uint64_t)ch->cr.c * WIRE_BLOCK;

	if (now - ep->lap_at < RING_LAPS * RING_NS_PER_BYTE * size)
		chan_want(ch, chan_larger(ch->cr.c), 0);
	ep->lap_at = now;
	ch->grow.laps = 0;
}
