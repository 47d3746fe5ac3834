/* SPDX-License-Identifier: MIT */
/*
 * flux: remote procedure calls between all threads of one process.
 *
 * A flux is a network of N nodes; each node belongs to one thread. A node calls any other node,
 * receives the calls of the others, answers them at any time and in any order, and gets the
 * responses to its own calls, each with the token of its call. Calls, answers and waits take no
 * lock and allocate no memory. A call of 32 bytes and its response of 16 together take one cache
 * line if they are published in bursts, or one each if they are published alone.
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
 * Threads: any thread may call flux_create(), flux_get_attr(), flux_get_node() and flux_destroy(),
 * the last one only when no thread uses a node any more. Every other function takes a node and may
 * be called only by the thread that the node belongs to. Handing a node to another thread needs the
 * ordering of, for example, pthread_create() or a mutex.
 *
 * The network has one maximum size for calls and one for answers. A message may be shorter, and the
 * receiver learns its length. If the length of a message that is sent, or the size of the buffer
 * that receives a call, is a compile-time constant, the copy is inlined.
 *
 * Visibility: a node may collect up to eight calls or answers to a peer and publish them together.
 * It collects for each peer separately. It publishes a collected message at the latest in the first
 * of these:
 *	- a flux_wait(), flux_arm(), flux_flush(), flux_serve() or flux_leave(), or a call that is
 *	  refused with -EAGAIN
 *	- a flux_try_recv_raw() that returns 0; when flux_try_recv_raw() turns to the next peer, it
 *	  publishes the answers to the previous peer
 *	- a flux_poll(). Exception: if the node has answered since the previous poll, a poll may
 *	  leave the answers to one peer collected. This is the peer whose call the node received
 *	  last, if more calls of that peer have arrived
 *	- the 512th call or answer, to any nodes, that the node makes after this message
 * Calls to a peer are collected if at least eight are in flight, or were at the node's last
 * flux_poll() (a poll without a new call to that peer since the previous poll does not count). A
 * node that makes many calls between two polls collects calls in any case. Many means at least
 * sixteen, and on average at least two per called node, in one of the last two intervals between
 * polls in which it made calls. All other calls are published immediately. Answers to a peer are
 * collected only if that peer collects its calls. With a payload_size of more than 120 no calls are
 * collected, and with such a reply_size no answers.
 *
 * Waking: a node checks whether the peers that it has called or answered sleep, and wakes them:
 *	- in flux_flush(), flux_arm(), flux_leave(), and a flux_serve() that served calls
 *	- in flux_wait(), before the thread yields its core or the function returns 0
 *	- after a total of eight polls and receives that found nothing since the last burst
 *	- after a total of sixty-four bursts and successful polls since the last check
 * The node tests these two totals only in a flux_poll(), a flux_wait(), and a receive that finds
 * nothing or begins the turn of a peer. So calls, posts and answers alone wake no peer. After a
 * call or a reply, a thread must call flux_flush() before it does other work.
 *
 * Descriptors: a thread that also waits for other events sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { flux_fd(b), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = flux_arm(b)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(b) > 0)    // receives, replies and polls
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: the caller must not read, write or close it. A node is armed
 * until the next function call with that node, so flux_arm() must be the last call before poll(2).
 * A thread may arm several nodes; if flux_arm() returned 1 for any of them, the timeout must be 0.
 * After a wake-up, the node polls and receives as usual; its descriptor stays readable until the
 * node is armed again. Spurious wake-ups are possible. A peer that leaves wakes the node, too, so
 * no timeout is needed to notice that.
 *
 * Posts: with flux_post() a node sends a message that has no response and no token. Calls and posts
 * to a node are received in the order in which they were made. A post is consumed when
 * flux_try_recv_raw() has copied it, or when the function that flux_serve() calls has returned.
 * Until the sender knows that a post was consumed, the post is in flight and counts against
 * max_inflight as a call does. The receiver publishes its count of consumed posts after the last of
 * successive posts in a burst. The sender reads the count when it has no room left, when it waits
 * for room, and in flux_posts(). In the rules of Visibility and Waking, a post counts as a call.
 *
 * Leaving: see flux_leave(). If a node leaves before it has answered a call, that call ends exactly
 * once: either flux_call() returns -EPIPE, or the response function is called with payload NULL.
 *
 * Errors are returned as negative errno values, not in errno.
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
	 * sizeof(struct flux_attr). 0 means that the struct ends with the member `reserved`. Every
	 * version has the members up to `reserved`; later versions add members after it.
	 */
	size_t size;
	uint32_t nodes; /* 1 to FLUX_MAX_NODES; no default */
	/*
	 * Messages in a ring: more than max_inflight, at most FLUX_MAX_CAPACITY. An ordered pair of
	 * nodes has two rings: one for the calls of the first node to the second, one for the
	 * answers. 0: four times max_inflight, but at least 64; 1024 if max_inflight is 0, too. A
	 * burst has its own cache lines, so a ring is made longer if max_inflight bursts of one
	 * call would not fit. A page of a ring takes no memory before it is used.
	 */
	uint32_t capacity;
	/*
	 * Calls and posts that a node may have outstanding to one other node. 0: 256, or capacity
	 * minus 1 if that is less. Do not choose more than you need: short rings stay in the
	 * first-level cache. A call in a burst of one takes a fifth less time with a ring of 64
	 * messages than with one of 1024.
	 */
	uint32_t max_inflight;
	/*
	 * Maximum bytes of a call, at most FLUX_MAX_PAYLOAD. 0: 56, which fill a cache line
	 * together with the 8 bytes that precede each message.
	 */
	uint32_t payload_size;
	/* Maximum bytes of an answer, at most FLUX_MAX_PAYLOAD. 0: payload_size. */
	uint32_t reply_size;
	uint32_t reserved; /* must be 0 */
};

/* Counters of a node since flux_create(). */
struct flux_stats {
	uint64_t calls; /* made by this node */
	uint64_t responses; /* received, to these calls */
	uint64_t requests; /* calls received by this node */
	uint64_t replies; /* sent, to these requests */
	uint64_t aborted; /* calls that ended because the peer, or the node itself, left */
	uint64_t flushes; /* checks for sleeping peers, with one full memory barrier each */
	uint64_t wakes; /* sleeping peers woken */
	uint64_t sleeps; /* times that this node slept in the kernel, or was armed */
	uint64_t yields; /* times that this node yielded its core to a waiting peer while busy */
	uint64_t bursts; /* published bursts; (calls + posts + replies) / bursts is the mean size */
	uint64_t posts; /* made by this node */
	uint64_t received_posts; /* posts received by this node */
};

/*
 * Handles one response. payload points into the ring, at the len bytes that were sent; it is
 * aligned to 8, and valid until the function returns. payload is NULL if the call was not answered
 * because the peer, or this node, has left (see flux_leave()). The function may call flux_call(),
 * flux_post() and flux_reply() on the same node, but must not call flux_poll().
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
 *	-EAGAIN		as many calls and posts to that node are outstanding as max_inflight
 *			permits: poll and try again
 *	-EPIPE		that node, or this one, has left: do not try again
 *	-EINVAL		no such node
 *	-EMSGSIZE	len > payload_size
 */
FLUX_INLINE int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token);

/*
 * Sends a message without a response: len bytes of payload to node `to`, like a call. Returns 0,
 * or, with nothing changed, an error of flux_call(). If flux_post() or flux_call() returns -EAGAIN
 * while posts to that node are in flight, this node wants room there: once that node has consumed
 * some of these posts or has left, one flux_wait() or flux_arm() returns 1, or the armed descriptor
 * becomes readable. Then try again. A node that leaves loses the posts that it has not received.
 */
int flux_post(struct flux_node *node, uint32_t to, const void *payload, uint32_t len);

/*
 * Returns the number of posts in flight to node `to`, 0 if that node has left or does not exist. If
 * the number is not 0, this node then wants room there, as after -EAGAIN of flux_post(). To wait
 * until all are consumed:
 *
 *	while (flux_posts(node, to) && flux_wait(node, FLUX_FOREVER))
 *		...             // poll and receive
 */
uint32_t flux_posts(struct flux_node *node, uint32_t to);

/*
 * Handles responses: publishes (see Visibility), then calls fn for responses that have arrived, at
 * most eight if one peer owes responses, or 32 of each peer if several do. Responses of one peer
 * are handled oldest first. Ends all calls to a peer that has left. Returns how many calls have
 * ended, or 0 if none has. Polling costs time for each peer that owes a response, not for each
 * node. If a response leads to another call, make that call in the response function: otherwise the
 * peer and this node work alternately, not at the same time.
 */
FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg);

/*
 * Takes the next call or post to this node. Returns 1, or 0 if none has arrived. Copies at most
 * capacity bytes of the message to payload; if the message is shorter, the contents of the other
 * bytes of payload are unspecified. Sets *from_p to the sender's index, *flux_token_p to the token
 * for flux_reply() or to FLUX_POST, and *len_p to the number of bytes that were sent (len_p may be
 * NULL). If that number exceeds capacity, the rest of the message is lost. Messages of one peer
 * come in the order in which they were sent; peers take turns of at most 32 messages. The node must
 * answer each call with one flux_reply(), at any time; a post gets none.
 */
FLUX_INLINE int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p, uint64_t *flux_token_p,
	void *payload, uint32_t capacity, uint32_t *len_p);

struct flux_req {
	uint64_t token; /* for flux_reply(), or FLUX_POST */
	uint32_t from; /* the sender's index */
	uint32_t len; /* bytes of the message */
};

/*
 * Handles a call or a post. payload points into the ring, at the req->len bytes that were sent; it
 * is aligned to 8, and valid until the call is answered or the function returns, whichever is
 * first. The function answers with flux_reply(), or keeps a copy of *req and answers later; a post
 * gets no answer. The function may also call flux_call() and flux_post(), but must not poll,
 * receive, serve, wait or leave.
 */
typedef void flux_serve_fn(void *arg, const struct flux_req *req, const void *payload);

/*
 * Calls fn(arg, ...) for each call and post that has arrived, at most max times, then publishes the
 * answers and wakes their callers. Returns how often it called fn. A node that also makes calls:
 *
 *	for (;;)
 *		if (!flux_serve(node, fn, arg, 256) && !flux_poll(node, on_response, arg))
 *			flux_wait(node, FLUX_FOREVER);
 */
FLUX_INLINE int flux_serve(struct flux_node *node, flux_serve_fn *fn, void *arg, uint32_t max);

/*
 * Answers a call. Calls may be answered in any order and at any time; the ring always has room.
 * Copies len bytes of payload. Returns 0, or
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
 * Waits until flux_poll(), flux_try_recv_raw() or flux_left() has something to do, or a post that
 * was refused may be retried (see flux_post()); at most timeout_ns nanoseconds (FLUX_FOREVER: no
 * limit). Publishes first; see Waking for when it wakes peers. Spins for about a microsecond,
 * yields the core for about a hundred microseconds, then sleeps. Returns 1 if there is something to
 * do, 0 if the time has passed or a signal interrupted the sleep. With timeout_ns 0 the function
 * does not wait.
 */
int flux_wait(struct flux_node *node, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed node has something to do. The first
 * call opens the descriptor, which belongs to the node until flux_destroy(). Errors: -EMFILE,
 * -ENFILE, -ENOMEM.
 */
int flux_fd(struct flux_node *node);

/*
 * Arms the descriptor: publishes, wakes peers, empties the descriptor, and checks once more.
 * Returns 0 if the caller may sleep, 1 if it must not because flux_wait() would return 1, or
 *	-EBADF		flux_fd() has not opened the descriptor
 *
 * A thread must call this function each time before it sleeps in poll(2), because peers make the
 * descriptor readable only while the node is armed. A node with no call in flight gets no response
 * that wakes it, so a loop that ends after the last response must check flux_pending() before it
 * arms the node.
 */
int flux_arm(struct flux_node *node);

/*
 * Takes the node out of the network, permanently:
 *	- From then on, calls and replies to the node return -EPIPE. But a peer that was collecting
 *	  a burst for the node may complete that burst: up to eight calls of that peer, and up to
 *	  eight of its replies, still return 0.
 *	- Calls that the node has not answered end with payload NULL in their caller's next
 *	  flux_poll()s, after the responses that the node did send. The calls that still returned 0
 *	  after the node had left end like this, too.
 *	- Its peers can still receive the calls that the node has made, and get -EPIPE when they
 *	  answer.
 *	- The node's own pending calls end with payload NULL, or with the response if that has
 *	  already arrived, when its thread calls flux_poll() again; flux_pending() returns how many
 *	  have not ended.
 * A second flux_leave() does nothing. If a thread ends without flux_leave(), its peers wait for
 * ever.
 */
void flux_leave(struct flux_node *node);

/*
 * Reports each other node that has left, once. Returns 1 and the index of a node in *peer_p, or 0
 * if there is no node to report now. A node is reported when nothing more will come from it: its
 * calls have been received, and the calls to it have ended. So the caller can then free the data
 * that it keeps for that node. From the first call of this function on, flux_wait() and flux_arm()
 * also return 1 while a node that has left has not been reported yet.
 */
int flux_left(struct flux_node *node, uint32_t *peer_p);

/* Copies at most size bytes of the node's counters to *stats_p. */
void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p, size_t size);

#include "flux_inline.h"

#ifdef __cplusplus
}
#endif

#endif
