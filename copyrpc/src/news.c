/* SPDX-License-Identifier: MIT */
/* The queue of events that copyrpc_event_recv() returns. */
#include "internal.h"

void news_add(struct copyrpc_ctx *ctx, struct news *n)
{
	n->queued = true;
	n->next = NULL;
	*ctx->news.tail_p = n;
	ctx->news.tail_p = &n->next;
}

void news_remove(struct copyrpc_ctx *ctx, struct news *n)
{
	struct news **at = &ctx->news.head;

	if (!n->queued)
		return;
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	if (!n->next)
		ctx->news.tail_p = at;
	n->queued = false;
}
