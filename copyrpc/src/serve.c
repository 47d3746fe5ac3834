/* SPDX-License-Identifier: MIT */
/*
 * The stages of a large request: it waits for its turn, that is, until its endpoint makes few
 * enough pulls and pushes (is_busy()); it waits for a block of memory; its bytes are pulled into
 * the block; the program holds it; its response is pushed out of the block. Its bytes in the ring
 * are released at the beginning.
 */
#include "serve.h"

#include <stdlib.h>

#include "base/sized.h"
#include "copyrpc_bulk.h"
#include "pool.h"
#include "transfer.h"

/*
 * The number of pulls and pushes that an endpoint makes at a time, so that a short one does not
 * wait for the end of a long one. If all together have fewer than SHORT_MOVES_MAX bytes,
 * SHORT_MOVES_AT_A_TIME suffice, because they end soon. A request also gets its turn above the
 * limit if the current ones have fewer than TRANSFER_POSTED_MAX bytes. A push never waits. A
 * request that must wait gets its memory later: so a few blocks are used again and again, and stay
 * in the cache.
 */
#define MOVES_AT_A_TIME 3
#define SHORT_MOVES_AT_A_TIME 2
#define SHORT_MOVES_MAX (2 * TRANSFER_POSTED_MAX) /* bytes of all */

struct served {
	struct transfer t;
	struct copyrpc_req *req;
	struct served *next; /* in the list of waiting requests */
	struct block *block; /* NULL: the request waits */
	struct wire_large w; /* in the byte order of the host */
	uint32_t limit; /* largest payload of the response message */
	uint32_t copied; /* bytes of the request that came in the message: all or none */
	uint8_t bytes[];
};

/* Sends the response: @len bytes, which are copied from @data, or which the peer has already if
 * @data is NULL. The endpoint may have failed, or be destroyed. */
static void respond(struct copyrpc_req *req, uint32_t error, uint32_t len, const void *data)
{
	uint8_t payload[sizeof(struct wire_large_response) + WIRE_COPIED_MAX];
	const struct wire_large_response r = {htole32(error), htole32(len)};
	struct copyrpc_ep *ep = ep_of(req->ch);
	uint32_t copied = data ? len : 0;

	memcpy(payload, &r, sizeof(r));
	if (copied)
		memcpy(payload + sizeof(r), data, copied);
	if (req->served)
		req->resp_max = req->served->limit;
	if (ep->qp)
		ep_dirty(ep);
	else
		ep_end(ep);
	chan_reply_odd(req, payload, (uint32_t)sizeof(r) + copied);
}

/* Drops a request of an endpoint that has failed or is destroyed. */
static void drop(struct served *s)
{
	struct copyrpc_req *req = s->req;
	struct copyrpc_ep *ep = ep_of(req->ch);

	chan_drop_req(req);
	if (!ep->qp)
		ep_end(ep);
}

/* Called if the bytes cannot be moved: the endpoint has failed, or there is no memory for a
 * transfer. */
static void refuse(struct served *s)
{
	if (s->req->ch->status)
		drop(s);
	else
		respond(s->req, WIRE_NO_MEMORY, 0, NULL);
}

/* ------------------------------------------------------------------ receiving */

static void deliver(struct served *s)
{
	struct copyrpc_req *req = s->req;

	req->data = s->block->mr.addr;
	req->len = s->w.len;
	req->resp_max = s->w.resp_max;
	chan_queue(req->ch, req);
	ep_of(req->ch)->ctx->to.handled++;
}

static bool is_pulled(const struct served *s)
{
	return s->w.len != s->copied;
}

/* True if the request needs a pull, or its response may need a push. */
static bool is_moved(const struct served *s)
{
	return is_pulled(s) || s->w.resp_max > WIRE_COPIED_MAX;
}

static bool is_busy(const struct copyrpc_ep *ep)
{
	bool is_short = ep->bytes_wanted < SHORT_MOVES_MAX;

	return ep->moves >= (is_short ? SHORT_MOVES_AT_A_TIME : MOVES_AT_A_TIME) &&
	       ep->bytes_wanted >= TRANSFER_POSTED_MAX;
}

static void on_moved(struct transfer *t, int status);

/* Starts the pull or the push. */
static int move(struct served *s, bool is_read, uint64_t raddr, uint32_t rkey, uint32_t len)
{
	int rc;

	s->t = (struct transfer){
		.ep = ep_of(s->req->ch),
		.is_read = is_read,
		.laddr = s->block->mr.addr,
		.lkey = s->block->mr.lkey,
		.raddr = raddr,
		.rkey = rkey,
		.len = len,
		.end = on_moved,
	};
	rc = transfer_start(&s->t);
	s->t.ep->moves += !rc;
	return rc;
}

/* Fills the block of a request, by a pull or by a copy. */
static void receive(struct served *s)
{
	if (is_pulled(s)) {
		if (move(s, true, s->w.from, s->w.from_rkey, s->w.len))
			refuse(s);
		return;
	}
	memcpy(s->block->mr.addr, s->bytes, s->copied);
	deliver(s);
}

/* Gives memory to the requests that wait for it. */
static void give_memory(struct copyrpc_ctx *ctx)
{
	struct served *s;

	while ((s = ctx->waiting.head)) {
		uint32_t len = s->w.len > s->w.resp_max ? s->w.len : s->w.resp_max;
		int rc = pool_get(ctx, len, &s->block);

		if (rc == -EAGAIN)
			return;
		QUEUE_SHIFT(&ctx->waiting, next);
		if (rc)
			respond(s->req, WIRE_NO_MEMORY, 0, NULL);
		else
			receive(s);
	}
}

static void give_turns(struct copyrpc_ep *ep)
{
	struct served *s;

	while ((s = ep->due.head) && !ep->ch.status && !is_busy(ep)) {
		QUEUE_SHIFT(&ep->due, next);
		QUEUE_APPEND(&ep->ctx->waiting, s, next);
		give_memory(ep->ctx);
	}
}

void ctx_serve(struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep;

	ctx->serve_again = false;
	give_memory(ctx);
	while ((ep = ctx->turns)) {
		ctx->turns = ep->turns_next;
		ep->in_turns = false;
		give_turns(ep);
	}
}

static void serve_again(struct copyrpc_ctx *ctx)
{
	ctx->serve_again = true;
	ctx->calm = NOT_CALM;
}

/*
 * Called at the end of a transfer. The next requests have their turn in the next poll, not now: by
 * then the program may have answered the request that was just pulled, so that the next one gets
 * the same memory. Meanwhile the other transfers use the link.
 */
static void end_move(struct copyrpc_ep *ep)
{
	struct copyrpc_ctx *ctx = ep->ctx;

	ep->moves--;
	if (!ep->due.head || ep->in_turns)
		return;
	ep->in_turns = true;
	ep->turns_next = ctx->turns;
	ctx->turns = ep;
	serve_again(ctx);
}

static void on_moved(struct transfer *t, int status)
{
	struct served *s = container_of(t, struct served, t);
	struct copyrpc_ep *ep = t->ep;

	/* A callback of the same poll may have destroyed the endpoint. */
	if (status || (t->is_read && !ep->qp))
		drop(s);
	else if (t->is_read)
		deliver(s);
	else
		respond(s->req, WIRE_OK, s->req->len, NULL);
	end_move(ep);
}

static struct wire_large get_large(const void *data)
{
	struct wire_large w;

	memcpy(&w, data, sizeof(w)); /* the peer may change it meanwhile */
	w.from = le64toh(w.from);
	w.to = le64toh(w.to);
	w.from_rkey = le32toh(w.from_rkey);
	w.to_rkey = le32toh(w.to_rkey);
	w.len = le32toh(w.len);
	w.resp_max = le32toh(w.resp_max);
	return w;
}

/* Releases the request's bytes in the ring, and puts the request at the end of the list of those
 * that wait for their turn or for memory. */
static int enqueue(struct copyrpc_req *req, const struct wire_large *w, uint32_t copied)
{
	struct copyrpc_ep *ep = ep_of(req->ch);
	struct copyrpc_ctx *ctx = ep->ctx;
	struct served *s = malloc(sizeof(*s) + copied);

	if (!s)
		return -ENOMEM;
	*s = (struct served){.req = req, .w = *w, .limit = req->resp_max, .copied = copied};
	memcpy(s->bytes, (const uint8_t *)req->data + sizeof(*w), copied);
	chan_release(req);
	req->detached = true;
	req->data = NULL;
	req->served = s;
	if (is_moved(s) && (ep->due.head || is_busy(ep))) {
		QUEUE_APPEND(&ep->due, s, next);
		return 0;
	}
	QUEUE_APPEND(&ctx->waiting, s, next);
	give_memory(ctx);
	return 0;
}

/* Checks a large request, except against this side's limits. If the message is too short, `copied`
 * wraps around and does not equal the length. Returns 0 or -EPROTO. */
static int check_large(const struct copyrpc_req *req, const struct wire_large *w)
{
	uint32_t copied = req->len - (uint32_t)sizeof(*w);

	if (req->resp_max < sizeof(struct wire_large_response) || (copied && copied != w->len))
		return -EPROTO;
	return 0;
}

int serve_large(struct copyrpc_req *req)
{
	const struct copyrpc_ctx *ctx = ep_of(req->ch)->ctx;
	struct wire_large w = {0};

	ep_of(req->ch)->large++;
	if (req->len >= sizeof(w))
		w = get_large(req->data);
	if (check_large(req, &w)) {
		chan_drop_req(req);
		return -EPROTO;
	}
	if (!ctx->message_max || w.len > ctx->message_max || w.resp_max > ctx->message_max)
		respond(req, WIRE_TOO_LARGE, 0, NULL);
	else if (enqueue(req, &w, req->len - (uint32_t)sizeof(w)))
		respond(req, WIRE_NO_MEMORY, 0, NULL);
	return 0;
}

int copyrpc_large_accept(struct copyrpc_ctx *ctx, const struct copyrpc_large_attr *attr)
{
	struct copyrpc_large_attr a;
	int rc = SIZED_ATTR(&a, attr, memory_max);

	if (rc)
		return rc;
	if (!a.memory_max)
		a.memory_max = 4 * block_len(a.message_max);
	if (a.message_max > COPYRPC_LARGE_MAX ||
		(a.message_max && a.memory_max < block_len(a.message_max)))
		return -EINVAL;
	ctx->message_max = a.message_max;
	/* The limit is not lowered: requests that wait were accepted with the former limit. */
	pool_limit(ctx, a.memory_max > ctx->pool.most ? a.memory_max : ctx->pool.most);
	if (ctx->waiting.head)
		serve_again(ctx);
	return 0;
}

/* ------------------------------------------------------------------- replying */

void *copyrpc_req_memory(const struct copyrpc_req *req)
{
	return req->served ? req->served->block->mr.addr : NULL;
}

static int push(struct served *s, const void *data, uint32_t len)
{
	void *from = s->block->mr.addr;

	if (data != from)
		memmove(from, data, len); /* data may be a part of the request */
	s->req->len = len;
	return move(s, false, s->w.to, s->w.to_rkey, len);
}

int serve_reply(struct copyrpc_req *req, const void *data, uint32_t len)
{
	struct served *s = req->served;
	int rc = req->ch->status;

	if (!rc && len > s->w.resp_max)
		return -EMSGSIZE;
	if (!rc && len <= WIRE_COPIED_MAX && len <= s->limit - sizeof(struct wire_large_response)) {
		respond(req, WIRE_OK, len, data);
		return 0;
	}
	if (!rc)
		rc = push(s, data, len);
	if (rc)
		refuse(s);
	return rc;
}

/* --------------------------------------------------------------------- ending */

/* Frees the memory of a large request. The next poll gives it to requests that wait. */
void serve_release(struct copyrpc_req *req)
{
	struct copyrpc_ep *ep = ep_of(req->ch);
	struct copyrpc_ctx *ctx = ep->ctx;
	struct served *s = req->served;

	if (s->block) {
		pool_put(ctx, s->block);
	} else {
		QUEUE_REMOVE(&ep->due, s, next);
		QUEUE_REMOVE(&ctx->waiting, s, next);
	}
	req->served = NULL;
	req->data = NULL;
	free(s);
	if (ctx->waiting.head)
		serve_again(ctx);
}

void ep_end_served(struct copyrpc_ep *ep)
{
	struct served *s = ep->ctx->waiting.head;
	struct copyrpc_ep **at = &ep->ctx->turns;

	while (*at && *at != ep)
		at = &(*at)->turns_next;
	if (*at)
		*at = ep->turns_next;
	ep->in_turns = false;

	while (ep->due.head)
		drop(ep->due.head);
	while (s) {
		struct served *next = s->next;

		if (ep_of(s->req->ch) == ep)
			drop(s);
		s = next;
	}
}
