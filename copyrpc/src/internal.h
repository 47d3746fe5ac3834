/* SPDX-License-Identifier: MIT */
/* Contexts and endpoints: channels over queue pairs. */
#ifndef COPYRPC_INTERNAL_H
#define COPYRPC_INTERNAL_H

#include "base/clock.h"
#include "base/live.h"
#include "base/slab.h"
#include "chan.h"
#include "memory.h"
#include "mlx5dvl.h"
#include "ticks.h"

/* READ of the peer's consumer position: the delay before the first READ, because a batch may bring
 * the position meanwhile, and the longest delay between READs that return no new position. */
#define READ_WAIT_NS (5 * NSEC_PER_USEC)
#define READ_WAIT_MAX_NS NSEC_PER_MSEC

/* TOKEN_WORD is the token of such a READ, TOKEN_MOVE that of the last batch in an old ring. The
 * token of a raw operation is the index of its entry. */
#define TOKEN_WORD UINT64_MAX
#define TOKEN_MOVE (UINT64_MAX - 1)

/* If there was no memory for a larger ring, the delay before the next attempt. */
#define GROW_AGAIN_NS (10 * NSEC_PER_MSEC)

/* The time between two probes of a peer that has not answered calls or not consumed batches. */
#define PROBE_NS (100 * NSEC_PER_MSEC)
/* Values that mean none: of ep->seen, of a time, of ctx->calm. */
#define NOT_SEEN UINT64_MAX
#define NEVER UINT64_MAX
#define NOT_CALM UINT64_MAX

#define EP_NAME_MAX 64

/* A part of the library that uses raw operations. copyrpc_raw_recv() does not return its
 * operations. */
struct raw_owner {
	void (*done)(struct raw_owner *owner, int status); /* NULL: nothing is reported */
};

struct raw_op {
	struct raw_op *next; /* in the list of completed ones */
	bool posted; /* and not completed yet */
	int status;
	struct copyrpc_ep *ep;
	uint64_t token;
	struct raw_owner *owner; /* NULL: the program */
};

struct raw_move {
	bool is_read;
	void *laddr;
	uint32_t lkey;
	uint64_t raddr;
	uint32_t rkey, len;
};

/* This side's HCA writes `peer`, and the peer's HCA reads `consumer`. */
struct words {
	CACHE_ALIGNED uint64_t peer; /* the peer's consumer position, as the last READ returned
					it */
	CACHE_ALIGNED uint64_t consumer; /* own position, little-endian; written here, READ by the
					    peer */
};

/* Bits of ctx->armed: the CQs that are armed and whose event was not read yet. */
enum {
	ARMED_RECV = 1,
	ARMED_SEND = 2,
	ARMED_NOW = 4, /* copyrpc_ctx_arm() was called after events were last read */
};

/* An event that copyrpc_event_recv() has not returned yet. */
struct news {
	struct news *next;
	bool queued;
	int kind, status;
	uint64_t token;
	struct copyrpc_ep *ep; /* NULL: the end of a dial */
};

/*
 * Work of polls that does not belong to an endpoint: connections over TCP. The context's descriptor
 * is also readable when step() has something to do. In addition, polls call step() every
 * millisecond.
 */
struct ctx_side {
	uint64_t due; /* time of the next step() if nothing happens before; NEVER: none */
	uint64_t stepped; /* time of the last step() */
	void (*step)(struct copyrpc_ctx *ctx);
	void (*close)(struct copyrpc_ctx *ctx);
};

/* State of an endpoint in the list of the next flush. */
enum ep_dirty {
	FLUSHED, /* not on the list */
	KEPT, /* the last flush has left work, which waits for @go of copyrpc_flush_if(), for a
		 completion or for a time */
	CHANGED, /* something has changed since the last flush */
};

/* A file without a name, for memory that other processes of the host may map (memory.c). */
struct memory_file {
	bool open;
	int fd;
	off_t end;
};

/* The registered buffers for large requests (pool.h). */
struct pool {
	struct block *spare;
	uint64_t size, most; /* bytes of all buffers; the limit of `size` */
};

/* The keys and the address for WRITEs from a send ring to the peer's ring. */
struct route {
	uint32_t lkey, rkey;
	uint64_t peer; /* address of the peer's ring */
};

struct blob;

struct copyrpc_ep {
	struct chan ch;
	struct copyrpc_ctx *ctx;
	struct mlx5dvl_qp *qp; /* NULL: the endpoint is destroyed */
	struct route route, old_route; /* of the present send ring, of ch.grow.old_send */
	uint64_t peer_shift; /* from an address in the send ring to that in the peer's ring */
	uint64_t peer_ring_rkey_word; /* mlx5dvl_rkey_word() of route.rkey */
	uint64_t peer_word;
	uint32_t peer_word_rkey;
	uint64_t number, peer_number; /* number of the connection on each side; descriptors of
					 memory contain it */
	struct words *words;

	struct copyrpc_ep *dirty_next; /* in the list of the next flush: the endpoint added
					  before */
	uint8_t dirty; /* enum ep_dirty */
	struct copyrpc_ep *ended_next; /* in the list of endpoints whose calls must be ended */
	struct copyrpc_ep *watched_next; /* in the list of endpoints whose peers are watched */
	bool ended;
	bool counted; /* included in n_eps of the context */
	uint64_t read_at, backoff; /* time of the next READ, 0: not set; current delay between
				      READs */
	uint64_t seen; /* number of batches received at the last check for a probe; or NOT_SEEN */
	uint64_t asked; /* time of the first unanswered probe, 0: none */

	struct slab raw_ids;
	struct raw_op *raw; /* NULL: never used */
	uint32_t raw_owned; /* operations of the library among raw_ids */
	struct transfer *transfers;
	uint64_t bytes_wanted, bytes_posted; /* of transfers that have not ended */
	uint64_t large; /* messages of large calls among the received ones */
	uint64_t small_seen; /* other messages that were received before the last part of a transfer
				(transfer.c) was posted */
	uint32_t beside; /* number of parts that are still posted one at a time because of these
			    messages */
	QUEUE_OF(struct served) due; /* large requests that wait until other transfers end */
	uint32_t moves; /* transfers of large calls */
	struct copyrpc_ep *turns_next; /* in the list of the context */
	bool in_turns;

	struct copyrpc_ep *next, **link_p; /* in the list of the context */
	void *user;
	struct copyrpc_path path;
	char name[EP_NAME_MAX]; /* of the peer, for messages */
	bool named; /* the name comes from the attributes */
	uint64_t owner, peer_owner; /* random, see copyrpc_tcp.h; 0: none */
	uint64_t single; /* `node` of the peer's context, if the endpoint is the `single` connection
			    with that context; else 0 */
	/* Pointers to this endpoint that copyrpc_ep_destroy() sets to NULL; NULL: none. */
	struct copyrpc_ep **held; /* of the meeting (meet.h) in progress */
	struct copyrpc_ep **parked; /* of a guest (listen.c) without a socket: the connection was
				       lost in the meeting, until the peer returns; or
				       copyrpc_accept() has not returned the endpoint yet */
	uint64_t came; /* number of the connection that was accepted for it; 0: none */
	bool is_up; /* a meeting has connected both sides (if by_hand: reconnect_ms is not 0) */
	struct news up, down, back; /* kind 0: the endpoint has no events */

	/* Connecting again (renew.c). */
	uint64_t reconnect_ms; /* 0: not agreed by both ends */
	bool by_hand; /* the program exchanges the messages for it (byhand.c) */
	uint64_t event_token; /* token of its events, if by_hand */
	uint64_t attempt; /* number of the latest attempt; the side that dials chooses it */
	uint64_t wanted; /* if by_hand: number of an attempt that the peer has begun */
	uint64_t told; /* position that the message of the latest attempt contains */
	struct copyrpc_ep **redial; /* on the side that has dialed: the pointer to this endpoint in
				       struct redial */
	bool stopped, drained; /* state of a queue pair that is not replaced yet */
	uint32_t handled_at; /* mlx5dvl_cq_count() of the receive CQ when the queue pair was
				drained */
	uint64_t drain_by, away_since; /* when the queue pair counts as drained; when `away` was
					  set */
	int away_why; /* while `away`: the endpoint's status if it does not return; else 0 */
	int again_error; /* error of the last attempt; 0: none */
	bool left; /* the peer has said goodbye */

	uint32_t qpn;
	struct mlx5dvl_qp_info own, peer; /* own: of the port when the queue pair was created */
	struct mlx5dvl_error error; /* the completion that failed the endpoint; syndrome 0: none */
	struct piece send, recv, word; /* the memory in use */
	struct piece next_send, next_recv; /* for the next move to larger rings (grow.h) */
	struct piece old_send, old_recv; /* in use before the last move */
	bool moving; /* the HCA may still read old_send */
	uint64_t grow_at; /* time before which no larger memory is allocated; 0: no allocation has
			     failed */
	uint64_t lap_at; /* time when the laps were last counted */
	struct live_record *live;
};

/* The versions of a peer that was refused, and of this side. */
struct other_version {
	const char *of; /* NULL: there was none */
	uint16_t theirs, ours;
};

struct copyrpc_ctx {
	struct mlx5dvl_cq *recv_cq, *send_cq;
	struct mlx5dvl_srq *srq;
	struct listener to; /* callback of the running poll */
	unsigned armed;
	uint64_t looked; /* ticks_era() when the clock was last read */
	uint64_t calm; /* a poll handles only completions while ticks_era() equals this. It is
			  NOT_CALM if the context is armed, `ended` or `work` is not empty, or
			  serve_again is set; else it equals `looked` */
	bool look_always; /* for tests: every poll reads the clock */
	struct req_queue queue;
	struct copyrpc_ep *dirty; /* list of endpoints for the next flush, newest first */
	QUEUE_OF(struct copyrpc_ep) ended, watched;
	QUEUE_OF(struct raw_op) raw;
	QUEUE_OF(struct transfer) work; /* transfers that the next poll handles */
	struct reg *regs; /* bulk.h */
	struct copyrpc_bulk *bulks;
	uint32_t message_max; /* of large calls; 0: refused */
	struct pool pool;
	QUEUE_OF(struct served) waiting; /* large requests that wait for memory */
	struct copyrpc_ep *turns; /* endpoints whose requests have their turn in the next poll */
	bool serve_again; /* the next poll calls ctx_serve() */
	bool work_due; /* the next poll can continue a transfer in `work`, if there is one */
	uint64_t (*clock)(void); /* ns; tests replace it */
	uint64_t probed; /* time of the last check for probes */
	uint64_t deadline; /* not later than any call's deadline; NEVER: no call has one */
	uint32_t consumed; /* ctx_consumed() when poll last looked for events */
	int fd; /* readable when a CQ, the device or `side` has an event; -1: not created */

	struct mlx5dvl_ctx *dev;
	struct copyrpc_ep *eps; /* all endpoints */
	uint32_t n_eps; /* endpoints whose completions may be in the send CQ */
	uint32_t set_ups; /* queue pairs created and connected so far, modulo 2^32 */
	struct copyrpc_ctx_attr attr; /* with the defaults filled in */
	struct copyrpc_path path; /* of endpoints without a path of their own */
	struct copyrpc_stats gone; /* sums of the counters of freed endpoints */
	uint64_t refills, port_downs;
	bool port_down; /* as the device has reported; nothing is connected while it is true */
	uint32_t n_away; /* endpoints that are being connected again */
	uint64_t no_receive; /* out_of_buffer when the context was created */
	struct chunk *chunks; /* of the memory of the endpoints */
	struct memory_file file; /* of receive rings */
	struct ctx_side *side; /* NULL: none */
	QUEUE_OF(struct news) news;
	uint64_t node; /* random number of the context, see copyrpc_tcp.h; 0: not drawn yet */
	struct other_version other; /* of the peer that was refused last */
	bool broken; /* the device or a queue of the context has failed */
	bool closing; /* the context is being destroyed: no callbacks */
	struct live_record *live;
};

static inline struct copyrpc_ep *ep_of(const struct chan *ch)
{
	return container_of(ch, struct copyrpc_ep, ch);
}

/* Completions consumed since the context was created, modulo 2^32. */
static inline uint32_t ctx_consumed(const struct copyrpc_ctx *ctx)
{
	return mlx5dvl_cq_count(ctx->recv_cq) + mlx5dvl_cq_count(ctx->send_cq);
}

/* Puts the endpoint on the list of the next flush. */
ALWAYS_INLINE void ep_list(struct copyrpc_ep *ep)
{
	ep->dirty_next = ep->ctx->dirty;
	ep->ctx->dirty = ep;
}

/* Keeps the endpoint on the list, because the running flush has left work for a later one. */
static inline void ep_keep(struct copyrpc_ep *ep)
{
	if (ep->dirty != FLUSHED)
		return;
	ep_list(ep);
	ep->dirty = KEPT;
}

/* Makes the next flush visit the endpoint. */
static inline void ep_dirty(struct copyrpc_ep *ep)
{
	if (ep->dirty == FLUSHED)
		ep_list(ep);
	ep->dirty = CHANGED;
}

/* True if something has changed since the last flush. */
static inline bool ctx_has_dirty(const struct copyrpc_ctx *ctx)
{
	const struct copyrpc_ep *ep = ctx->dirty;

	while (ep && ep->dirty != CHANGED)
		ep = ep->dirty_next;
	return ep;
}

/*
 * True if the peer must be watched: it owes responses, has batches to consume, or relies on this
 * side to dial again after a loss.
 */
static inline bool ep_awaits(const struct copyrpc_ep *ep)
{
	return !ep->ch.status && !ep->ch.away &&
	       (ep->ch.ncalls || ep->ch.sent != ep->ch.cr.rc || ep->redial);
}

/* Adds the endpoint to the list of those whose peers are watched. @seen: see ep->seen. */
static inline void ep_watch(struct copyrpc_ep *ep, uint64_t seen)
{
	struct copyrpc_ctx *ctx = ep->ctx;

	ep->ch.unwatched = false;
	ep->seen = seen;
	QUEUE_APPEND(&ctx->watched, ep, watched_next);
}

/* The memory of the receive ring. */
static inline const struct piece *ep_recv_piece(const struct copyrpc_ep *ep)
{
	return ep->ch.recv_ring == ep->next_recv.at ? &ep->next_recv : &ep->recv;
}

static inline bool ring_size_ok(uint32_t size)
{
	return is_pow2(size) && size >= COPYRPC_RING_MIN && size <= COPYRPC_RING_MAX;
}

static_assert(sizeof(struct copyrpc_stats) % sizeof(uint64_t) == 0, "counters only");

static inline struct copyrpc_stats ep_stats(const struct copyrpc_ep *ep)
{
	struct copyrpc_stats s = chan_stats(&ep->ch);

	if (ep->qp)
		s.wqes += mlx5dvl_sq_fillers(ep->qp);
	return s;
}

static inline void add_ep_stats(struct copyrpc_stats *sum, const struct copyrpc_ep *ep)
{
	struct copyrpc_stats s = ep_stats(ep);
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)&s;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

/* Fails the endpoint, or, if it may be connected again, sets ch.away (renew.c). */
void ep_fail(struct copyrpc_ep *ep, int status);
/* Fails the endpoint. Its calls end in this poll or the next. Only the first status is kept. */
void ep_break(struct copyrpc_ep *ep, int status);
/* Handles the peer's goodbye: fails the endpoint, which is not connected again. */
void ep_hear_goodbye(struct copyrpc_ep *ep);
/* Adds the endpoint to the list of those whose calls a poll ends. The poll then frees destroyed
 * endpoints. */
void ep_end(struct copyrpc_ep *ep);
void ep_free(struct copyrpc_ep *ep);
/* Copies a program's path; its size becomes that of the library's struct. Returns 0 or -E2BIG. */
int path_read(struct copyrpc_path *path, const struct copyrpc_path *given);
/* Removes a destroyed endpoint from the count, after the send CQ has been emptied: another endpoint
 * may then be created. */
void ep_uncount(struct copyrpc_ep *ep);
/* Ends the calls of the endpoints on the list of ep_end(); called by a poll. */
void ctx_end_endpoints(struct copyrpc_ctx *ctx);
/* Does the actions that are due at a time, for example probes of silent peers. */
void ctx_look(struct copyrpc_ctx *ctx);

/* Records that a peer has another version of @of. Blobs (blob.h) and greetings (meet.h) have the
 * version at the same offset. */
void ctx_note_version(struct copyrpc_ctx *ctx, const char *of, const void *bytes, uint16_t ours);

/* Returns the same as blob_decode(). */
int ctx_read_blob(struct copyrpc_ctx *ctx, struct blob *b, const void *bytes, size_t len);

int ep_create_qp(struct copyrpc_ep *ep);
/* Returns 0, or -EINVAL if no endpoint of the context can have this path. */
int ctx_check_path(const struct copyrpc_ctx *ctx, const struct copyrpc_path *path);
/* True if the endpoint, which was connected, can be connected again after a failure with this
 * status. The first meeting (meet.h) may be unfinished: the peer may be up already. */
bool ep_may_return(const struct copyrpc_ep *ep, int status);
/* Makes the endpoint `away`, if it is not yet, and stops its queue pair. Called after a lost
 * connection and after each failed attempt. */
void ep_leave(struct copyrpc_ep *ep, int status);
/* Called when the port's addresses have changed. Makes an endpoint `away` if its address does not
 * exist any more, because the peer's messages would not arrive. */
void ctx_leave_addresses(struct copyrpc_ctx *ctx);
/* Called when the device has reported that the queue pair is drained, or a second after the queue
 * pair was stopped. */
void ep_note_drained(struct copyrpc_ep *ep);
/* True if all completions of the stopped queue pair were handled, so that the position up to which
 * messages were received is final. */
bool ep_is_drained(struct copyrpc_ep *ep);
/* Replaces the drained queue pair by a new one. Ends raw operations. Returns 0 or -errno. */
int ep_renew(struct copyrpc_ep *ep);
/* Connects the new queue pair. The peer has received all bytes before the position @received.
 * Returns 0, or -EPROTO after failing the endpoint, or an error of copyrpc_ep_connect(). */
int ep_rejoin(struct copyrpc_ep *ep, const void *blob, size_t len, uint64_t received);
/* Ends `away`, because the endpoint is connected again. */
void ep_return(struct copyrpc_ep *ep);
/* Ends `away`, because the endpoint fails or is destroyed. */
void ep_not_away(struct copyrpc_ep *ep);
/* Queues the event DOWN. */
void ep_tell_down(struct copyrpc_ep *ep, int status);

int ctx_open_events(struct copyrpc_ctx *ctx);
void ctx_close_events(struct copyrpc_ctx *ctx);
/* Reads the asynchronous events of the device. */
void ctx_device_events(struct copyrpc_ctx *ctx);
/* Reads the events of the armed CQs and of the device. Calls step() of `side` if its descriptor is
 * readable. */
void ctx_drain(struct copyrpc_ctx *ctx);

/* Adds the work of @side, whose descriptor @fd is readable when step() has something to do. Returns
 * 0 or -errno. */
int ctx_add_side(struct copyrpc_ctx *ctx, struct ctx_side *side, int fd);

void news_add(struct copyrpc_ctx *ctx, struct news *n);
/* Removes an event that may be queued. */
void news_remove(struct copyrpc_ctx *ctx, struct news *n);

/* Allocates the entries for raw operations. Returns 0 or -ENOMEM. */
int raw_open(struct copyrpc_ep *ep);
/* Posts an operation without a doorbell. Returns the same as copyrpc_read(). */
int raw_post(struct copyrpc_ep *ep, const struct raw_move *m, uint64_t token,
	struct raw_owner *owner);
void raw_ring(struct copyrpc_ep *ep);
/* Makes pending operations of the library end without a report to their owners. */
void raw_disown(struct copyrpc_ep *ep);
void raw_done(struct copyrpc_ep *ep, uint64_t token, int status);
void raw_drop(struct copyrpc_ep *ep);
/* Ends all operations whose completions have not arrived. */
void raw_end(struct copyrpc_ep *ep, int status);

/* Posts the messages that an endpoint has collected, without a doorbell. Returns the number of
 * requests. */
int ep_post(struct copyrpc_ep *ep);

/* Continues the transfers on ctx->work, and reports those that have ended. */
void ctx_transfers(struct copyrpc_ctx *ctx);
/* Ends the transfers of an endpoint that has failed or is destroyed. */
void ep_end_transfers(struct copyrpc_ep *ep);
/* Gives memory and turns (serve.c) to the large requests that wait for them. */
void ctx_serve(struct copyrpc_ctx *ctx);
/* Drops the large requests of an endpoint that has failed or is destroyed. */
void ep_end_served(struct copyrpc_ep *ep);

/* Does the due steps of growing the rings, before batches are sent. */
void ep_grow(struct copyrpc_ep *ep);
/* Asks for a larger ring if the laps of the send ring are too fast. */
void ep_count_laps(struct copyrpc_ep *ep);
/* Called when chan_seal() has moved to a larger send ring. */
void ep_moved(struct copyrpc_ep *ep);
/* Sets the route of the batches. */
void ep_set_route(struct copyrpc_ep *ep, struct route route);

/* Handles the completion of the READ of the peer's position. */
void ep_word_read(struct copyrpc_ep *ep);

#endif
