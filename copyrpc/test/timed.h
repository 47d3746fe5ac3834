/* SPDX-License-Identifier: MIT */
/* A pair of endpoints with a clock that stands still until the test moves it. */
#ifndef COPYRPC_TEST_TIMED_H
#define COPYRPC_TEST_TIMED_H

#include "internal.h"
#include "pair.h"

/* A time limit that no test reaches by waiting. Tests move the clock by up to a millisecond per
 * turn, so the clock may pass many seconds while the device's timers take some milliseconds. */
#define FAR_MS 1000000000

static uint64_t now = 1000 * NSEC_PER_SEC;

static uint64_t stopped_clock(void)
{
	return now;
}

/* Stops the clock of a context. Every poll then reads the clock. */
static void stop_clock(struct copyrpc_ctx *ctx)
{
	ctx->clock = stopped_clock;
	ctx->look_always = true;
	ctx->looked = ctx->calm = NOT_CALM;
	ctx->probed = now;
}

static inline struct pair open_timed(const struct copyrpc_ctx_attr *attr)
{
	struct pair p = pair_open(attr);

	for (int i = 0; i < 2; i++)
		stop_clock(p.ctx[i]);
	return p;
}

#endif
