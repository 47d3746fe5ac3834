/* SPDX-License-Identifier: MIT */
#include "transfer.h"

/* After a message of a small call, this many parts are posted one at a time, because another
 * message may follow. */
#define PARTS_BESIDE 4

static uint64_t part_at(const struct transfer *t, uint64_t off)
{
	return t->len - off < TRANSFER_PART ? t->len - off : TRANSFER_PART;
}

/* Makes the next poll handle the transfer. */
static void queue(struct transfer *t)
{
	struct copyrpc_ctx *ctx = t->ep->ctx;

	if (t->queued)
		return;
	t->queued = true;
	QUEUE_APPEND(&ctx->work, t, work_next);
	ctx->calm = NOT_CALM;
}

static void finish(struct transfer *t, int status)
{
	UNLINK(t);
	t->ep->bytes_wanted -= t->len;
	t->end(t, status);
}

/* A queue pair completes its requests in order. So the part that completes is the first one, unless
 * a part was lost. */
static void part_done(struct raw_owner *owner, int status)
{
	struct transfer *t = container_of(owner, struct transfer, owner);
	uint64_t n = part_at(t, 0);

	t->parts--;
	if (status || t->lost) {
		t->lost = true;
	} else {
		t->ep->bytes_posted -= n;
		t->ep->bytes_wanted -= n;
		t->laddr += n;
		t->raddr += n;
		t->len -= n;
		t->posted -= n;
	}
	queue(t);
}

/* If messages of small calls have arrived since the last part, sets the number of parts that are
 * posted one at a time: more messages may follow, and each of them then waits for one part at
 * most. */
static void look_beside(struct copyrpc_ep *ep)
{
	uint64_t small = ep->ch.stats.requests + ep->ch.stats.responses - ep->large;

	if (small != ep->small_seen)
		ep->beside = PARTS_BESIDE;
	ep->small_seen = small;
}

/* Half of the send queue is left to messages. */
static bool may_post(const struct transfer *t)
{
	uint64_t most = t->ep->beside ? TRANSFER_PART : TRANSFER_POSTED_MAX;

	return t->posted < t->len && t->ep->bytes_posted < most &&
	       t->ep->raw_owned < t->ep->ctx->attr.sq_depth / 2;
}

/* Posts parts without the doorbell, and returns their number. If no part is in progress, no
 * completion will continue the transfer, so the next poll tries again. */
static int post_parts(struct transfer *t)
{
	int n = 0;

	look_beside(t->ep);
	for (; may_post(t); n++) {
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
		t->ep->beside -= t->ep->beside > 0;
	}
	if (!t->parts)
		queue(t);
	return n;
}

int transfer_start(struct transfer *t)
{
	struct copyrpc_ep *ep = t->ep;
	int rc = ep->ch.status ? ep->ch.status : raw_open(ep);

	if (rc)
		return rc;
	t->owner.done = part_done;
	LINK(&ep->transfers, t);
	ep->bytes_wanted += t->len;
	if (ep->bytes_posted) {
		if (post_parts(t))
			raw_ring(ep);
		return 0;
	}
	queue(t);
	ep->ctx->work_due = true;
	return 0;
}

/* Posts the endpoint's batches, and then the next parts. Returns the number of batches and parts.
 * After a lost connection everything from the first lost part on is posted again. If the endpoint
 * has failed, posts nothing. */
static int proceed(struct transfer *t)
{
	int n;

	if (t->lost && !t->parts) {
		t->lost = false;
		t->ep->bytes_posted -= t->posted;
		t->posted = 0;
	}
	if (t->ep->ch.status || t->lost)
		return 0;
	n = ep_post(t->ep);
	return t->ep->ch.status ? n : n + post_parts(t);
}

/* Continues the transfers of a list, with one doorbell for successive ones of the same endpoint. */
static void proceed_all(struct transfer *t)
{
	int n = 0;

	while (t) {
		struct transfer *next = t->work_next;
		struct copyrpc_ep *ep = t->ep;

		t->queued = false;
		n += proceed(t);
		if (n && (!next || next->ep != ep)) {
			raw_ring(ep);
			n = 0;
		}
		t = next;
	}
}

/* Empties the list before the loop, because the loop may put transfers on the list again. */
void ctx_transfers(struct copyrpc_ctx *ctx)
{
	struct transfer *t = ctx->work.head;
	QUEUE_OF(struct transfer) go_on;

	QUEUE_CLEAR(&go_on);
	QUEUE_CLEAR(&ctx->work);
	ctx->work_due = false;
	while (t) {
		struct transfer *next = t->work_next;

		if (t->len) {
			QUEUE_APPEND(&go_on, t, work_next);
		} else {
			t->queued = false;
			finish(t, 0);
		}
		t = next;
	}
	proceed_all(go_on.head);
}

void ep_end_transfers(struct copyrpc_ep *ep)
{
	struct transfer *t;

	if (!ep->transfers)
		return;
	raw_disown(ep);
	while ((t = ep->transfers)) {
		QUEUE_REMOVE(&t->ep->ctx->work, t, work_next);
		t->queued = false;
		finish(t, ep->ch.status);
	}
}
