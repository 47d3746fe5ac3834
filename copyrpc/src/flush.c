/* SPDX-License-Identifier: MIT */
/* Flushing: batches, credit, and READs of the peer's position. */
#include "base/probe.h"
#include "grow.h"
#include "internal.h"

/* Stores and returns the consumer position in bytes. Release: pairs with the peer's RDMA READ, so
 * that reads of the released bytes come before the store. */
static inline uint64_t publish_consumer(struct copyrpc_ep *ep)
{
	uint64_t consumer = chan_consumer_bytes(&ep->ch);

	__atomic_store_n(&ep->words->consumer, htole64(consumer), __ATOMIC_RELEASE);
	return consumer;
}

/*
 * Returns the consumer position to report, in bytes. Inside a callback it is still that of the last
 * flush: the peer must not overwrite the messages of the batch that are not handled yet, nor the
 * response that the callback reads. The next flush outside a callback reports the new position.
 */
static uint64_t tell_consumer(struct copyrpc_ep *ep)
{
	if (!ep->ch.handling)
		return publish_consumer(ep);
	ep_dirty(ep); /* for the next flush outside a callback */
	return le64toh(ep->words->consumer);
}

/* Posts the WRITE of a batch. The last batch in an old ring is signaled: its completion shows that
 * the HCA does not read the ring any more. */
static inline int post_write(struct copyrpc_ep *ep, uint64_t pos, uint32_t len, uint32_t imm)
{
	struct sent_ring r = chan_ring_of(&ep->ch, pos);
	const struct route *way = r.old ? &ep->old_route : &ep->route;
	size_t off = (size_t)(pos & r.mask) * WIRE_BLOCK;
	bool last = r.old && pos + imm == ep->ch.grow.moved;

	PROBE(copyrpc, batch_posted, ep->qpn,
		((const struct wire_meta *)(const void *)(r.at + off))->count, len);
	ep->moving |= last;
	return mlx5dvl_post_write_imm(ep->qp, r.at + off, way->lkey, len, way->peer + off,
		way->rkey, imm, last ? MLX5DVL_SIGNALED : 0, TOKEN_MOVE);
}

/* Seals and posts the next batch; the send queue has room. Returns false if the QP has failed. */
static bool post_batch(struct copyrpc_ep *ep, uint64_t consumer)
{
	struct chan *ch = &ep->ch;
	uint64_t pos;
	uint32_t len, imm = chan_seal(ch, consumer, &pos, &len);

	if (unlikely(ch->send_ring != ep->send.at))
		ep_moved(ep);
	if (likely(!post_write(ep, pos, len, imm)))
		return true;
	ch->stats.wqes--; /* the batch was not posted */
	ep_fail(ep, -ECONNRESET);
	return false;
}

/* Posts batches while the send queue has room. Returns their number. */
ALWAYS_INLINE int post_batches(struct copyrpc_ep *ep, uint64_t consumer)
{
	struct chan *ch = &ep->ch;
	int n = 0;

	/* Every batch grants credit, so a batch without messages is needed only if there is no
	 * other. */
	for (; chan_waits(ch) || chan_flow_batch(ch); n++) {
		if (mlx5dvl_sq_full(ep->qp)) {
			ch->stats.sq_stalls++;
			break;
		}
		if (!post_batch(ep, consumer))
			break;
	}
	return n;
}

/* After a lost connection, posts batches again while the send queue has room. Returns their
 * number. */
static int post_again(struct copyrpc_ep *ep, uint64_t consumer)
{
	struct chan *ch = &ep->ch;
	int n = 0;

	for (; ch->again && !mlx5dvl_sq_full(ep->qp); n++) {
		uint64_t pos;
		uint32_t len, imm = chan_seal_again(ch, consumer, &pos, &len);

		if (!imm) {
			ep_break(ep, -EPROTO);
			break;
		}
		if (post_write(ep, pos, len, imm)) {
			ep_fail(ep, -ECONNRESET);
			break;
		}
	}
	return n;
}

/* Sets the time of the next READ (0: none). While it is set, flushes take the general path. */
static void set_read(struct copyrpc_ep *ep, uint64_t at)
{
	ep->read_at = at;
	ep->ch.read_timed = at;
}

/* True if the READ is due. Sets its time when the READ is first needed. */
static bool read_in_time(struct copyrpc_ep *ep)
{
	uint64_t now = ep->ctx->clock();

	if (!ep->read_at) {
		ep->backoff = READ_WAIT_NS;
		set_read(ep, now + READ_WAIT_NS);
	}
	return now >= ep->read_at;
}

/* Posts the READ if it is due. */
static int post_due_read(struct copyrpc_ep *ep)
{
	if (!ep->ch.probe && !read_in_time(ep)) {
		ep_keep(ep);
		return 0;
	}
	/*
	 * The time of the probe starts even if the send queue has no room for the READ: a peer that
	 * is dead does not complete the posted requests either. Time before this flush does not
	 * count, because a busy caller may flush much later than it polls.
	 */
	if (ep->ch.probe && !ep->asked)
		ep->asked = ep->ctx->clock();
	if (mlx5dvl_post_read(ep->qp, &ep->words->peer, ep->word.lkey, sizeof(ep->words->peer),
		    ep->peer_word, ep->peer_word_rkey, MLX5DVL_SIGNALED, TOKEN_WORD)) {
		ep_keep(ep); /* the send queue is full until the next poll */
		return 0;
	}
	ep->ch.probe = false;
	ep->ch.reading = true;
	ep->ch.stats.reads++;
	return 1;
}

/* Posts the READ if it is needed and due. Returns 1 if posted, else 0. */
static int post_read(struct copyrpc_ep *ep)
{
	if (ep->ch.reading)
		return 0;
	if (chan_read_due(&ep->ch) || ep->ch.probe)
		return post_due_read(ep);
	set_read(ep, 0);
	return 0;
}

void ep_word_read(struct copyrpc_ep *ep)
{
	uint64_t before = ep->ch.cr.rc;

	/* Acquire: pairs with the HCA's write of the word before the completion. */
	uint64_t value = __atomic_load_n(&ep->words->peer, __ATOMIC_ACQUIRE);

	ep->ch.reading = false;
	ep->asked = 0;
	if (ep->ch.status)
		return;
	if (chan_read_done(&ep->ch, le64toh(value))) {
		ep_fail(ep, -EPROTO);
		return;
	}
	if (ep->ch.cr.rc != before) {
		set_read(ep, 0);
	} else if (ep->read_at) {
		ep->backoff =
			2 * ep->backoff < READ_WAIT_MAX_NS ? 2 * ep->backoff : READ_WAIT_MAX_NS;
		set_read(ep, ep->ctx->clock() + ep->backoff);
	}
	ep_dirty(ep);
}

/*
 * True if @go of copyrpc_flush_if() decides whether the waiting batches are sent. They are sent in
 * any case if credit is due or if they carry a note or a move of a growing ring. Otherwise @go
 * might return false until the peer does something for which the peer first needs the credit or the
 * larger ring.
 */
static bool may_wait(const struct copyrpc_ep *ep)
{
	const struct chan *ch = &ep->ch;

	if (ch->growing && chan_growth_due(ch))
		return false;
	return chan_waits(ch) && !credit_due(&ch->cr, ch->cr.p);
}

/* Rings the doorbell for the posted requests. */
static inline void ring(struct copyrpc_ep *ep)
{
	ep->ch.stats.doorbells++;
	mlx5dvl_ring(ep->qp);
}

/* Flushes an endpoint by the general path. If @hold is true, no new messages are sent. Returns the
 * number of batches sent. */
static NOINLINE int flush_odd(struct copyrpc_ep *ep, bool hold)
{
	int batches = 0, reads;
	uint64_t consumer;

	if (ep->ch.status || ep->ch.away)
		return 0;
	consumer = tell_consumer(ep);
	if (ep->ch.grow.laps >= RING_LAPS)
		ep_count_laps(ep);
	if (ep->ch.growing)
		ep_grow(ep);
	if (ep->ch.unwatched && chan_waits(&ep->ch))
		ep_watch(ep, NOT_SEEN);
	if (ep->ch.again)
		batches = post_again(ep, consumer);
	if (ep->ch.away || ep->ch.status)
		return 0;
	if (!hold && !ep->ch.again)
		batches += post_batches(ep, consumer);
	if (chan_waits(&ep->ch) || ep->ch.again)
		ep_keep(ep);
	reads = post_read(ep);
	if (batches + reads)
		ring(ep);
	return batches;
}

int ep_post(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;

	if (ch->status || ch->away || ch->again || !chan_waits(ch))
		return 0;
	if (ch->unwatched)
		ep_watch(ep, NOT_SEEN);
	return post_batches(ep, tell_consumer(ep));
}

/*
 * Copies the messages of a batch of @len bytes into the request, after the metadata. The copies
 * have constant lengths and go up to the end of the request's last block, so that the compiler
 * calls no function.
 */
static inline void copy_messages(uint8_t *to, const uint8_t *batch, uint64_t len)
{
	memcpy(to + 32, batch + 32, 60);
	if (len > 92)
		memcpy(to + 92, batch + 92, 64);
	if (len > 156)
		memcpy(to + 156, batch + 156, 64);
}

/* True if there is nothing to do except sending one batch that can be copied into a request. */
static inline bool is_usual(const struct copyrpc_ep *ep)
{
	return chan_is_usual(&ep->ch) && chan_open_bytes(&ep->ch) <= MLX5DVL_INLINE_MAX &&
	       mlx5dvl_sq_fits(ep->qp, (uint32_t)chan_open_bytes(&ep->ch));
}

static NOINLINE int flush_unusual(struct copyrpc_ep *ep);

/* Flushes an endpoint. The usual case is inline and calls no function. */
ALWAYS_INLINE int flush_ep(struct copyrpc_ep *ep)
{
	struct chan *ch = &ep->ch;
	struct mlx5dvl_qp *qp;
	uint8_t *to, *batch;
	uint64_t len;

	if (unlikely(!is_usual(ep)))
		return flush_unusual(ep);
	qp = ep->qp;
	to = mlx5dvl_sq_here(qp);
	len = chan_open_bytes(ch);
	batch = chan_at(ch->send_ring, ch, ch->open.start);
	copy_messages(to, batch, len);
	forget_loads();
	chan_seal_usual(ch, to, batch, publish_consumer(ep), len);
	PROBE(copyrpc, batch_posted, ep->qpn, ch->open.count, len);
	forget_loads();
	mlx5dvl_post_write_imm_here(qp, to, (uint32_t)len, (uintptr_t)batch + ep->peer_shift,
		ep->peer_ring_rkey_word, chan_open_blocks(ch), 0, 0);
	mlx5dvl_ring_new(qp);
	return 1;
}

/* Flushes an endpoint for which is_usual() is false. The reason may be that less room is known in
 * the ring or the send queue than there is, so the known room is updated first. No batch is open
 * while the status is not 0. */
static NOINLINE int flush_unusual(struct copyrpc_ep *ep)
{
	if (ep->ch.cr.edge) {
		if (ep->ch.unwatched)
			ep_watch(ep, NOT_SEEN);
		chan_advance(&ep->ch);
		mlx5dvl_sq_update(ep->qp);
		if (is_usual(ep))
			return flush_ep(ep);
	}
	return flush_odd(ep, false);
}

static struct copyrpc_ep *reversed(struct copyrpc_ep *ep)
{
	struct copyrpc_ep *head = NULL;

	while (ep) {
		struct copyrpc_ep *next = ep->dirty_next;

		ep->dirty_next = head;
		head = ep;
		ep = next;
	}
	return head;
}

/* Flushes the endpoints in the order in which they became dirty. */
static NOINLINE int flush_list(struct copyrpc_ctx *ctx, copyrpc_flush_fn *go, void *arg)
{
	struct copyrpc_ep *ep = reversed(ctx->dirty);
	int n = 0;

	/* Endpoints that become dirty meanwhile are left to the next flush. */
	ctx->dirty = NULL;
	while (ep) {
		struct copyrpc_ep *next = ep->dirty_next;

		ep->dirty = FLUSHED;
		if (go && may_wait(ep) && !go(arg, ep))
			n += flush_odd(ep, true);
		else
			n += flush_ep(ep);
		ep = next;
	}
	return n;
}

int copyrpc_flush_if(struct copyrpc_ctx *ctx, copyrpc_flush_fn *go, void *arg)
{
	return flush_list(ctx, go, arg);
}

int copyrpc_flush(struct copyrpc_ctx *ctx)
{
	struct copyrpc_ep *ep = ctx->dirty;

	if (unlikely(!ep))
		return 0;
	if (ep->dirty_next)
		return flush_list(ctx, NULL, NULL);
	ctx->dirty = NULL;
	ep->dirty = FLUSHED;
	return flush_ep(ep);
}

/* The endpoint stays on the dirty list; the next flush finds nothing to send. */
int copyrpc_ep_flush(struct copyrpc_ep *ep)
{
	return flush_odd(ep, false);
}
