/* SPDX-License-Identifier: MIT */
/* A pair of endpoints with a clock that stands still until the test moves it. */
#ifndef COPYRPC_TEST_TIMED_H
#define COPYRPC_TEST_TIMED_H

#include "internal.h"
#include "pair.h"

static uint64_t now = 1000 * NSEC_PER_SEC;

static uint64_t stopped_clock(void)
{
	return now;
}

static void open_timed(struct pair *p, const struct copyrpc_ctx_attr *attr)
{
	pair_open(p, attr);
	for (int i = 0; i < 2; i++) {
		p->ctx[i]->clock = stopped_clock;
		p->ctx[i]->look_always = true; /* every poll reads the clock */
		p->ctx[i]->probed = now;
	}
}

#endif
