/* SPDX-License-Identifier: MIT */
/* The queue of events that copyrpc_event_recv() returns. */
#include "internal.h"

void news_add(struct copyrpc_ctx *ctx, struct news *n)
{
	n->queued = true;
	QUEUE_APPEND(&ctx->news, n, next);
}

void news_remove(struct copyrpc_ctx *ctx, struct news *n)
{
	if (n->queued)
		QUEUE_REMOVE(&ctx->news, n, next);
	n->queued = false;
}
