/* SPDX-License-Identifier: MIT */
/* Endpoints: memory, connection, destruction. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/probe.h"
#include "base/sized.h"
#include "blob.h"
#include "internal.h"

#define HUGE_PAGE ((size_t)2 << 20)

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
		{"credit", LIVE_AT(struct copyrpc_ep, ch.cr.rmax)},
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

/* Maps memory, aligned for huge pages if it is large enough: the HCA translates addresses page by
 * page, and caches few translations. */
static void *map_aligned(size_t len)
{
	size_t spare = len >= HUGE_PAGE ? HUGE_PAGE : 0;
	uint8_t *at =
		mmap(NULL, len + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		return NULL;
	if (!spare)
		return at;
	before = -(uintptr_t)at % HUGE_PAGE;
	if (before)
		munmap(at, before);
	if (before < spare)
		munmap(at + before + len, spare - before);
	madvise(at + before, len, MADV_HUGEPAGE); /* best effort */
	return at + before;
}

/* Maps the receive ring, the send ring and the words. The pages are not inherited by fork(): with
 * copy-on-write, the HCA could keep the child's copy. */
static int map_memory(struct copyrpc_ep *ep, uint32_t ring)
{
	long page = sysconf(_SC_PAGESIZE);

	ep->memory_len = align_up(2 * (size_t)ring + sizeof(struct words), (size_t)page);
	ep->memory = map_aligned(ep->memory_len);
	if (!ep->memory)
		return -ENOMEM;
	madvise(ep->memory, ep->memory_len, MADV_DONTFORK);
	ep->words = (struct words *)((uint8_t *)ep->memory + 2 * (size_t)ring);
	return 0;
}

/* The peer may only write the receive ring and read the consumer word. The memory for local use is
 * one region. */
static int register_memory(struct copyrpc_ep *ep, uint32_t ring)
{
	struct mlx5dvl_ctx *dev = ep->ctx->dev;
	uint8_t *recv = ep->memory;
	int rc;

	rc = mlx5dvl_mr_reg(dev, recv, ring, MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE,
		&ep->mr_recv);
	if (rc)
		return rc;
	rc = mlx5dvl_mr_reg(dev, recv + ring,
		ring + offsetof(struct words, peer) + sizeof(ep->words->peer), MLX5DVL_LOCAL_WRITE,
		&ep->mr_own);
	if (rc)
		return rc;
	ep->own_lkey = ep->mr_own.lkey;
	return mlx5dvl_mr_reg(dev, &ep->words->consumer, sizeof(ep->words->consumer),
		MLX5DVL_REMOTE_READ, &ep->mr_word);
}

static_assert((int)COPYRPC_SET_GID_INDEX == MLX5DVL_SET_GID_INDEX &&
		      (int)COPYRPC_SET_PKEY_INDEX == MLX5DVL_SET_PKEY_INDEX &&
		      (int)COPYRPC_SET_TIMEOUT == MLX5DVL_SET_TIMEOUT &&
		      (int)COPYRPC_SET_RETRY_CNT == MLX5DVL_SET_RETRY_CNT &&
		      (int)COPYRPC_SET_RNR_RETRY == MLX5DVL_SET_RNR_RETRY &&
		      (int)COPYRPC_SET_MIN_RNR_TIMER == MLX5DVL_SET_MIN_RNR_TIMER,
	"masks are passed on");

int path_read(struct copyrpc_path *path, const struct copyrpc_path *given)
{
	int rc = SIZED_ATTR(path, given, set);

	path->size = sizeof(*path);
	return rc;
}

static struct copyrpc_ep *ep_alloc(struct copyrpc_ctx *ctx, void *user)
{
	struct copyrpc_ep *ep = aligned_alloc(CACHE_LINE, align_up(sizeof(*ep), CACHE_LINE));

	if (!ep)
		return NULL;
	memset(ep, 0, sizeof(*ep));
	ep->ctx = ctx;
	ep->user = user;
	ep->counted = true;
	ep->next = ctx->eps;
	ep->link_p = &ctx->eps;
	if (ep->next)
		ep->next->link_p = &ep->next;
	ctx->eps = ep;
	ctx->n_eps++;
	ctx->made++;
	return ep;
}

int copyrpc_ep_create(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr,
	struct copyrpc_ep **ep_p)
{
	struct copyrpc_ep_attr a;
	struct copyrpc_ep *ep;
	uint32_t ring;
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
	rc = map_memory(ep, ring);
	if (rc)
		goto fail;
	rc = chan_init(&ep->ch, (uint8_t *)ep->memory + ring, ep->memory, ring / WIRE_BLOCK,
		a.max_pending ? a.max_pending : ctx->attr.max_pending, ctx->attr.nested,
		&ctx->queue, 0);
	if (rc)
		goto fail;
	ep->ch.ep = ep;
	ep->ch.unwatched = true;
	rc = register_memory(ep, ring);
	if (rc)
		goto fail;
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

static uint32_t ring_size(const struct copyrpc_ep *ep)
{
	return ep->ch.cr.c * WIRE_BLOCK;
}

void copyrpc_ep_info(const struct copyrpc_ep *ep, void *bytes)
{
	struct blob b = {
		.ring_addr = (uintptr_t)ep->mr_recv.addr,
		.word_addr = (uintptr_t)ep->mr_word.addr,
		.ring_rkey = ep->mr_recv.rkey,
		.word_rkey = ep->mr_word.rkey,
		.ring_size = ring_size(ep),
		.nested = ep->ctx->attr.nested,
		.credit = credit_rmax(ep->ch.cr.c) * WIRE_BLOCK,
	};

	mlx5dvl_qp_get_info(ep->qp, &b.qp, sizeof(b.qp));
	blob_encode(&b, bytes);
}

static void set_peer(struct copyrpc_ep *ep, const struct blob *b)
{
	ep->peer_ring = b->ring_addr;
	ep->peer_shift = b->ring_addr - (uintptr_t)ep->ch.send_ring;
	ep->peer_ring_rkey = b->ring_rkey;
	ep->peer_ring_rkey_word = mlx5dvl_rkey_word(b->ring_rkey);
	ep->peer_word = b->word_addr;
	ep->peer_word_rkey = b->word_rkey;
	ep->peer = b->qp;
}

int copyrpc_ep_connect(struct copyrpc_ep *ep, const void *bytes, size_t len)
{
	struct blob b;
	int rc = blob_decode(&b, bytes, len);

	if (rc)
		return rc;
	if (ep->ch.status != -ENOTCONN)
		return -EISCONN;
	if (b.ring_size != ring_size(ep) || b.nested != ep->ctx->attr.nested)
		return -EMSGSIZE;
	/* Rings of equal size start with equal credit, so the value must be our own. */
	if (b.credit != credit_rmax(ep->ch.cr.c) * WIRE_BLOCK)
		return -EINVAL;
	rc = mlx5dvl_qp_connect(ep->qp, &b.qp, sizeof(b.qp));
	/* The address is invalid: the queue pair has refused it and is unchanged. */
	if (rc && mlx5dvl_qp_status(ep->qp) == -ENOTCONN)
		return rc;
	set_peer(ep, &b);
	ep->ch.status = rc ? -EIO : 0;
	return rc;
}

/* True if the blob has the memory that the endpoint knows already. */
static bool same_memory(const struct copyrpc_ep *ep, const struct blob *b)
{
	return b->ring_size == ring_size(ep) && b->nested == ep->ctx->attr.nested &&
	       b->ring_addr == ep->peer_ring && b->ring_rkey == ep->peer_ring_rkey &&
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
	ep->ended_next = NULL;
	*ctx->ended.tail_p = ep;
	ctx->ended.tail_p = &ep->ended_next;
	ctx->calm = NOT_CALM;
}

void ep_break(struct copyrpc_ep *ep, int status)
{
	if (ep->ch.status)
		return;
	PROBE(copyrpc, endpoint_failed, ep->qpn, status, ep->error.syndrome, ep->peer.qpn);
	ep_not_away(ep);
	chan_stop(&ep->ch, status);
	ep_tell_down(ep, status);
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
	ep->ch.stats.wqes += mlx5dvl_sq_fillers(ep->qp);
	mlx5dvl_qp_destroy(ep->qp);
	ep->qp = NULL;
	if (ep->held)
		*ep->held = NULL;
	if (ep->redial)
		*ep->redial = NULL;
	news_remove(ep->ctx, &ep->up);
	news_remove(ep->ctx, &ep->down);
	news_remove(ep->ctx, &ep->back);
	chan_drop_queued(&ep->ch);
	raw_drop(ep);
	ep_end(ep);
}

/* Returns the end of the list. */
static struct copyrpc_ep **list_remove(struct copyrpc_ep **at, const struct copyrpc_ep *ep,
	size_t link)
{
	while (*at) {
		struct copyrpc_ep **next_p = (struct copyrpc_ep **)((char *)*at + link);

		if (*at == ep)
			*at = *next_p;
		else
			at = next_p;
	}
	return at;
}

void ep_free(struct copyrpc_ep *ep)
{
	struct copyrpc_ctx *ctx = ep->ctx;

	live_remove(ep->live);
	add_ep_stats(&ctx->gone, ep);
	mlx5dvl_qp_destroy(ep->qp);
	list_remove(&ctx->dirty, ep, offsetof(struct copyrpc_ep, dirty_next));
	ctx->ended.tail_p =
		list_remove(&ctx->ended.head, ep, offsetof(struct copyrpc_ep, ended_next));
	ctx->watched.tail_p =
		list_remove(&ctx->watched.head, ep, offsetof(struct copyrpc_ep, watched_next));
	if (ep->raw)
		raw_drop(ep);
	mlx5dvl_mr_dereg(&ep->mr_word);
	mlx5dvl_mr_dereg(&ep->mr_own);
	mlx5dvl_mr_dereg(&ep->mr_recv);
	chan_fini(&ep->ch);
	if (ep->memory)
		munmap(ep->memory, ep->memory_len);
	*ep->link_p = ep->next;
	if (ep->next)
		ep->next->link_p = ep->link_p;
	ep_uncount(ep);
	free(ep);
}

void ep_uncount(struct copyrpc_ep *ep)
{
	ep->ctx->n_eps -= ep->counted;
	ep->counted = false;
}
