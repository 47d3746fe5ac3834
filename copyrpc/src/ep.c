/* SPDX-License-Identifier: MIT */
/* Endpoints: memory, connection, destruction. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/probe.h"
#include "base/sized.h"
#include "blob.h"
#include "copyrpc_tcp.h"
#include "grow.h"
#include "internal.h"

static const struct live_type live_ep = {LIVE_MAGIC, "copyrpc", "endpoint",
	.field = {
		{"qpn", LIVE_AT(struct copyrpc_ep, qpn), .form = LIVE_HEX},
		{"peer-qpn", LIVE_AT(struct copyrpc_ep, peer.qpn), .form = LIVE_HEX},
		{"status", LIVE_AT(struct copyrpc_ep, ch.status), .form = LIVE_SIGNED},
		{"away", LIVE_AT(struct copyrpc_ep, away_why), .form = LIVE_SIGNED},
		{"in-flight", LIVE_AT(struct copyrpc_ep, ch.ncalls)},
		{"most", LIVE_AT(struct copyrpc_ep, ch.max_calls)},
		{"unanswered", LIVE_AT(struct copyrpc_ep, ch.stats.requests),
			LIVE_LESS(struct copyrpc_ep, ch.stats.replies)},
		{"unsent", LIVE_AT(struct copyrpc_ep, ch.cr.p),
			LIVE_LESS(struct copyrpc_ep, ch.sent)},
		{"ring-used", LIVE_AT(struct copyrpc_ep, ch.cr.p),
			LIVE_LESS(struct copyrpc_ep, ch.cr.rc)},
		{"ring", LIVE_AT(struct copyrpc_ep, ch.cr.c)},
		{"credit-used", LIVE_AT(struct copyrpc_ep, ch.cr.spent)},
		{"credit", LIVE_AT(struct copyrpc_ep, ch.cr.kmax)},
		{"sq-used", LIVE_VIA(struct copyrpc_ep, qp), LIVE_AT(struct mlx5dvl_qp, pi),
			LIVE_LESS(struct mlx5dvl_qp, ci)},
		{"responses", LIVE_AT(struct copyrpc_ep, ch.stats.responses)},
		{"failed", LIVE_AT(struct copyrpc_ep, ch.stats.failed_calls)},
		{"requests", LIVE_AT(struct copyrpc_ep, ch.stats.requests)},
		{"batches", LIVE_AT(struct copyrpc_ep, ch.stats.batches),
			LIVE_PLUS(struct copyrpc_ep, ch.usual)},
		{"ring-stalls", LIVE_AT(struct copyrpc_ep, ch.stats.ring_stalls)},
		{"cred-stalls", LIVE_AT(struct copyrpc_ep, ch.stats.credit_stalls)},
		{"sq-stalls", LIVE_AT(struct copyrpc_ep, ch.stats.sq_stalls)},
	}};

/*
 * Returns the number of an endpoint's connection, from the address of its consumer word and the key
 * of its first receive ring, which both ends know. No other endpoint uses the same word at the same
 * time, and the next endpoint that uses it has a ring with another key.
 */
static uint64_t number_of(uint64_t word, uint32_t ring_rkey)
{
	return word ^ (uint64_t)ring_rkey << 32;
}

/* Takes memory for the first rings and for struct words. */
static int take_memory(struct copyrpc_ep *ep, uint32_t ring)
{
	int rc = memory_take(ep->ctx, MEMORY_RECV, ring, &ep->recv);

	if (!rc)
		rc = memory_take(ep->ctx, MEMORY_SEND, ring, &ep->send);
	if (!rc)
		rc = memory_take(ep->ctx, MEMORY_WORDS, sizeof(struct words), &ep->word);
	if (rc)
		return rc;
	ep->words = (struct words *)ep->word.at;
	*ep->words = (struct words){.peer = 0};
	ep->number = number_of((uintptr_t)&ep->words->consumer, ep->recv.rkey);
	return 0;
}

static void give_memory(struct copyrpc_ep *ep)
{
	struct piece *all[] = {&ep->send, &ep->recv, &ep->word, &ep->next_send, &ep->next_recv,
		&ep->old_send, &ep->old_recv};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		memory_give(ep->ctx, all[i]);
}

static_assert((int)COPYRPC_SET_GID_INDEX == MLX5DVL_SET_GID_INDEX &&
		      (int)COPYRPC_SET_PKEY_INDEX == MLX5DVL_SET_PKEY_INDEX &&
		      (int)COPYRPC_SET_TIMEOUT == MLX5DVL_SET_TIMEOUT &&
		      (int)COPYRPC_SET_RETRY_CNT == MLX5DVL_SET_RETRY_CNT &&
		      (int)COPYRPC_SET_RNR_RETRY == MLX5DVL_SET_RNR_RETRY &&
		      (int)COPYRPC_SET_MIN_RNR_TIMER == MLX5DVL_SET_MIN_RNR_TIMER,
	"masks are passed on");

/* The bits of a path's `set`. */
#define PATH_SETS                                                                                  \
	(unsigned)(COPYRPC_SET_TIMEOUT | COPYRPC_SET_RETRY_CNT | COPYRPC_SET_RNR_RETRY |           \
		   COPYRPC_SET_MIN_RNR_TIMER)

int path_read(struct copyrpc_path *path, const struct copyrpc_path *given)
{
	int rc = SIZED_ATTR(path, given, set);

	path->size = sizeof(*path);
	return !rc && path->set & ~PATH_SETS ? -E2BIG : rc;
}

static struct copyrpc_ep *ep_alloc(struct copyrpc_ctx *ctx, void *user)
{
	struct copyrpc_ep *ep = aligned_alloc(CACHE_LINE, align_up(sizeof(*ep), CACHE_LINE));

	if (!ep)
		return NULL;
	memset(ep, 0, sizeof(*ep));
	ep->ctx = ctx;
	QUEUE_CLEAR(&ep->due);
	ep->user = user;
	ep->counted = true;
	LINK(&ctx->eps, ep);
	ctx->n_eps++;
	return ep;
}

int copyrpc_ep_create(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr,
	struct copyrpc_ep **ep_p)
{
	struct copyrpc_ep_attr a;
	struct copyrpc_ep *ep;
	uint32_t ring, first;
	int rc = SIZED_ATTR(&a, attr, name);

	if (rc)
		return rc;
	ring = a.ring_size ? a.ring_size : ctx->attr.ring_size;
	if (!ring_size_ok(ring))
		return -EINVAL;
	if (ctx->broken)
		return -EIO;
	if (ctx->n_eps + mlx5dvl_ctx_retired(ctx->dev) >= ctx->attr.max_endpoints)
		return -EMFILE;
	ep = ep_alloc(ctx, a.user);
	if (!ep)
		return -ENOMEM;
	rc = path_read(&ep->path, a.path ? a.path : &ctx->path);
	if (rc)
		goto fail;
	first = first_ring(ring);
	rc = take_memory(ep, first);
	if (rc)
		goto fail;
	rc = chan_init(&ep->ch, ep->send.at, ep->recv.at, first / WIRE_BLOCK, ring / WIRE_BLOCK,
		a.max_pending ? a.max_pending : ctx->attr.max_pending, ctx->attr.nested,
		&ctx->queue, 0);
	if (rc)
		goto fail;
	ep->ch.ep = ep;
	ep->ch.unwatched = true;
	ep->by_hand = a.by_hand;
	ep->event_token = a.event_token;
	if (a.by_hand && getrandom(&ep->owner, sizeof(ep->owner), 0) < 0) {
		rc = -errno;
		goto fail;
	}
	rc = ep_create_qp(ep);
	if (rc)
		goto fail;
	if (a.name) {
		snprintf(ep->name, sizeof(ep->name), "%s", a.name);
		ep->named = true;
	}
	ep->live = live_add(&live_ep, ep, ep->name);
	*ep_p = ep;
	return 0;
fail:
	ep_free(ep);
	return rc;
}

/* ---------------------------------------------------------------- connecting */

/* The size up to which the rings may grow. */
static uint32_t ring_size(const struct copyrpc_ep *ep)
{
	return ep->ch.most * WIRE_BLOCK;
}

/* The credit with which an endpoint begins, in bytes. */
static uint32_t first_credit(const struct copyrpc_ep *ep)
{
	return credit_rmax(first_ring(ring_size(ep)) / WIRE_BLOCK) * WIRE_BLOCK;
}

void copyrpc_ep_info(const struct copyrpc_ep *ep, void *bytes)
{
	struct blob b = {
		.ring_addr = (uintptr_t)ep->ch.recv_ring,
		.word_addr = (uintptr_t)&ep->words->consumer,
		.ring_rkey = ep_recv_piece(ep)->rkey,
		.word_rkey = ep->word.rkey,
		.ring_size = ring_size(ep),
		.nested = ep->ctx->attr.nested,
		.credit = first_credit(ep),
		.number = ep->by_hand && ep->ctx->attr.reconnect_ms ? ep->owner : 0,
	};

	mlx5dvl_qp_get_info(ep->qp, &b.qp, sizeof(b.qp));
	blob_encode(&b, bytes);
}

/* Lets an endpoint with `by_hand` be connected again after a loss, if its context has reconnect_ms
 * and the peer's blob has a number: its endpoint has `by_hand`, and its context reconnect_ms. */
static void may_return(struct copyrpc_ep *ep, const struct blob *b)
{
	ep->peer_owner = b->number;
	ep->reconnect_ms = b->number ? ep->ctx->attr.reconnect_ms : 0;
	ep->is_up = ep->reconnect_ms;
	ep->down = (struct news){.kind = COPYRPC_DOWN, .token = ep->event_token, .ep = ep};
	ep->back = (struct news){.kind = COPYRPC_BACK, .token = ep->event_token, .ep = ep};
}

static void set_peer(struct copyrpc_ep *ep, const struct blob *b)
{
	ep_set_route(ep, (struct route){ep->send.lkey, b->ring_rkey, b->ring_addr});
	ep->peer_word = b->word_addr;
	ep->peer_word_rkey = b->word_rkey;
	ep->peer = b->qp;
}

int copyrpc_ep_connect(struct copyrpc_ep *ep, const void *bytes, size_t len)
{
	struct blob b;
	int rc = ctx_read_blob(ep->ctx, &b, bytes, len);

	if (rc)
		return rc;
	if (ep->ch.status != -ENOTCONN)
		return -EISCONN;
	if (b.ring_size != ring_size(ep) || b.nested != ep->ctx->attr.nested)
		return -EMSGSIZE;
	/* Both ends start with rings of equal size, so the peer's credit must equal this side's. */
	if (b.credit != first_credit(ep))
		return -EINVAL;
	ep->ctx->set_ups++;
	rc = mlx5dvl_qp_connect(ep->qp, &b.qp, sizeof(b.qp));
	/* If the queue pair's status is still -ENOTCONN, it refused the peer's data and is
	 * unchanged. */
	if (rc && mlx5dvl_qp_status(ep->qp) == -ENOTCONN)
		return rc;
	set_peer(ep, &b);
	if (ep->by_hand)
		may_return(ep, &b);
	ep->peer_number = number_of(b.word_addr, b.ring_rkey);
	ep->ch.status = rc ? -EIO : 0;
	return rc;
}

static bool leads_to(const struct route *r, const struct blob *b)
{
	return b->ring_addr == r->peer && b->ring_rkey == r->rkey;
}

/* True if the blob describes the memory that this endpoint uses at the peer. The blob may name the
 * peer's former receive ring, if the peer has not received the last batch in that ring yet. */
static bool same_memory(const struct copyrpc_ep *ep, const struct blob *b)
{
	return b->ring_size == ring_size(ep) && b->nested == ep->ctx->attr.nested &&
	       (leads_to(&ep->route, b) || (ep->ch.grow.old_send && leads_to(&ep->old_route, b))) &&
	       b->word_addr == ep->peer_word && b->word_rkey == ep->peer_word_rkey;
}

int ep_rejoin(struct copyrpc_ep *ep, const void *bytes, size_t len, uint64_t received)
{
	struct blob b;
	int rc = blob_decode(&b, bytes, len);

	if (rc)
		return rc;
	if (!same_memory(ep, &b) || received % WIRE_BLOCK ||
		chan_resume(&ep->ch, received / WIRE_BLOCK)) {
		ep_break(ep, -EPROTO);
		return -EPROTO;
	}
	ep->ctx->set_ups++;
	rc = mlx5dvl_qp_connect(ep->qp, &b.qp, sizeof(b.qp));
	if (!rc)
		ep->peer = b.qp;
	return rc;
}

int copyrpc_ep_status(const struct copyrpc_ep *ep)
{
	return ep->ch.status;
}

void *copyrpc_ep_user(const struct copyrpc_ep *ep)
{
	return ep->user;
}

struct copyrpc_ctx *copyrpc_ep_ctx(const struct copyrpc_ep *ep)
{
	return ep->ctx;
}

/* -------------------------------------------------------------------- ending */

void ep_end(struct copyrpc_ep *ep)
{
	struct copyrpc_ctx *ctx = ep->ctx;

	if (ep->ended)
		return;
	ep->ended = true;
	QUEUE_APPEND(&ctx->ended, ep, ended_next);
	ctx->calm = NOT_CALM;
}

/*
 * Tells the peer that this endpoint has ended. Nothing waits for the message: if it is lost, or the
 * send queue is full, the peer detects the end by probes. The goodbye arrives after all messages
 * that were sent before.
 */
static void say_goodbye(struct copyrpc_ep *ep)
{
	if (ep->left || mlx5dvl_post_write_imm(ep->qp, NULL, 0, 0, 0, 0, WIRE_GOODBYE, 0, 0))
		return;
	ep->ch.stats.wqes++;
	ep->ch.stats.doorbells++;
	mlx5dvl_ring(ep->qp);
}

void ep_hear_goodbye(struct copyrpc_ep *ep)
{
	ep->left = true;
	ep_break(ep, -ECONNRESET);
}

void ep_break(struct copyrpc_ep *ep, int status)
{
	if (ep->ch.status)
		return;
	PROBE(copyrpc, endpoint_failed, ep->qpn, status, ep->error.syndrome, ep->peer.qpn);
	ep_not_away(ep);
	chan_stop(&ep->ch, status);
	ep_tell_down(ep, status);
	say_goodbye(ep); /* while the queue pair sends */
	if (!mlx5dvl_qp_status(ep->qp))
		mlx5dvl_qp_to_error(ep->qp);
	ep_end(ep);
}

void ep_fail(struct copyrpc_ep *ep, int status)
{
	if (ep->ch.status)
		return;
	if (ep_may_return(ep, status))
		ep_leave(ep, status);
	else
		ep_break(ep, status);
}

void copyrpc_ep_destroy(struct copyrpc_ep *ep)
{
	if (!ep || !ep->qp)
		return;
	ep_not_away(ep);
	if (!ep->ch.status || ep->ch.status == -ENOTCONN)
		chan_stop(&ep->ch, -ECANCELED);
	say_goodbye(ep); /* does nothing if the queue pair has failed */
	ep->ch.stats.wqes += mlx5dvl_sq_fillers(ep->qp);
	mlx5dvl_qp_destroy(ep->qp);
	ep->qp = NULL;
	if (ep->held)
		*ep->held = NULL;
	if (ep->parked)
		*ep->parked = NULL;
	if (ep->redial)
		*ep->redial = NULL;
	news_remove(ep->ctx, &ep->up);
	news_remove(ep->ctx, &ep->down);
	news_remove(ep->ctx, &ep->back);
	chan_drop_queued(&ep->ch);
	raw_drop(ep);
	ep_end(ep);
}

void ep_free(struct copyrpc_ep *ep)
{
	struct copyrpc_ctx *ctx = ep->ctx;
	struct copyrpc_ep **at = &ctx->dirty;

	live_remove(ep->live);
	add_ep_stats(&ctx->gone, ep);
	mlx5dvl_qp_destroy(ep->qp);
	while (*at && *at != ep)
		at = &(*at)->dirty_next;
	if (*at)
		*at = ep->dirty_next;
	QUEUE_REMOVE(&ctx->ended, ep, ended_next);
	QUEUE_REMOVE(&ctx->watched, ep, watched_next);
	if (ep->raw)
		raw_drop(ep);
	give_memory(ep);
	chan_fini(&ep->ch);
	UNLINK(ep);
	ep_uncount(ep);
	free(ep);
}

void ep_uncount(struct copyrpc_ep *ep)
{
	ep->ctx->n_eps -= ep->counted;
	ep->counted = false;
}
