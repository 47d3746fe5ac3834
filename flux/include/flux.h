/* SPDX-License-Identifier: MIT */
/*
 * flux: remote procedure calls between the threads of one process, from each to each.
 *
 * A flux is a network of N nodes; each node belongs to one thread. A node calls any other
 * node, receives the calls of the others, answers them at any time and in any order, and gets
 * the responses to its own calls, each with the token that it gave. No lock is taken, and no
 * memory is allocated after flux_create(). In bursts, a call of 32 bytes and its response of 16
 * together take one cache line; alone, they take one cache line each.
 *
 *	struct flux_attr attr = { .nodes = 2, .payload_size = 32 };
 *	struct flux *f;
 *	if (flux_create(&attr, &f) < 0) ...
 *
 *	struct flux_node *a = flux_get_node(f, 0);          // thread A
 *	flux_call(a, 1, &question, sizeof(question), 7);
 *	while (!flux_poll(a, on_response, NULL))        // on_response(NULL, 7, &answer, len)
 *		flux_wait(a, FLUX_FOREVER);
 *
 *	struct flux_node *b = flux_get_node(f, 1);          // thread B
 *	if (flux_try_recv_raw(b, &from, &call, &question, sizeof(question), &len) == 1)
 *		flux_reply(b, call, &answer, sizeof(answer));
 *
 * Threads: flux_create(), flux_get_node() and flux_destroy() may be called by any thread, and
 * flux_destroy() only when no thread uses a node any more. Every other function takes a node
 * and may be called only by the thread that the node belongs to. Handing a node to another
 * thread needs the ordering of, for example, pthread_create() or a mutex.
 *
 * The network has one maximum size for calls and one for answers. A sender may give fewer bytes,
 * and the receiver is told how many. If the length and the capacity are compile-time constants,
 * the copy is inlined.
 *
 * Visibility: if a node has fewer than eight calls in flight to a peer (now, and at its last
 * flux_poll() that followed a call), each call is published at once, and so is each answer to
 * them. With more calls in flight, up to eight calls to a peer, or answers to it, are published
 * together. A call is published at the latest by this node's next flux_poll(), at its start or
 * before it returns. An answer is published at the latest by the next flux_poll() that finds no
 * call to answer, or that follows another flux_poll() without an answer in between. Both are
 * published by this node's next flux_wait() or flux_flush(), by a call or an answer to another
 * node, by a call that is refused with -EAGAIN, and by a flux_try_recv_raw() that returns 0 or
 * turns to the next peer.
 *
 * A peer that sleeps in flux_wait() is woken by flux_flush(), by a flux_wait() before it yields
 * or returns 0, after eight polls and receives that found nothing, and otherwise after
 * sixty-four bursts and polls together. So a thread calls flux_flush() after a call or a reply
 * before it turns to other work.
 *
 * Descriptors: a thread that waits for other things as well sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { flux_fd(b), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = flux_arm(b)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(b) > 0)			flux_try_recv_raw(), flux_reply(), flux_poll()
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: nobody but the library reads, writes or closes it. A node
 * is armed until the next function call with it, so flux_arm() comes last. A thread that arms
 * several nodes uses timeout 0 if any flux_arm() returned 1. A woken node
 * polls and receives as usual; its descriptor stays readable until it is armed again. Spurious
 * wake-ups are possible. A peer that leaves wakes the node, too, so no timeout is needed.
 *
 * Leaving: see flux_leave(). A call to a node that has left, or that leaves before it has
 * answered, ends exactly once: flux_call() returns -EPIPE, or the response function is called
 * with payload NULL.
 *
 * Errors are returned as negative errno values; nothing sets errno.
 */
#ifndef FLUX_H
#define FLUX_H

#include <stddef.h>
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

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines it: libflux exports the same functions, for programs in other languages.
 */
#ifndef FLUX_INLINE
#define FLUX_INLINE static inline __attribute__((always_inline))
#endif

struct flux_attr {
	/*
	 * sizeof(struct flux_attr), or 0 for the fields up to reserved, which every version has. A
	 * later version adds fields behind them.
	 */
	size_t size;
	uint32_t nodes; /* 1 to FLUX_MAX_NODES; no default */
	/*
	 * Messages in each of the two rings of an ordered pair of nodes, above max_inflight
	 * and at most FLUX_MAX_CAPACITY. 0: four times max_inflight, at least 64, so 1024 if
	 * that is not given either. A burst has cache lines of its own, so a ring is made longer
	 * where max_inflight calls that travel alone would not fit. A page of a ring takes memory
	 * once it has been used.
	 */
	uint32_t capacity;
	/*
	 * Calls that a node may have outstanding to one other node. 0: 256, or capacity - 1
	 * if that is less. Give no more than you need: short rings stay in the first-level cache,
	 * and a call that travels alone takes a fifth less time with 64 slots than with 1024.
	 */
	uint32_t max_inflight;
	/* Bytes in a call, at most FLUX_MAX_PAYLOAD. 0: 56, a cache line with the head. */
	uint32_t payload_size;
	/* Bytes in an answer, at most FLUX_MAX_PAYLOAD. 0: as many as in a call. */
	uint32_t reply_size;
	uint32_t reserved; /* 0 */
};

/* Counters of a node since flux_create(). */
struct flux_stats {
	uint64_t calls; /* made by this node */
	uint64_t responses; /* received, to these calls */
	uint64_t requests; /* received by this node */
	uint64_t replies; /* sent, to these requests */
	uint64_t aborted; /* calls that ended because the peer, or the node itself, left */
	uint64_t flushes; /* times it looked for peers to wake, with one full memory barrier */
	uint64_t wakes; /* sleeping peers woken */
	uint64_t sleeps; /* times this node slept in the kernel, or was armed */
	uint64_t yields; /* times this node gave its core to a waiting peer while busy */
};

/*
 * Handles one response. payload points at the len bytes that were sent, inside the ring, aligned
 * to 8, valid until the function returns; NULL means that the call was not answered because
 * the peer, or this node, has left (see flux_leave()). The function may call flux_call() and
 * flux_reply() on the same node, but not flux_poll().
 */
typedef void flux_response_fn(void *arg, uint64_t token, const void *payload, uint32_t len);

/*
 * Creates a network. attr is read during the call only. *f_p belongs to the caller, who
 * frees it with flux_destroy().
 * 0; -EINVAL: a value of attr is outside its range, or max_inflight >= capacity;
 * -E2BIG: attr has fields that this version does not know, and they are not 0;
 * -ENOMEM: the rings do not fit into memory or address space: take fewer nodes or a
 * smaller capacity.
 */
int flux_create(const struct flux_attr *attr, struct flux **f_p);

/* Writes the attributes in use to *attr_p, which has size bytes. */
void flux_get_attr(const struct flux *f, struct flux_attr *attr_p, size_t size);

/* Frees everything. Pending calls end without a response. f may be NULL. */
void flux_destroy(struct flux *f);

/* The node with this index, valid until flux_destroy(); NULL if index >= nodes. */
struct flux_node *flux_get_node(struct flux *f, uint32_t index);

/*
 * Calls node `to`, which may be the node itself. Copies len bytes of payload; token comes
 * back with the response. See Visibility for when the peer receives the call.
 * 0; -EAGAIN: max_inflight calls to that node are outstanding: poll and try again;
 * -EPIPE: that node, or this one, has left: do not try again; -EINVAL: no such node;
 * -EMSGSIZE: len > payload_size. On an error nothing has changed and no response will come.
 */
FLUX_INLINE int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token);

/*
 * Publishes (see Visibility), then handles up to eight responses: the peers that owe responses
 * take turns, and those of one peer are handled oldest first. Ends all calls to a peer that has
 * left. Returns how many calls have ended, 0: nothing yet. Polling costs time for each peer that
 * owes a response, not for each node. If a response leads to another call, make that call in the
 * response function: the peer then works at the same time as this node, and not in turns with it.
 */
FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg);

/*
 * Takes the next call to this node: 1, or 0 if there is none. Copies what was sent to payload, at
 * most capacity bytes (what payload has behind them is unspecified); sets *from_p to the
 * caller's index, *flux_token_p to what flux_reply() needs, and *len_p, which may be NULL, to the
 * bytes that were sent. If that is more than capacity, the rest is lost. Calls of one peer come in
 * the order in which they were made; peers take turns of at most 32 calls. The node owes the
 * caller one flux_reply(), at any time.
 */
FLUX_INLINE int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p, uint64_t *flux_token_p,
	void *payload, uint32_t capacity, uint32_t *len_p);

/*
 * Answers a call, in any order and at any time. There is always room. Copies len bytes.
 * 0; -EPIPE: the caller, or this node, has left: the call counts as answered;
 * -EINVAL: not a call that this node received and has not answered yet; -EMSGSIZE: len >
 * reply_size: nothing has changed.
 */
FLUX_INLINE int flux_reply(struct flux_node *node, uint64_t flux_token, const void *payload,
	uint32_t len);

/* Calls of this node that have not ended yet. */
FLUX_INLINE uint32_t flux_pending(const struct flux_node *node);

/*
 * Publishes, and wakes those peers that sleep and that this node has called or answered since
 * its last flush. Takes one full memory barrier for all of them, and none if nothing was
 * published since the last flush.
 */
FLUX_INLINE void flux_flush(struct flux_node *node);

/*
 * Waits until flux_poll() or flux_try_recv_raw() has something to do, at most timeout_ns
 * nanoseconds (FLUX_FOREVER: no limit). Spins for about a microsecond, yields the core for about
 * a hundred microseconds, then sleeps. 1: there is something; 0: the time is over, or a signal
 * interrupted the sleep. With timeout_ns 0 it only checks.
 */
int flux_wait(struct flux_node *node, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed node has something to do. The first
 * call opens it; it belongs to the node until flux_destroy(). Errors: -EMFILE, -ENFILE, -ENOMEM.
 */
int flux_fd(struct flux_node *node);

/*
 * Arms the descriptor: publishes, wakes peers, empties the descriptor, and checks once more.
 * 0: the caller may sleep; 1: it must not, because flux_poll() or flux_try_recv_raw() has
 * something to do; -EBADF: there is no descriptor, do not wait for it.
 */
int flux_arm(struct flux_node *node);

/*
 * Takes the node out of the network, permanently. From then on calls and replies to it return
 * -EPIPE, except that a peer that was collecting a burst for it may still add to that burst: at
 * most eight return 0. Calls to it that it has not answered, these included, end with payload NULL
 * in their caller's next flux_poll()s, after the responses that it did send. Its peers can still
 * receive the calls that it has made, and get -EPIPE when they answer. Its own pending calls end
 * with payload NULL, or with the response if that is already there, when its thread calls
 * flux_poll() again; flux_pending() says how many are left. A second flux_leave() does nothing. If
 * a thread ends without flux_leave(), its peers wait for ever.
 */
void flux_leave(struct flux_node *node);

/* Writes the node's counters to *stats_p, which has size bytes. */
void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p, size_t size);

#include "flux_inline.h"

#ifdef __cplusplus
}
#endif

#endif
