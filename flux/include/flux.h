/* SPDX-License-Identifier: MIT */
/*
 * flux: remote procedure calls between all threads of one process.
 *
 * A flux is a network of N nodes; each node belongs to one thread. A node calls any other
 * node, receives the calls of the others, answers them at any time and in any order, and gets
 * the responses to its own calls, each with the token of its call. No lock is taken, and no
 * memory is allocated after flux_create(). In bursts, a call of 32 bytes and its response of 16
 * together take one cache line; published alone, each takes one.
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
 * The network has one maximum size for calls and one for answers. A message may be shorter, and the
 * receiver learns its length. If the length and the capacity are compile-time constants, the copy
 * is inlined.
 *
 * Visibility: a node may collect up to eight calls to a peer, or answers to it, and publish them
 * together. It collects for each peer separately. It publishes all collected messages at the latest
 * in the first of these:
 *	- a flux_wait(), flux_arm(), flux_flush() or flux_leave(), or a call that is refused with
 *	  -EAGAIN
 *	- a flux_try_recv_raw() that returns 0; one that turns to the next peer publishes only the
 *	  answers to the previous peer
 *	- a flux_poll(), at its start or before it returns; but while the node has more calls to
 *	  answer of the peer whose turn it is, the answers to that peer stay collected until a
 *	  flux_poll() that comes after another one with no answer in between
 *	- the 512th call or answer, to any nodes, after a message was collected
 * Nothing is collected for a peer if fewer than eight calls to it are in flight now, and fewer than
 * eight were in flight at the node's last flux_poll() that came after a call. The exception is a
 * node that makes many calls between two polls, which means at least sixteen, and at least two for
 * each node that it calls. It suffices if it did so in one of the last two intervals between polls
 * in which it made calls.
 *
 * A node wakes sleeping peers in its flux_flush(), in its flux_wait() before it yields or returns
 * 0, after eight polls and receives that found nothing, and otherwise after a total of sixty-four
 * bursts and polls. After a call or a reply, a thread must call flux_flush() before it does other
 * work.
 *
 * Descriptors: a thread that also waits for other events sleeps in poll(2) or epoll(7):
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
 * The descriptor is for POLLIN only: the caller must not read, write or close it. A node is armed
 * until the next function call with it, so flux_arm() must be the last call before poll(2). If any
 * of several calls to flux_arm() returned 1, the timeout must be 0. After a wake-up, the node polls
 * and receives as usual; its descriptor stays readable until the node is armed again. Spurious
 * wake-ups are possible. A peer that leaves wakes the node, too, so no timeout is needed.
 *
 * Posts: flux_post() sends a message that has no response and no token. Calls and posts to a node
 * are received in the order in which they were made. A post is in flight, and counts against
 * max_inflight as a call does, until the sender knows that it was consumed: flux_try_recv_raw() has
 * copied it, or the function of flux_serve() has returned. The receiver publishes its count of
 * consumed posts after the last of successive posts in a burst, and the sender reads the count when
 * it has no room left. In the rules of Visibility and waking, a post counts as a call.
 *
 * Leaving: see flux_leave(). If a node leaves before it has answered a call, that call ends exactly
 * once: flux_call() returns -EPIPE, or the response function is called with payload NULL.
 *
 * Errors are returned as negative errno values; errno itself is not set.
 */
#ifndef FLUX_H
#define FLUX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLUX_FOREVER UINT64_MAX /* a timeout: wait without limit */
#define FLUX_MAX_NODES 256u
#define FLUX_MAX_CAPACITY (1u << 20)
#define FLUX_MAX_PAYLOAD (1u << 16)
#define FLUX_POST UINT64_MAX /* the token of a received message that is a post */

struct flux;
struct flux_node;

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines this macro, as empty, so that libflux exports the same functions for programs in other
 * languages.
 */
#ifndef FLUX_INLINE
#define FLUX_INLINE static inline __attribute__((always_inline))
#endif

struct flux_attr {
	/*
	 * sizeof(struct flux_attr). 0 means that the struct ends with the member `reserved`: every
	 * version has the members up to it, and later versions add members after it.
	 */
	size_t size;
	uint32_t nodes; /* 1 to FLUX_MAX_NODES; no default */
	/*
	 * Messages in each of the two rings of an ordered pair of nodes: more than max_inflight, at
	 * most FLUX_MAX_CAPACITY. 0: four times max_inflight, but at least 64; 1024 if max_inflight
	 * is 0, too. A burst has its own cache lines, so a ring is made longer if max_inflight
	 * bursts of one call would not fit. A page of a ring takes no memory before it is used.
	 */
	uint32_t capacity;
	/*
	 * Calls and posts that a node may have outstanding to one other node. 0: 256, or capacity - 1
	 * if that is less. Do not choose more than you need: short rings stay in the first-level
	 * cache, and a call in a burst of one takes a fifth less time with 64 slots than with 1024.
	 */
	uint32_t max_inflight;
	/*
	 * Bytes in a call, at most FLUX_MAX_PAYLOAD. 0: 56, which with the head fill a cache line.
	 */
	uint32_t payload_size;
	/* Bytes in an answer, at most FLUX_MAX_PAYLOAD. 0: as many as in a call. */
	uint32_t reply_size;
	uint32_t reserved; /* must be 0 */
};

/* Counters of a node since flux_create(). */
struct flux_stats {
	uint64_t calls; /* made by this node */
	uint64_t responses; /* received, to these calls */
	uint64_t requests; /* received by this node */
	uint64_t replies; /* sent, to these requests */
	uint64_t aborted; /* calls that ended because the peer, or the node itself, left */
	uint64_t flushes; /* checks for peers to wake, with one full memory barrier each */
	uint64_t wakes; /* sleeping peers woken */
	uint64_t sleeps; /* times that this node slept in the kernel, or was armed */
	uint64_t yields; /* times that this node yielded its core to a waiting peer while busy */
	uint64_t bursts; /* published bursts; (calls + posts + replies) / bursts is the mean size */
	uint64_t posts; /* made by this node */
	uint64_t received_posts; /* posts received by this node */
};

/*
 * Handles one response. payload points at the len bytes that were sent, inside the ring, aligned
 * to 8, valid until the function returns. payload is NULL if the call was not answered because the
 * peer, or this node, has left (see flux_leave()). The function may call flux_call() and
 * flux_reply() on the same node, but must not call flux_poll().
 */
typedef void flux_response_fn(void *arg, uint64_t token, const void *payload, uint32_t len);

/*
 * Creates a network. attr is read during the call only. *f_p belongs to the caller, which
 * must free it with flux_destroy(). Returns 0, or
 *	-EINVAL		a value of attr is outside its range, or max_inflight >= capacity
 *	-E2BIG		attr has fields that this version does not know, and they are not 0
 *	-ENOMEM		the rings do not fit into memory or address space: choose fewer nodes or a
 *			smaller capacity
 */
int flux_create(const struct flux_attr *attr, struct flux **f_p);

/* Writes the attributes in use to *attr_p, at most size bytes. */
void flux_get_attr(const struct flux *f, struct flux_attr *attr_p, size_t size);

/* Frees everything. Pending calls end without a response. f may be NULL. */
void flux_destroy(struct flux *f);

/* Returns the node with this index, valid until flux_destroy(), or NULL if index >= nodes. */
struct flux_node *flux_get_node(struct flux *f, uint32_t index);

/*
 * Calls another node, or the node itself: copies len bytes of payload to node `to`; token comes
 * back with the response. See Visibility for when the peer receives the call. Returns 0, or, with
 * nothing changed and no response to come,
 *	-EAGAIN		max_inflight calls and posts to that node are outstanding: poll and try
 *			again
 *	-EPIPE		that node, or this one, has left: do not try again
 *	-EINVAL		no such node
 *	-EMSGSIZE	len > payload_size
 */
FLUX_INLINE int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token);

/*
 * Sends a message without a response: len bytes of payload to node `to`, like a call. Returns 0,
 * or, with nothing changed, an error of flux_call(). After -EAGAIN with posts to that node in
 * flight, flux_wait() and flux_arm() return 1 once when the node has consumed some or has left:
 * then try again. A node that leaves loses the posts that it has not received.
 */
int flux_post(struct flux_node *node, uint32_t to, const void *payload, uint32_t len);

/*
 * Returns the number of posts in flight to node `to`, 0 if that node has left. If the number is not
 * 0, the next flux_wait() ends as after -EAGAIN. To wait until all are consumed:
 *
 *	while (flux_posts(node, to) && flux_wait(node, FLUX_FOREVER))
 *		...						poll and receive
 */
uint32_t flux_posts(struct flux_node *node, uint32_t to);

/*
 * Handles responses: publishes (see Visibility), then handles up to eight responses if one peer
 * owes responses, or up to 32 of each peer if several do. Responses of one peer are handled oldest
 * first. Ends all calls to a peer that has left. Returns how many calls have ended, or 0 if none
 * has. Polling costs time for each peer that owes a response, not for each node. If a response
 * leads to another call, make that call in the response function: otherwise the peer and this node
 * work alternately, not at the same time.
 */
FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg);

/*
 * Takes the next call to this node. Returns 1, or 0 if there is none. Copies at most capacity bytes
 * of the call to payload; the bytes of payload after them are unspecified. Sets *from_p to the
 * caller's index, *flux_token_p to the token for flux_reply(), and *len_p, which may be NULL, to
 * the number of bytes that were sent. If that is more than capacity, the rest is lost. Calls of one
 * peer come in the order in which they were made; peers take turns of at most 32 calls. The node
 * owes the caller one flux_reply(), at any time, unless the token is FLUX_POST.
 */
FLUX_INLINE int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p, uint64_t *flux_token_p,
	void *payload, uint32_t capacity, uint32_t *len_p);

struct flux_req {
	uint64_t token; /* for flux_reply(), or FLUX_POST */
	uint32_t from; /* the caller's index */
	uint32_t len; /* bytes of the call */
};

/*
 * Handles a call. payload points at the req->len bytes that were sent, inside the ring, aligned to
 * 8, valid until the call is answered or the function returns. The function answers with
 * flux_reply(), or keeps *req and answers later; a post gets no answer. It may also call
 * flux_call() and flux_post(), but must not poll, receive, serve, wait or leave.
 */
typedef void flux_serve_fn(void *arg, const struct flux_req *req, const void *payload);

/*
 * Calls fn(arg, ...) for each call that has arrived, at most max times, publishes the answers and
 * wakes their callers. Returns the number of calls. A node that also makes calls:
 *
 *	for (;;)
 *		if (!flux_serve(node, fn, arg, 256) && !flux_poll(node, on_response, arg))
 *			flux_wait(node, FLUX_FOREVER);
 */
FLUX_INLINE int flux_serve(struct flux_node *node, flux_serve_fn *fn, void *arg, uint32_t max);

/*
 * Answers a call, in any order and at any time. The ring always has room. Copies len bytes.
 * Returns 0, or
 *	-EPIPE		the caller, or this node, has left: the call counts as answered
 *	-EINVAL		the token is not that of a call that this node received and has not answered
 *			yet, or it is FLUX_POST
 *	-EMSGSIZE	len > reply_size: nothing has changed
 */
FLUX_INLINE int flux_reply(struct flux_node *node, uint64_t flux_token, const void *payload,
	uint32_t len);

/* Returns the number of this node's calls that have not ended yet. Posts are not counted. */
FLUX_INLINE uint32_t flux_pending(const struct flux_node *node);

/*
 * Publishes what the node has collected, and wakes the sleeping peers that this node has called or
 * answered since its last flush. Executes one full memory barrier for all of them, and none if
 * nothing was published since the last flush.
 */
FLUX_INLINE void flux_flush(struct flux_node *node);

/*
 * Waits until flux_poll(), flux_try_recv_raw() or flux_left() has something to do, at most
 * timeout_ns nanoseconds (FLUX_FOREVER: no limit). Spins for about a microsecond, yields the core
 * for about a hundred microseconds, then sleeps. Returns 1 if there is something to do, 0 if the
 * time has passed or a signal interrupted the sleep. With timeout_ns 0 it only checks.
 */
int flux_wait(struct flux_node *node, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed node has something to do. The first
 * call opens it; it belongs to the node until flux_destroy(). Errors: -EMFILE, -ENFILE, -ENOMEM.
 */
int flux_fd(struct flux_node *node);

/*
 * Arms the descriptor: publishes, wakes peers, empties the descriptor, and checks once more.
 * Returns 0 if the caller may sleep, 1 if it must not, because flux_poll() or flux_try_recv_raw()
 * has something to do, or -EBADF if there is no descriptor to wait for.
 *
 * A loop that polls a bounded number of times must call this function before it sleeps, because
 * peers wake only an armed node. A node without calls in flight is not woken by responses. A loop
 * that ends after the last response must therefore check flux_pending() before it arms.
 */
int flux_arm(struct flux_node *node);

/*
 * Takes the node out of the network, permanently:
 *	- From then on calls and replies to the node return -EPIPE, except that a peer that was
 *	  collecting a burst for it may still add to that burst: at most eight calls or replies
 *	  still return 0.
 *	- Calls to the node that it has not answered, these included, end with payload NULL in their
 *	  caller's next flux_poll()s, after the responses that the node did send.
 *	- Its peers can still receive the calls that the node has made, and get -EPIPE when they
 *	  answer.
 *	- The node's own pending calls end with payload NULL, or with the response if that has
 *	  already arrived, when its thread calls flux_poll() again; flux_pending() returns how many
 *	  are left.
 * A second flux_leave() does nothing. If a thread ends without flux_leave(), its peers wait for
 * ever.
 */
void flux_leave(struct flux_node *node);

/*
 * Returns 1 and the index of another node that has left and has not been returned yet, or 0 if
 * there is none now. The index of a node is returned when nothing will come from that node any
 * more: its calls have been received, and the calls to it have ended. So a thread can then free the
 * data that it keeps for the node. From the first call of this function on, flux_wait() and
 * flux_arm() also return 1 as long as the index of such a node has not been returned.
 */
int flux_left(struct flux_node *node, uint32_t *peer_p);

/* Copies at most size bytes of the node's counters to *stats_p. */
void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p, size_t size);

#include "flux_inline.h"

#ifdef __cplusplus
}
#endif

#endif
