/* SPDX-License-Identifier: MIT */
#include "transfer.h"

static uint64_t part_at(const struct transfer *t, uint64_t off)
{
	return t->len - off < TRANSFER_PART ? t->len - off : TRANSFER_PART;
}

/* The next poll handles the transfer. */
static void queue(struct transfer *t)
{
	struct copyrpc_ctx *ctx = t->ep->ctx;

	if (t->queued)
		return;
	t->queued = true;
	t->work_next = NULL;
	*ctx->work.tail_p = t;
	ctx->work.tail_p = &t->work_next;
	ctx->calm = NOT_CALM;
}

static void unqueue(struct transfer *t)
{
	struct transfer_list *work = &t->ep->ctx->work;
	struct transfer **at = &work->head;

	if (!t->queued)
		return;
	while (*at != t)
		at = &(*at)->work_next;
	*at = t->work_next;
	if (!*at)
		work->tail_p = at;
	t->queued = false;
}

static void finish(struct transfer *t, int status)
{
	*t->link_p = t->next;
	if (t->next)
		t->next->link_p = t->link_p;
	t->end(t, status);
}

/* A queue pair completes its requests in order. So the part that completes is the first one, unless
 * one was lost. */
static void part_done(struct raw_owner *owner, int status)
{
	struct transfer *t = container_of(owner, struct transfer, owner);
	uint64_t n = part_at(t, 0);

	t->parts--;
	if (status || t->lost) {
		t->lost = true;
	} else {
		t->ep->bytes_posted -= n;
		t->laddr += n;
		t->raddr += n;
		t->len -= n;
		t->posted -= n;
	}
	queue(t);
}

/* Half of the send queue is left to messages. */
static bool may_post(const struct transfer *t)
{
	return t->posted < t->len && t->ep->bytes_posted < TRANSFER_POSTED_MAX &&
	       t->ep->raw_owned < t->ep->ctx->attr.sq_depth / 2;
}

/* If no part is posted, no completion tells when to go on, so the next poll tries again. */
static void post_parts(struct transfer *t)
{
	bool any = false;

	while (may_post(t)) {
		const struct raw_move m = {
			.is_read = t->is_read,
			.laddr = t->laddr + t->posted,
			.lkey = t->lkey,
			.raddr = t->raddr + t->posted,
			.rkey = t->rkey,
			.len = (uint32_t)part_at(t, t->posted),
		};
		int rc = raw_post(t->ep, &m, 0, &t->owner);

		if (rc && rc != -EAGAIN)
			ep_fail(t->ep, -ECONNRESET);
		if (rc)
			break;
		t->posted += m.len;
		t->ep->bytes_posted += m.len;
		t->parts++;
		any = true;
	}
	if (any)
		raw_ring(t->ep);
	if (!t->parts)
		queue(t);
}

int transfer_start(struct transfer *t)
{
	struct copyrpc_ep *ep = t->ep;
	int rc = ep->ch.status ? ep->ch.status : raw_open(ep);

	if (rc)
		return rc;
	t->owner.done = part_done;
	t->next = ep->transfers;
	t->link_p = &ep->transfers;
	if (t->next)
		t->next->link_p = &t->next;
	ep->transfers = t;
	post_parts(t);
	return 0;
}

/* After a lost connection everything from the first lost part on is posted again. The transfers of
 * an endpoint that has failed end with it. */
static void proceed(struct transfer *t)
{
	if (t->lost && !t->parts) {
		t->lost = false;
		t->ep->bytes_posted -= t->posted;
		t->posted = 0;
	}
	if (!t->len)
		finish(t, 0);
	else if (!t->ep->ch.status && !t->lost)
		post_parts(t);
}

/* The list is taken as a whole, because transfers may be queued again. */
void ctx_transfers(struct copyrpc_ctx *ctx)
{
	struct transfer *t = ctx->work.head;

	ctx->work = (struct transfer_list){NULL, &ctx->work.head};
	while (t) {
		struct transfer *next = t->work_next;

		t->queued = false;
		proceed(t);
		t = next;
	}
}

void ep_end_transfers(struct copyrpc_ep *ep)
{
	struct transfer *t;

	if (!ep->transfers)
		return;
	raw_disown(ep);
	while ((t = ep->transfers)) {
		unqueue(t);
		finish(t, ep->ch.status);
	}
}
