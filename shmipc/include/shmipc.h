/* SPDX-License-Identifier: MIT */
/*
 * shmipc: small fixed-size requests and responses between processes of one machine,
 * through shared memory. One server, many clients, a pair of single-producer
 * single-consumer rings per client; a round trip moves two cache lines, in bursts fewer.
 *
 *	server					client
 *	shmipc_server_create("job7", NULL, &s);	shmipc_client_connect("job7", NULL, &c);
 *	for (;;) {				shmipc_client_call(c, &q, sizeof(q), token);
 *		shmipc_server_poll(s);		while (shmipc_client_poll(c, on_response, arg) == 0)
 *		while (shmipc_server_recv(s,		shmipc_client_wait(c, SHMIPC_FOREVER);
 *				&r, &q, sizeof(q)) > 0)
 *			shmipc_server_reply(s, r.client, r.id, &a, sizeof(a));
 *		if (nothing came)
 *			shmipc_server_wait(s, SHMIPC_FOREVER);
 *	}
 *
 * Threads: a server handle and a client handle each belong to one thread at a time;
 * different handles, of the same server too, are independent. Handles do not survive
 * fork(2) in the child, which may only destroy or disconnect them.
 *
 * Visibility: who keeps fewer than eight calls in flight (now, and at its last poll that
 * followed a call) has each published at once, and each reply. With more, up to eight calls, or
 * replies to one client, are published together. The last call goes at the latest at the
 * client's next poll (or when that returns), flush or wait, or at a call that is refused with
 * -EAGAIN; the last reply at the server's next flush, reply to another client, recv that gives
 * 0, destroy, or poll or wait that finds no request or follows another one without a reply
 * between. A peer
 * that sleeps in a wait function is woken by flush, by a wait before it yields or returns
 * in vain, after eight polls in vain, and otherwise after sixty-four bursts and polls together,
 * so that many messages pay for one memory fence. So who turns to something else after a
 * call or a reply calls flush first. No sleep lasts longer than 100 ms, woken or not.
 *
 * Exactly once: a call ends in one callback, unless the server dies or closes; then poll
 * says -EPIPE, and shmipc_client_abort() hands the open tokens back. It comes within a
 * second to a client that waits or polls twenty times in it, and to one that polls evenly,
 * however seldom, at its first or second poll.
 *
 * Descriptors: who waits for other things as well sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { shmipc_server_fd(s), POLLIN }, { pipe, POLLIN } };
 *	for (;;) {
 *		while (serve(s) > 0)			poll, recv, reply
 *			;
 *		poll(p, 2, shmipc_server_arm(s) ? 0 : -1);
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: nobody but the library reads, writes or closes it. A
 * handle is armed until the next call with it, which is why shmipc_server_arm() comes last;
 * with several, timeout 0 if any arm returned something else than 0. A woken handle is polled
 * as usual; it stays readable until it is armed again. Wake-ups without a reason are possible.
 * Who has a descriptor and who has none wake each other all the same. It works between
 * processes of one network namespace: connect and shmipc_server_fd() give -ENETUNREACH where
 * a client could not wake a server that sleeps so. An armed client with calls pending becomes
 * readable every 100 ms, so that its poll finds a dead server; a server has no need of that.
 * Requests of a client that dies between publishing and waking, or whose waking somebody has
 * spoilt who writes in the region, wait for the next wake-up: give poll(2) a timeout
 * against that.
 *
 * Trust: the region is mode 0600, and another user cannot open it; or 0660, and the members of
 * a group that the server names can. Whoever can map it can
 * spoil what is in it (requests, responses and extra buffers of every client), can keep
 * the server busy with connects that are none, and can shorten the file, which ends its
 * users by SIGBUS. Nothing in it makes the server access memory outside of it or wait
 * for a client: rings are walked by private cursors.
 *
 * Lengths are in bytes, times in nanoseconds. Functions return 0, a count, or -errno.
 */
#ifndef SHMIPC_H
#define SHMIPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmipc_server;
struct shmipc_client;

#define SHMIPC_SET_GID 1u /* in attributes: gid is given, 0 being a group */
#define SHMIPC_MAX_NAME 194u
#define SHMIPC_MAX_CLIENTS 4095u
#define SHMIPC_MAX_DEPTH (1u << 16)
#define SHMIPC_MAX_PAYLOAD (1u << 20)
#define SHMIPC_FOREVER UINT64_MAX
#define SHMIPC_POLL_MAX 8 /* responses that one client poll hands over */

/* The place of a client, 0 .. max_clients - 1, in the handle that a request carries. */
#define SHMIPC_CLIENT_INDEX(client) ((client)&4095u)

/* What a region is made of. Zero means the default in brackets. */
struct shmipc_attr {
	uint32_t max_clients; /* [64] at most SHMIPC_MAX_CLIENTS */
	uint32_t depth; /* [64] calls in flight per client, at most SHMIPC_MAX_DEPTH */
	uint32_t req_size; /* [56] bytes of a request, at most SHMIPC_MAX_PAYLOAD */
	uint32_t resp_size; /* [56] bytes of a response, likewise */
	uint32_t extra_size; /* [0] bytes of the buffer that a client shares with the server */
	/*
	 * Who may connect: 0600 (what 0 means), the server's user; 0660, the members
	 * of the region's group too, which is gid if set has SHMIPC_SET_GID, otherwise that of
	 * the server's process. At a connect: what the region must be. Another user's region is
	 * refused unless mode is 0660 here too, and the client is a member of its group.
	 */
	uint32_t mode;
	uint32_t gid;
	uint32_t set; /* SHMIPC_SET_* */
};

/* A request that the server has taken out of its ring. */
struct shmipc_req {
	uint32_t client; /* handle of the connection: index and generation */
	uint32_t id; /* the client's; to be given back with the reply, otherwise opaque */
	uint32_t len; /* bytes that the client sent, at most req_size */
};

struct shmipc_server_stats {
	uint64_t requests, replies; /* of all clients since create */
	uint64_t bad_requests; /* dropped: impossible id or length */
	uint64_t clients; /* connected now, as of the last poll */
	uint64_t connects; /* clients seen since create */
	uint64_t departures; /* of these, gone: disconnected */
	uint64_t reclaimed; /* of these, gone: died without disconnecting */
	uint64_t sleeps, wakes; /* own futex sleeps, or times it was armed; clients woken */
	uint64_t yields; /* cores given away while busy */
};

struct shmipc_client_stats {
	uint64_t calls, responses; /* made since connect; ended since, in whatever way */
	uint64_t sleeps, wakes; /* own futex sleeps, or times it was armed; server woken */
};

/* ---- server ---- */

/*
 * Makes the region /dev/shm/shmipc.<name> with sizes attr (NULL: all
 * defaults) and serves it until destroy. What a dead server left under that name is
 * replaced; its clients get -EPIPE and may connect anew. Memory per client: two rings, each
 * of about depth times the lines that a burst takes (eight messages with a depth of 32 or
 * more), and extra_size; give the depth that you need, because short rings stay in the
 * nearest cache. 0, or
 *	-EINVAL		the name is empty, contains '/' or is over SHMIPC_MAX_NAME bytes, or a
 *			size is out of range
 *	-EADDRINUSE	a living server has the name: take another
 *	-EACCES, -ELOOP	the name is another user's, or a symbolic link: take another
 *	-EPERM		the server's user is no member of gid
 *	-ENOMEM, -ENOSPC, -EMFILE, ...	as the kernel says: nothing is left behind
 */
int shmipc_server_create(const char *name, const struct shmipc_attr *attr,
	struct shmipc_server **server_p);

/*
 * Removes the region's name, so that a crash of everybody leaves nothing; those who are
 * connected stay so, nobody can connect any more. 0, also the second time; -errno of
 * unlink(2), and the name is still there.
 */
int shmipc_server_unlink(struct shmipc_server *server);

/* Tells the clients (-EPIPE), removes the name, frees everything. NULL is allowed. */
void shmipc_server_destroy(struct shmipc_server *server);

/*
 * Looks at every connected client, starting with another one each time, and returns how
 * many of them have requests; shmipc_server_recv() then hands these out, at most 8 of each
 * client until the next poll. Never fails, never blocks; publishes replies (see Visibility),
 * notices new, leaving and dead clients, and, about every
 * 150 us while a client waits with its core given away, yields, so that clients that
 * share the server's core run. A loop that polls and finds nothing pauses once per turn,
 * or calls shmipc_server_wait().
 */
static inline int shmipc_server_poll(struct shmipc_server *server);

/*
 * The same, but leaves the clients alone whose index is set in skip: bit i % 64 of
 * skip[i / 64]; max_clients bits, caller's memory, used during the call only. Their
 * requests stay in their rings: backpressure for one client.
 */
static inline int shmipc_server_poll_with_skip(struct shmipc_server *server, const uint64_t *skip);

/*
 * Takes the next request of the clients that the last poll found: fills *req_p in and
 * copies the payload to buf, which has room for capacity bytes: of a longer request the first
 * ones, so req_p->len > capacity says that the rest is lost. What buf has behind req_p->len is
 * unspecified. capacity is best a constant: the copy is inlined. 1; 0 when it is time to poll
 * again. The bytes come from another process: check them. Requests with an impossible id or
 * length are counted and dropped.
 */
static inline int shmipc_server_recv(struct shmipc_server *server, struct shmipc_req *req_p,
	void *buf, uint32_t capacity);

/*
 * Answers the request (client, id) of shmipc_server_recv(), now or at any later time, in
 * any order; each request exactly once. Copies len bytes of resp (which may be NULL when len is
 * 0), and the client gets to know len. Best with a constant len. 0, or, with nothing sent,
 *	-EPIPE		that client is gone: forget the request
 *	-EMSGSIZE	len is over resp_size: answer with less
 *	-EINVAL		no such request is unanswered (never received, or replied to already): a
 *			bug of the caller
 */
static inline int shmipc_server_reply(struct shmipc_server *server, uint32_t client, uint32_t id,
	const void *resp, uint32_t len);

/* Publishes the replies and wakes the sleeping clients among those replied to. For a server
 * that does something long instead of polling. */
static inline void shmipc_server_flush(struct shmipc_server *server);

/*
 * Polls until a request is there or timeout_ns have passed: spins for about 1 us, yields
 * for about 100 us, then sleeps. 1 when there is one, for recv to hand out; 0 after the time, or
 * when a signal came while it slept.
 */
int shmipc_server_wait(struct shmipc_server *server, uint64_t timeout_ns);

/*
 * The descriptor that becomes readable when an armed server has something to do. Made at the
 * first call; the server's, until destroy. A client that connected before wakes it as well.
 * Takes three descriptors; a client that wakes somebody takes one. Not negative, or
 *	-ENETUNREACH	a client is connected from another network namespace and could not
 *			wake this server, or /proc is not there to tell
 *	-EBADF		in a forked child
 *	-EMFILE, -ENFILE, -ENOMEM, ...
 */
int shmipc_server_fd(struct shmipc_server *server);

/*
 * Arms the descriptor: publishes replies, wakes clients, empties the descriptor, and polls once
 * more. 0: sleep; 1: do not sleep, poll again; -EBADF: there is no descriptor.
 */
int shmipc_server_arm(struct shmipc_server *server);

/*
 * The extra buffer shared with that client: extra_size bytes, aligned to 64, contents
 * undefined at connect, ordered by the messages (what the client wrote before a call is
 * there when the request is received). NULL when the client is gone or the size is 0.
 * The memory stays mapped until destroy, but the next client in that place uses it too.
 */
void *shmipc_server_extra(struct shmipc_server *server, uint32_t client);

/* The sizes in use. */
void shmipc_server_get_attr(const struct shmipc_server *server, struct shmipc_attr *attr_p);

void shmipc_server_get_stats(const struct shmipc_server *server,
	struct shmipc_server_stats *stats_p);

/* ---- client ---- */

/*
 * The response to the call with that token: the len bytes that the server sent, at resp, in
 * shared memory, 8-byte aligned, valid until the function returns (copy what you check). The
 * function may call shmipc_client_call(), but not poll, wait, abort or disconnect. resp is NULL
 * when it is shmipc_client_abort() that hands the token back.
 */
typedef void shmipc_response_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

/*
 * Connects to the server of that name. Sizes that are not zero in attr (NULL: none) must
 * be the region's. Needs no action of the server while a clean place is left; otherwise
 * waits up to a second for the server, polling, to clean a place that a client left. 0, or
 *	-ENOENT		no such region: the server is not there yet; try again later
 *	-ECONNREFUSED	its server is dead or has closed: try again later
 *	-EAGAIN		the server is just starting, or did not clean a free place within a
 *			second: try again at once
 *	-EUSERS		max_clients are connected: try again later
 *	-EPROTO		another layout version, or other sizes: not our server
 *	-ENETUNREACH	the server sleeps on a descriptor, in another network namespace
 *	-EACCES, -ELOOP	the region is another user's, or not what mode and gid say
 *	-EINVAL		the name, or mode, gid and set, as above
 *	-ENOMEM, -EMFILE, ...
 */
int shmipc_client_connect(const char *name, const struct shmipc_attr *attr,
	struct shmipc_client **client_p);

/* Gives the place back; what is pending gets no callback. NULL is allowed. */
void shmipc_client_disconnect(struct shmipc_client *client);

/*
 * Sends len bytes of req (copied; req may be NULL when len is 0), at most req_size; the server
 * gets to know len. The token comes back with the response. len is best a constant: the copy
 * is inlined. 0, or, with nothing sent,
 *	-EAGAIN		depth calls are in flight: poll, then retry
 *	-EPIPE		the server is gone, as a poll or wait has found: disconnect
 *	-EMSGSIZE	len is over req_size
 */
static inline int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token);

/* Publishes the calls, and wakes the server if it sleeps and calls were made since the last
 * time. For a client that does something long instead of polling. */
static inline void shmipc_client_flush(struct shmipc_client *client);

/*
 * Hands over responses, each to fn(arg, ...), in the order in which the server replied:
 * at most SHMIPC_POLL_MAX, so that client and server work at the same time; calls that follow
 * from them are best made in fn. Their count; 0: none yet. A loop that
 * gets 0 pauses once per turn, or calls shmipc_client_wait(). Errors come only when no
 * response is left:
 *	-EPIPE		the server died or closed: abort or disconnect
 *	-EPROTO		the ring holds what no server wrote; likewise
 */
static inline int shmipc_client_poll(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg);

/* Calls without a response yet, those that a call_wait gave up included. */
static inline uint32_t shmipc_client_pending(const struct shmipc_client *client);

/*
 * Until a response is there or timeout_ns have passed: spins for about 1 us, yields for
 * about 100 us, then sleeps. 1: poll will find it; 0 after the time, when nothing is
 * pending, or when a signal came while it slept; -EPIPE, -EPROTO as poll.
 */
int shmipc_client_wait(struct shmipc_client *client, uint64_t timeout_ns);

/*
 * As shmipc_server_fd(), for responses; or
 *	-ENETUNREACH	the server is in another network namespace and could not wake this
 *			client, or /proc is not there to tell
 */
int shmipc_client_fd(struct shmipc_client *client);

/*
 * As shmipc_server_arm(): publishes calls and wakes the server first. With calls pending the
 * descriptor is readable after 100 ms at the latest, so a dead server gives -EPIPE in time.
 */
int shmipc_client_arm(struct shmipc_client *client);

/*
 * A call that waits for its response, of which at most capacity bytes are copied to resp; *len_p
 * gets the bytes that the server sent, which may be more (len_p may be NULL). Signals do not end
 * it. 0, or
 *	-ETIMEDOUT	no response in time: it will be dropped when it comes; until then it
 *			takes one of the depth calls
 *	-EBUSY		other calls are pending: poll until none is
 *	-EAGAIN, -EPIPE, -EMSGSIZE, -EPROTO	as call and poll
 */
int shmipc_client_call_wait(struct shmipc_client *client, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p);

/*
 * After -EPIPE or -EPROTO: ends every pending call by fn(arg, token, NULL, 0). Their
 * count, or -EBUSY while the connection is good, nothing done.
 */
int shmipc_client_abort(struct shmipc_client *client, shmipc_response_fn *fn, void *arg);

/* As shmipc_server_extra(); valid until disconnect. */
void *shmipc_client_extra(struct shmipc_client *client);

/* The client's place, 0 .. max_clients - 1; another client's after disconnect. */
uint32_t shmipc_client_index(const struct shmipc_client *client);

/* The sizes in use. */
void shmipc_client_get_attr(const struct shmipc_client *client, struct shmipc_attr *attr_p);

void shmipc_client_get_stats(const struct shmipc_client *client,
	struct shmipc_client_stats *stats_p);

#include "shmipc_inline.h"

#ifdef __cplusplus
}
#endif

#endif
