/* SPDX-License-Identifier: MIT */
/* The part of test-storm.c that reads an endpoint's queue pair. */
#include "../src/internal.h"

bool is_held(const struct copyrpc_ep *ep);

bool is_held(const struct copyrpc_ep *ep)
{
	return ep->qp->rung == ep->qp->pi && ep->qp->ci != ep->qp->pi;
}
