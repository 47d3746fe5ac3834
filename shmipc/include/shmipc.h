/* SPDX-License-Identifier: MIT */
/*
 * shmipc: small fixed-size requests and responses between processes of one machine,
 * through shared memory. There is one server and many clients, with a pair of single-producer
 * single-consumer rings per client. A round trip moves two cache lines, or fewer in bursts.
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
 * Threads: at most one thread at a time may use a handle; different handles, of the same server,
 * too, are independent. A child of fork(2) must not use the handles of its parent; it may only
 * destroy or disconnect them.
 *
 * Visibility: if a client has fewer than eight calls in flight now, and had fewer at its last poll
 * that came after a call, each call and each reply to it is published immediately. Otherwise up to
 * eight calls, or replies to one client, are published together. A client publishes its calls at
 * the latest in its next poll (at its start or before it returns), flush or wait, or in a call that
 * is refused with -EAGAIN. The server publishes replies at the latest in the first of these:
 *	- a flush, a destroy, a reply to another client, a recv that returns 0
 *	- a poll or wait that finds no request
 *	- a second poll or wait with no reply since the first
 *
 * A process does not check at each publication whether its peer sleeps, so one memory fence serves
 * many messages. It checks, and wakes the peer, in flush, in a wait before it yields or returns 0,
 * after eight polls that found nothing, and otherwise after sixty-four bursts and polls together.
 * After a call or a reply, a thread must call flush before it does other work. No sleep lasts
 * longer than 100 ms, with or without a wake-up.
 *
 * Exactly once: a call ends in one callback, unless the server dies or closes. In that case poll
 * returns -EPIPE, and shmipc_client_abort() hands the open tokens back. A client that waits, or
 * that polls at least twenty times a second, gets -EPIPE within a second. A client that polls at
 * regular intervals, but less often, gets it at its first or second poll.
 *
 * Descriptors: a thread that also waits for other events sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { shmipc_server_fd(s), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = shmipc_server_arm(s)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(s) > 0)			poll, recv, reply
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: the caller must not read, write or close it. A handle is
 * armed until the next function call with it, so shmipc_server_arm() must be the last call before
 * poll(2). If any of several calls to arm returned 1, the timeout must be 0. After a wake-up, poll
 * the handle as usual; its descriptor stays readable until the handle is armed again. Spurious
 * wake-ups are possible. A peer without a descriptor wakes one that has a descriptor, and the
 * reverse.
 *
 * Descriptors work only within one network namespace, and only if the client's sandbox allows
 * abstract sockets. If a client could not wake a server that sleeps on a descriptor, connect or
 * shmipc_server_fd() fails. If the problem starts after connect, the client's poll, wait and arm
 * return the error (see shmipc_client_poll()): the call is late, but the client learns of it. An
 * armed client with calls pending becomes readable every 100 ms, so that its poll finds a dead
 * server; a server does not need that. Requests wait for the next wake-up of the server if their
 * client dies after publishing and before waking the server, or if another process that writes
 * into the region has spoilt the wake-up. A timeout of poll(2) limits that wait.
 *
 * Trust: with mode 0600, another user cannot open the region; with 0660, the members of a group
 * that the server names can. A process that can map the region can:
 *	- overwrite its contents (requests, responses and extra buffers of every client)
 *	- keep the server busy with forged connects
 *	- keep all others from connecting, by taking all places or their locks
 *	- shorten the file, which ends all users of the region, the server included, by SIGBUS
 * With mode 0600 these are processes of the same user, which could also send a signal. With mode
 * 0660 they are all members of the group: name only a group whose members may stop the server. A
 * lock on /dev/shm/shmipc-guard.<name> (mode 0600) then shows that the server is alive. So a member
 * cannot keep the server's user from starting another server, and cannot make a dead server look
 * alive to clients of that user. It can make a dead server look alive to clients of other users,
 * until the next server starts. Nothing in the region makes the server access memory outside of
 * the region or wait for a client, because the server reads and writes the rings through cursors in
 * private memory.
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

#define SHMIPC_SET_GID 1u /* bit of attr.set: gid is valid; needed because gid 0 is a group */
#define SHMIPC_MAX_NAME 194u
#define SHMIPC_MAX_CLIENTS 4095u
#define SHMIPC_MAX_DEPTH (1u << 16)
#define SHMIPC_MAX_PAYLOAD (1u << 20)
#define SHMIPC_FOREVER UINT64_MAX
#define SHMIPC_POLL_MAX 8 /* responses that one client poll hands over */

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines it: libshmipc exports the same functions, for programs in other languages.
 */
#ifndef SHMIPC_INLINE
#define SHMIPC_INLINE static inline
#endif

/* The place of a client, 0 .. max_clients - 1, in the handle that a request carries. */
#define SHMIPC_CLIENT_INDEX(client) ((uint32_t)(client)&4095u)

/* The sizes and the access of a region. Zero means the default in brackets. */
struct shmipc_attr {
	/*
	 * sizeof(struct shmipc_attr). 0 means that the struct ends with the member `set`: all
	 * versions have these members, and a later version adds members after it.
	 */
	size_t size;
	uint32_t max_clients; /* [64] at most SHMIPC_MAX_CLIENTS */
	uint32_t depth; /* [64] calls in flight per client, at most SHMIPC_MAX_DEPTH */
	uint32_t req_size; /* [56] bytes of a request, at most SHMIPC_MAX_PAYLOAD */
	uint32_t resp_size; /* [56] bytes of a response, at most SHMIPC_MAX_PAYLOAD */
	uint32_t extra_size; /* [0] bytes of the buffer that a client shares with the server */
	/*
	 * The access. 0600 (also if 0): only the server's user may connect. 0660: the members of
	 * the region's group may connect, too. That group is `gid` if `set` contains
	 * SHMIPC_SET_GID, otherwise the group of the server's process. In connect, mode and gid are
	 * the access that the caller expects: connect fails if the region has another. A client of
	 * another user must be a member of the group and must set mode to 0660 as well.
	 */
	uint32_t mode;
	uint32_t gid; /* with mode 0660, where a gid other than 0 needs its bit in `set` */
	uint32_t set; /* SHMIPC_SET_*; SHMIPC_SET_GID only with mode 0660 */
};

/* A request that the server has taken out of its ring. */
struct shmipc_req {
	uint64_t client; /* handle of the connection; no other connection to this server has it */
	uint32_t id; /* chosen by the client; opaque; pass it to shmipc_server_reply() */
	uint32_t len; /* bytes that the client sent, at most req_size */
};

struct shmipc_server_stats {
	uint64_t requests, replies; /* from and to all clients since create */
	uint64_t bad_requests; /* dropped: impossible id or length */
	uint64_t clients; /* connected at the last poll */
	uint64_t connects; /* clients seen since create */
	uint64_t departures; /* clients that have disconnected */
	uint64_t reclaimed; /* clients that died without disconnecting */
	uint64_t sleeps, wakes; /* times that the server slept or was armed; clients woken */
	uint64_t yields; /* times that it yielded its core while busy */
};

struct shmipc_client_stats {
	uint64_t calls, responses; /* calls made, and calls ended in any way, since connect */
	uint64_t sleeps, wakes; /* times that the client slept or was armed; wakes of the server */
};

/* ---- server ---- */

/*
 * Makes the region /dev/shm/shmipc.<name> with sizes attr (NULL: all defaults) and serves it until
 * destroy. The region of a dead server with that name is replaced; the clients of the dead server
 * get -EPIPE and may connect again. Each client takes the memory of two rings, each of about depth
 * times the cache lines of a burst (eight messages with a depth of 8 or more), and extra_size.
 * Do not choose a larger depth than you need: short rings stay in the first-level cache. Returns 0,
 * or
 *	-EINVAL		the name is empty, contains '/' or is over SHMIPC_MAX_NAME bytes, or a
 *			size is out of range
 *	-E2BIG		attr has a field that this version does not know, and it is not 0
 *	-EADDRINUSE	a living server has the name: take another
 *	-EACCES, -ELOOP	the name is another user's, or a symbolic link: take another
 *	-EPERM		the server's user is no member of gid
 *	-EFBIG		the region exceeds the process's limit of file sizes (RLIMIT_FSIZE)
 *	-ENOMEM, -ENOSPC, -EMFILE, ...	from the kernel; nothing is left behind
 */
int shmipc_server_create(const char *name, const struct shmipc_attr *attr,
	struct shmipc_server **server_p);

/*
 * Removes the region's name, so that nothing is left behind if all processes crash. Connected
 * clients stay connected; no client can connect any more. Returns 0, also if the name was removed
 * before; or -errno of unlink(2), and then the name is still there.
 */
int shmipc_server_unlink(struct shmipc_server *server);

/* Removes the name and frees everything. Clients get -EPIPE. NULL is allowed. */
void shmipc_server_destroy(struct shmipc_server *server);

/*
 * Reads the ring of every connected client, starting with another client each time, and returns how
 * many of them have requests. shmipc_server_recv() then hands these requests out, at most 8 of each
 * client until the next poll. Never fails and never blocks. Publishes replies (see Visibility), and
 * notices new, leaving and dead clients. While a client waits and has yielded its core, the server
 * yields about every 150 us, so that clients on the server's core can run. A loop whose poll finds
 * nothing should pause once per turn, or call shmipc_server_wait().
 */
SHMIPC_INLINE int shmipc_server_poll(struct shmipc_server *server);

/*
 * Like shmipc_server_poll(), but skips each client i whose bit, i % 64 of skip[i / 64], is set.
 * skip has max_clients bits, belongs to the caller and is used during the call only. The requests
 * of a skipped client stay in its ring, which is backpressure for that client alone.
 */
SHMIPC_INLINE int shmipc_server_poll_with_skip(struct shmipc_server *server, const uint64_t *skip);

/*
 * Takes the next request of the clients that the last poll found. Fills *req_p in and copies at
 * most capacity bytes of the payload to buf. If req_p->len > capacity, the rest of the request is
 * lost. The bytes of buf after the first req_p->len are unspecified. If capacity is a compile-time
 * constant, the copy is inlined. Returns 1, or 0 if there are no more until the next poll. The
 * bytes come from another process: check them. Requests with an impossible id or length are
 * counted and dropped.
 */
SHMIPC_INLINE int shmipc_server_recv(struct shmipc_server *server, struct shmipc_req *req_p,
	void *buf, uint32_t capacity);

/*
 * Answers the request (client, id) of shmipc_server_recv(), now or at any later time, in
 * any order; each request exactly once. Copies len bytes of resp (which may be NULL when len is
 * 0), and passes len on to the client. If len is a compile-time constant, the copy is inlined.
 * Returns 0, or, with nothing sent,
 *	-EPIPE		that client has gone, even if another client has its place now: drop the
 *			request
 *	-EMSGSIZE	len exceeds resp_size: send a shorter response
 *	-EINVAL		no such request is unanswered (never received, or replied to already): a
 *			bug of the caller
 */
SHMIPC_INLINE int shmipc_server_reply(struct shmipc_server *server, uint64_t client, uint32_t id,
	const void *resp, uint32_t len);

/*
 * Publishes the replies, and wakes those of their clients that sleep. A server must call it before
 * it does other work after a reply.
 */
SHMIPC_INLINE void shmipc_server_flush(struct shmipc_server *server);

/*
 * Polls until a request is there or timeout_ns nanoseconds have passed: spins for about 1 us,
 * yields for about 100 us, then sleeps. Returns 1 if shmipc_server_recv() will return a request, 0
 * if the time has passed or a signal interrupted the sleep.
 */
int shmipc_server_wait(struct shmipc_server *server, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed server has something to do. The first
 * call opens it; it belongs to the server until destroy. Clients that connected earlier wake it as
 * well. It takes three descriptors of this process; a client that wakes a server takes one. Errors:
 *	-ENETUNREACH	a client is connected from another network namespace and could not
 *			wake this server, or there is no /proc to find that out
 *	-EBADF		in a forked child
 *	-EMFILE, -ENFILE, -ENOMEM, ...
 */
int shmipc_server_fd(struct shmipc_server *server);

/*
 * Arms the descriptor: publishes replies, wakes clients, empties the descriptor, and polls once
 * more. Returns 0 if the caller may sleep, 1 if it must poll again instead, or -EBADF if there is
 * no descriptor to wait for.
 *
 * A loop that polls a bounded number of times must call this function before it sleeps, because
 * clients wake only an armed server.
 */
int shmipc_server_arm(struct shmipc_server *server);

/*
 * Returns the extra buffer shared with that client: extra_size bytes, aligned to 64, with undefined
 * contents at connect. The messages order the accesses: bytes that the client wrote before a call
 * are visible when the request is received. Returns NULL if the client has gone or the size is 0.
 * The memory stays mapped until destroy, but the next client in that place uses it, too.
 */
void *shmipc_server_extra(struct shmipc_server *server, uint64_t client);

/*
 * Writes the sizes and the access in use to *attr_p, at most size bytes. They may be passed to
 * create or connect.
 */
void shmipc_server_get_attr(const struct shmipc_server *server, struct shmipc_attr *attr_p,
	size_t size);

/* Copies at most size bytes of the counters to *stats_p; size is sizeof(*stats_p). */
void shmipc_server_get_stats(const struct shmipc_server *server,
	struct shmipc_server_stats *stats_p, size_t size);

/* ---- client ---- */

/*
 * Handles the response to the call with that token. resp points at the len bytes that the server
 * sent, in shared memory, aligned to 8 and valid until the function returns. Copy them before you
 * check them. The function may call shmipc_client_call(), but not poll, wait, abort or disconnect.
 * resp is NULL if shmipc_client_abort() hands the token back.
 */
typedef void shmipc_response_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

/*
 * Connects to the server of that name. Sizes that are not zero in attr (NULL: none) must be the
 * region's. If there is a clean place, the server need not do anything. Otherwise connect waits for
 * at most a second until the server has cleaned a place that a client left. Returns 0, or
 *	-ENOENT		no such region: the server is not there yet; try again later
 *	-ECONNREFUSED	its server is dead or has closed: try again later
 *	-EAGAIN		the server is just starting, or did not clean a free place within a
 *			second: try again immediately
 *	-EUSERS		max_clients are connected: try again later
 *	-EPROTO		another layout version, or other sizes
 *	-ENETUNREACH	the server sleeps on a descriptor, in another network namespace
 *	-EPERM		the server sleeps on a descriptor, and this process may not send to its
 *			socket
 *	-EACCES, -ELOOP	the region is another user's, or has another mode or gid; or the same
 *			cause as -EPERM
 *	-EINVAL		name, mode, gid or set is not valid (see shmipc_server_create())
 *	-E2BIG		as for shmipc_server_create()
 *	-ENOMEM, -EMFILE, ...
 */
int shmipc_client_connect(const char *name, const struct shmipc_attr *attr,
	struct shmipc_client **client_p);

/* Gives the place back. Pending calls get no callback. NULL is allowed. */
void shmipc_client_disconnect(struct shmipc_client *client);

/*
 * Sends len bytes of req (copied; req may be NULL when len is 0), at most req_size. The server
 * learns len. The token comes back with the response. If len is a compile-time constant, the copy
 * is inlined. Returns 0, or, with nothing sent,
 *	-EAGAIN		depth calls are in flight: poll, then retry
 *	-EPIPE		a poll or wait has found that the server is gone: disconnect
 *	-EMSGSIZE	len exceeds req_size
 */
SHMIPC_INLINE int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token);

/*
 * Publishes the calls, and wakes the server if it sleeps and calls were made since the last flush.
 * A client must call it before it does other work after a call. If the server could not be woken,
 * the next poll that finds nothing returns the error.
 */
SHMIPC_INLINE void shmipc_client_flush(struct shmipc_client *client);

/*
 * Passes responses, each to fn(arg, ...), in the order in which the server replied. There are
 * at most SHMIPC_POLL_MAX per poll, so that client and server work at the same time. If a response
 * leads to another call, make that call in fn. Returns the number of responses, or 0 if there is
 * none yet. A loop that gets 0 should pause once per turn, or call shmipc_client_wait(). An error
 * is returned only when no response is left:
 *	-EPIPE		the server died or closed: abort or disconnect
 *	-EPROTO		the ring holds something that no server writes: abort or disconnect
 *	-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS	the server sleeps on its descriptor and could not be
 *			woken for lack of a descriptor or of memory: free some, poll and retry
 *	-ENETUNREACH	the same, because this thread has left the server's network namespace
 *	-EPERM, -EACCES, ...	the same, because a sandbox forbids it
 * If the server could not be woken, the calls stay published. The server finds them as soon as
 * another client wakes it, or a later poll, flush or wait of this client can wake it.
 */
SHMIPC_INLINE int shmipc_client_poll(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg);

/* Returns the number of calls without a response, also of calls that timed out. */
SHMIPC_INLINE uint32_t shmipc_client_pending(const struct shmipc_client *client);

/*
 * Waits until a response is there or timeout_ns nanoseconds have passed: spins for about 1 us,
 * yields for about 100 us, then sleeps. Returns 1 if poll will find a response, 0 if the time has
 * passed, nothing is pending, or a signal interrupted the sleep, or an error of
 * shmipc_client_poll(), without waiting.
 */
int shmipc_client_wait(struct shmipc_client *client, uint64_t timeout_ns);

/*
 * Like shmipc_server_fd(), for responses. Another cause of an error:
 *	-ENETUNREACH	the server is in another network namespace and could not wake this
 *			client, or there is no /proc to find that out
 */
int shmipc_client_fd(struct shmipc_client *client);

/*
 * Like shmipc_server_arm(). Publishes calls and wakes the server first. With calls pending the
 * descriptor is readable after 100 ms at the latest, so that a poll finds a dead server in time. If
 * the server could not be woken, returns an error of shmipc_client_poll(), and the client is not
 * armed.
 *
 * A client without pending calls is not woken by responses: a loop that ends after the last
 * response must check that before it arms.
 */
int shmipc_client_arm(struct shmipc_client *client);

/*
 * Makes a call and waits for its response. Copies at most capacity bytes of it to resp, and writes
 * the number of bytes that the server sent, which may be larger, to *len_p (len_p may be NULL).
 * Signals do not end the wait. Returns 0, or
 *	-ETIMEDOUT	no response in time. It is dropped when it comes; until then the call
 *			counts as one of the depth calls
 *	-EBUSY		other calls are pending: poll until there are none
 *	-EAGAIN, -EPIPE, -EMSGSIZE, -EPROTO	as for shmipc_client_call() and shmipc_client_poll()
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	the errors of shmipc_client_poll(), without waiting;
 *			what -ETIMEDOUT says of the call and its response holds here, too
 */
int shmipc_client_call_wait(struct shmipc_client *client, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p);

/*
 * After -EPIPE or -EPROTO: ends every pending call by fn(arg, token, NULL, 0) and returns their
 * number. Returns -EBUSY, and does nothing, if the connection still works.
 */
int shmipc_client_abort(struct shmipc_client *client, shmipc_response_fn *fn, void *arg);

/* Like shmipc_server_extra(); valid until disconnect. */
void *shmipc_client_extra(struct shmipc_client *client);

/* The client's place, 0 .. max_clients - 1. After disconnect another client may have it. */
uint32_t shmipc_client_index(const struct shmipc_client *client);

/* Like shmipc_server_get_attr(). */
void shmipc_client_get_attr(const struct shmipc_client *client, struct shmipc_attr *attr_p,
	size_t size);

/* Like shmipc_server_get_stats(). */
void shmipc_client_get_stats(const struct shmipc_client *client,
	struct shmipc_client_stats *stats_p, size_t size);

/* ---- inspecting a region from outside ---- */

/* DEAD is known from the process's lock. The process itself wrote the others into the region. */
enum shmipc_look_state {
	SHMIPC_LOOK_DEAD, /* it has ended, or has disconnected */
	SHMIPC_LOOK_RUNNING,
	SHMIPC_LOOK_WAITING, /* it polls and yields its core */
	SHMIPC_LOOK_ASLEEP, /* it sleeps in the kernel until the other side wakes it */
};

/*
 * A snapshot of a region. It is not atomic: other processes may have changed the region while it
 * was read. The kernel knows which processes are alive. The rest is read from the region, and a
 * process that may write to the region may have forged it. The number of calls in flight cannot be
 * seen from outside: the rings have no indices, and each process keeps its cursors in private
 * memory.
 */
struct shmipc_look_region {
	struct shmipc_attr attr; /* the sizes, and the access that the file has */
	uint64_t size; /* of the region, in bytes */
	enum shmipc_look_state server;
	uint32_t clients; /* alive */
	uint32_t dead_clients; /* dead, and not cleaned up yet */
	uint32_t changes; /* connects and disconnects since the region was made */
};

struct shmipc_look_client {
	uint32_t index; /* the client's shmipc_client_index() */
	enum shmipc_look_state state;
};

typedef void shmipc_look_fn(void *arg, const struct shmipc_look_client *client);

/*
 * Reads the region of this name without connecting: opens the file for reading only, does not map
 * it, takes no lock and no place, and disturbs no process. Passes each client, dead ones included,
 * to fn, unless fn is NULL. Writes at most size bytes to *look_p. Needs read permission and works
 * with dead servers. Returns 0, or
 *	-EINVAL, -ENOENT, -ELOOP	as for shmipc_client_connect()
 *	-EACCES		this process may not read the file, or it is not a regular file
 *	-EPROTO		not a region of this library, another version, or not complete yet
 */
int shmipc_look(const char *name, struct shmipc_look_region *look_p, size_t size,
	shmipc_look_fn *fn, void *arg);

/*
 * Removes the name of a region whose server is dead. Clients that are still connected keep their
 * memory. A server that starts at this moment either keeps its new region or finds the name free.
 * Returns 0, or, with nothing removed,
 *	-EADDRINUSE	the server is alive
 *	-EPROTO		the file is not a region of this library, or not complete
 *	-EAGAIN		a server is starting with this name at this moment, or another process
 *			is removing it
 *	-EACCES		the file belongs to another user, or has a mode that no region has
 *	-EINVAL, -ENOENT, -ELOOP	as for shmipc_client_connect()
 */
int shmipc_remove_dead(const char *name);

#include "shmipc_inline.h"

#ifdef __cplusplus
}
#endif

#endif
