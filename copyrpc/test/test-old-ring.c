/* SPDX-License-Identifier: MIT */
/*
 * When the send ring has grown, the old ring stays until the HCA has reported the last batch in it.
 * In chaos mode the HCA may report this batch after the peer has consumed and answered it: then the
 * peer does not need the old ring any more, but the HCA may still read it.
 */
#include <sched.h>

#include "grow.h"
#include "internal.h"
#include "pair.h"

#define PAIRS 20000 /* far more than needed */

/* Connects two endpoints and makes calls until the rings have grown once. Returns how often the old
 * ring was kept only because the HCA had not reported its last batch. */
static uint32_t grow_once(struct pair *p)
{
	struct heard h = {0};
	uint32_t waited = 0;
	char payload[2000] = {0};

	join(p->ctx[0], p->ctx[1], p->ep);
	struct copyrpc_ep *ep = p->ep[0];

	while (!ep->ch.stats.grown || ep->ch.grow.old_send) {
		copyrpc_call(ep, payload, sizeof(payload), 8, 0);
		copyrpc_call(ep, payload, 8, 8, 0);
		copyrpc_poll(p->ctx[0], hear, &h);
		CHECK(!ep->moving || ep->ch.grow.old_send);
		waited += ep->moving && chan_left_send(&ep->ch);
		copyrpc_poll(p->ctx[1], hear, &h);
		for (struct copyrpc_req *req; copyrpc_recv(p->ctx[1], &req);)
			CHECK_EQ(copyrpc_reply(req, "", 1), 0);
		sched_yield(); /* a step of the HCA */
	}
	CHECK_EQ(h.failed, 0);
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(p->ep[i]);
		copyrpc_poll(p->ctx[i], hear, &h); /* its calls fail now */
	}
	return waited;
}

TEST(waits_for_the_hca)
{
	PAIR p = pair_open(NULL); /* for all rounds: new contexts would take ten times as long */
	uint32_t waited = 0;

	for (int i = 0; i < PAIRS && !waited; i++)
		waited += grow_once(&p);
	CHECK(waited);
}
