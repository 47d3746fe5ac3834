/* SPDX-License-Identifier: MIT */
/*
 * flux: remote procedure calls between the threads of one process, each to each.
 *
 * A flux is a network of N nodes; each node belongs to one thread. A node calls any
 * other, receives the calls of the others, answers them at any time and in any order,
 * and gets the responses to its own calls, each with the token that it gave. Nothing is
 * locked, and nothing is allocated after flux_create(). A call of 32 bytes and its response
 * of 16 are one cache line together, in bursts, and one each way when they travel alone.
 *
 *	struct flux_attr attr = { .nodes = 2, .payload_size = 32 };
 *	struct flux *f;
 *	if (flux_create(&attr, &f) < 0) ...
 *
 *	struct flux_node *a = flux_node(f, 0);          // thread A
 *	flux_call(a, 1, &question, sizeof(question), 7);
 *	while (!flux_poll(a, on_response, NULL))        // on_response(NULL, 7, &answer, len)
 *		flux_wait(a, FLUX_FOREVER);
 *
 *	struct flux_node *b = flux_node(f, 1);          // thread B
 *	if (flux_try_recv_raw(b, &from, &call, &question, sizeof(question), &len) == 1)
 *		flux_reply(b, call, &answer, sizeof(answer));
 *
 * Threads: flux_create(), flux_node() and flux_destroy() may be called by any thread;
 * flux_destroy() when no thread uses a node any more. Every other function takes a node
 * and may be called only by the thread that the node belongs to. Handing a node to another
 * thread needs the ordering of, for example, pthread_create() or a mutex.
 *
 * Calls have a greatest size for the whole network, answers another. A sender may give fewer
 * bytes, and the receiver gets to know how many. Give a length, and a capacity, that is a
 * compile-time constant: the copy is inlined.
 *
 * Visibility: who keeps fewer than eight calls in flight to a node (now, and at its last
 * flux_poll() that followed a call) has each published at once, and each answer. With more, up
 * to eight calls to a node, or answers to one, are published together: the last call at the
 * latest at this node's next flux_poll(), or when that returns; the last answer at the next
 * flux_poll() that finds no call to answer or follows another one without an answer between;
 * both at its next flux_wait(), flux_flush(), call or answer to another node, call that is
 * refused with -EAGAIN, or flux_try_recv_raw() that returns 0 or turns to the next peer. A peer that sleeps
 * in flux_wait() is woken by flux_flush(), by a flux_wait() before it yields or returns in vain,
 * after eight polls and receives in vain, and otherwise after sixty-four bursts and polls
 * together. So a thread that turns to something else after a call or a reply calls
 * flux_flush() first.
 *
 * Descriptors: a thread that waits for other things as well sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { flux_fd(b), POLLIN }, { pipe, POLLIN } };
 *	for (;;) {
 *		while (serve(b) > 0)			flux_try_recv_raw(), flux_reply(), flux_poll()
 *			;
 *		poll(p, 2, flux_arm(b) ? 0 : -1);
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: nobody but the library reads, writes or closes it. A node
 * is armed until the next call with it, which is why flux_arm() comes last; with several,
 * timeout 0 if any arm returned something else than 0. A woken node polls and receives as
 * usual; its descriptor stays readable until it is armed again. Wake-ups without a reason are
 * possible. A peer that leaves wakes, too, so no timeout is needed.
 *
 * Leaving: see flux_leave(). A call to a node that has left, or that leaves before it has
 * answered, ends exactly once: flux_call() gives -EPIPE, or the response function is called
 * with payload NULL.
 *
 * Errors are returned as negative errno values; nothing sets errno.
 */
#ifndef FLUX_H
#define FLUX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLUX_FOREVER UINT64_MAX /* as a timeout */
#define FLUX_MAX_NODES 256u
#define FLUX_MAX_CAPACITY (1u << 20)
#define FLUX_MAX_PAYLOAD (1u << 16)

struct flux;
struct flux_node;

struct flux_attr {
	uint32_t nodes; /* 1 to FLUX_MAX_NODES; no default */
	/*
	 * Messages in each of the two rings of an ordered pair of nodes, above max_inflight
	 * and at most FLUX_MAX_CAPACITY. 0: four times max_inflight, at least 64, so 1024 if
	 * that is not given either. A burst has cache lines of its own, so a ring is made longer
	 * where max_inflight calls that travel alone would not fit. Rings take memory only as far
	 * as they have been used.
	 */
	uint32_t capacity;
	/*
	 * Calls that a node may have outstanding to one other node. 0: 256, or capacity - 1
	 * if that is less. Give what you need: short rings stay in the nearest cache, and a
	 * lone call takes a fifth less time with 64 slots than with 1024.
	 */
	uint32_t max_inflight;
	/* Bytes in a call, at most FLUX_MAX_PAYLOAD. 0: 56, a cache line with what precedes it. */
	uint32_t payload_size;
	/* Bytes in an answer, at most FLUX_MAX_PAYLOAD. 0: as many as in a call. */
	uint32_t reply_size;
};

/* What a node has done since flux_create(). */
struct flux_stats {
	uint64_t calls; /* made by this node */
	uint64_t responses; /* to them, received */
	uint64_t requests; /* received by this node */
	uint64_t replies; /* to them, sent */
	uint64_t aborted; /* calls that ended because the peer, or the node itself, left */
	uint64_t flushes; /* times it looked for peers to wake, with one full memory barrier */
	uint64_t wakes; /* sleeping peers woken */
	uint64_t sleeps; /* times this node slept in the kernel, or was armed */
	uint64_t yields; /* times this node gave its core to a waiting peer while busy */
};

/*
 * Handles one response. payload points at the len bytes that were sent, inside the ring, aligned
 * to 8, valid until the function returns; NULL means that the call was not answered because
 * the peer has left (or this node has, see flux_leave()). The function may call
 * flux_call() and flux_reply() on the same node, but not flux_poll().
 */
typedef void flux_response_fn(void *arg, uint64_t token, const void *payload, uint32_t len);

/*
 * Creates a network. attr is read during the call only. *f_p belongs to the caller, who
 * gives it to flux_destroy().
 * 0; -EINVAL: a value of attr is outside its range, or max_inflight >= capacity;
 * -ENOMEM: the rings do not fit into memory or address space: take fewer nodes or a
 * smaller capacity.
 */
int flux_create(const struct flux_attr *attr, struct flux **f_p);

/* The attributes in use. */
void flux_get_attr(const struct flux *f, struct flux_attr *attr_p);

/* Frees everything. Calls that are pending are forgotten. f may be NULL. */
void flux_destroy(struct flux *f);

/* The node with this index, valid until flux_destroy(); NULL if index >= nodes. */
struct flux_node *flux_node(struct flux *f, uint32_t index);

/*
 * Calls node `to`, which may be the node itself. Copies len bytes of payload; token comes
 * back with the response. When the peer gets it: see Visibility.
 * 0; -EAGAIN: max_inflight calls to that node are outstanding: poll and try again;
 * -EPIPE: that node, or this one, has left: do not try again; -EINVAL: no such node;
 * -EMSGSIZE: len > payload_size. On an error nothing has changed and no response will come.
 */
static inline int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token);

/*
 * Handles up to eight responses, oldest first for each peer; goes round the peers that owe
 * responses; ends all calls to a peer that has left; publishes first (see Visibility). Returns
 * how many calls have ended, 0: nothing yet. Polling costs time for each peer that owes a response, not for
 * each node. If calls follow from responses, make them in the response function: the peer
 * then works at the same time, and not in turns with this node.
 */
static inline int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg);

/*
 * Takes the next call to this node: 1, or 0 if there is none. Copies what was sent to payload, at
 * most capacity bytes (what payload has behind them is unspecified); sets *from_p to the
 * caller's index, *flux_token_p to what flux_reply() needs, and *len_p, which may be NULL, to the
 * bytes that were sent: more than capacity when the rest is lost. Calls of one peer come in the
 * order in which they were made; peers take turns, 32 calls at most at a time. The node owes
 * the caller one flux_reply(), whenever it likes.
 */
static inline int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p,
	uint64_t *flux_token_p, void *payload, uint32_t capacity, uint32_t *len_p);

/*
 * Answers a call, in any order and at any time; there is always room. Copies len bytes.
 * 0; -EPIPE: the caller, or this node, has left: the call counts as answered;
 * -EINVAL: not a call that this node received and has not answered yet; -EMSGSIZE: len >
 * reply_size: nothing has changed.
 */
static inline int flux_reply(struct flux_node *node, uint64_t flux_token, const void *payload,
	uint32_t len);

/* Calls of this node that have not ended yet. */
static inline uint32_t flux_pending(const struct flux_node *node);

/*
 * Publishes, and wakes those peers that sleep and that this node has called or answered since
 * its last flush. One full memory barrier for the whole burst, nothing if there was no burst.
 */
static inline void flux_flush(struct flux_node *node);

/*
 * Waits until flux_poll() or flux_try_recv_raw() has something to do, at most timeout_ns
 * nanoseconds (FLUX_FOREVER: no limit): spins about a microsecond, yields the core about a
 * hundred, then sleeps. 1: there is something; 0: time is up, or a signal came while it
 * slept. With timeout_ns 0 it only looks.
 */
int flux_wait(struct flux_node *node, uint64_t timeout_ns);

/*
 * The descriptor that becomes readable when an armed node has something to do. Made at the first
 * call; the node's, until flux_destroy(). Not negative; -EMFILE, -ENFILE, -ENOMEM.
 */
int flux_fd(struct flux_node *node);

/*
 * Arms the descriptor: publishes, wakes peers, empties the descriptor, and looks once more.
 * 0: sleep; 1: do not sleep, flux_poll() or flux_try_recv_raw() has something to do; -EBADF:
 * there is no descriptor.
 */
int flux_arm(struct flux_node *node);

/*
 * Takes the node out of the network, for good. From then on calls and replies to it give
 * -EPIPE; calls to it that it has not answered end at their caller's next flux_poll()s with
 * payload NULL, after the responses that it did send; calls that it has made can still
 * be received by its peers, who get -EPIPE when they answer. Its own pending calls end with
 * payload NULL, or with the response if that is already there, as its thread goes on to
 * call flux_poll(); flux_pending() says how many are left. A second flux_leave() does
 * nothing. A thread that ends without it leaves its peers waiting.
 */
void flux_leave(struct flux_node *node);

/* Writes the node's counters to *stats_p. */
void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p);

#include "flux_inline.h"

#ifdef __cplusplus
}
#endif

#endif
