/* SPDX-License-Identifier: MIT */
/*
 * delegrpc - remote procedure calls through one shared request ring.
 *
 * Many clients (threads or processes of one machine) put requests into one multi-producer ring in
 * shared memory. One server takes them out in order, and answers each client through a ring of
 * the client's own, in any order and at any later time. The purpose is delegation: the server owns
 * something that all cores need, such as a NIC.
 *
 * Server:
 *	struct delegrpc_attr attr = { .max_clients = 8, .req_size = 32, .resp_size = 16 };
 *	struct delegrpc_server *s;
 *	struct delegrpc_req r;
 *
 *	if (delegrpc_server_create("job7.rank0", &attr, &s) < 0) ...
 *	for (;;) {
 *		if (delegrpc_server_poll(s) == 0)
 *			delegrpc_server_wait(s, 1000000000);
 *		while (delegrpc_server_recv(s, &r))
 *			delegrpc_server_reply(s, r.client, r.id, answer(r.payload), 16);
 *		delegrpc_server_advance_tail(s);
 *	}
 *
 * Client:
 *	static void done(void *arg, uint64_t token, const void *resp, uint32_t len) { ... }
 *
 *	if (delegrpc_client_connect("job7.rank0", &attr, &c) < 0) ...
 *	while (delegrpc_client_call(c, &req, sizeof(req), token) == -EAGAIN)
 *		delegrpc_client_poll(c, done, NULL);
 *	while (delegrpc_client_pending(c) && delegrpc_client_poll(c, done, NULL) >= 0)
 *		;
 *	delegrpc_client_disconnect(c);
 *
 * Visibility: calls are staged in private memory and published eight at a time, with one
 * atomic addition. A call is visible to the server at the latest at the client's next poll, flush
 * or wait. If a client has eight or more calls in flight, replies to it are collected (a quarter
 * of the number in flight, at most eight) and published together. They are published at the latest
 * by the server's next reply to another client, delegrpc_server_recv() that finds nothing, flush
 * or destroy, or by its next poll or wait that finds no request or follows another one without a
 * reply in between. With fewer calls in flight a reply is published at once. No function spins on
 * another process: a function that cannot proceed returns -EAGAIN.
 *
 * Waking: after publishing, a side checks later whether the other side sleeps, with one memory
 * barrier for everything that it has published. It does so in flush, in a poll or a wait that
 * finds nothing, and otherwise after 16 publications (a client) or 16 polls (a server). So a thread
 * calls flush after a call or a reply before it turns to other work.
 *
 * Threads: a server object and a client object are used by one thread at a time, and
 * different objects are independent. A process may hold any number of them, the server
 * and clients of one region included. A child made by fork() must not use the objects of
 * its parent; it may disconnect or destroy them, which then only frees memory.
 *
 * Death: a process that is killed, at any instruction, does not block the others. Requests that a
 * dead client had published are served, slots that it had only reserved are skipped, and its id
 * is free for the next client. If the server is killed or destroyed, clients that wait, or poll at
 * least twenty times a second, get -EPIPE within a second. A client that polls less often but
 * evenly gets it at its first poll after a tenth of a second. A new server of the same name
 * replaces the region of a dead one. If a client is stopped (SIGSTOP, a debugger) in the few
 * instructions between reserving and filling its slots, the others wait until it continues or
 * dies.
 *
 * Trust: the region belongs to one user (mode 0600, another user is refused), or to a group that
 * the server names (mode 0660). A process that has mapped it can write anywhere in it. Even
 * then the server never reads or writes outside of the region and never hangs. But a process that may
 * open the region can spoil, forge or delay the calls of others, can keep all others from connecting
 * by taking all places or their locks, and can truncate the file, which kills every process that
 * accesses it, the server included, by SIGBUS. With mode 0600 these are processes of the same user,
 * which could do so by a signal as well. With mode 0660 they are all members of the group: name only
 * a group whose members may stop the server. No member can keep the server's user from starting
 * another server, or make a dead server look alive to clients of that user; to clients of other users
 * it can, until the next server starts. /dev/shm/delegrpc-guard.<name>, mode 0600, is for that.
 *
 * Descriptors: a thread that waits for other things as well sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { delegrpc_server_fd(s), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = delegrpc_server_arm(s)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(s) > 0)			poll, recv, reply, advance_tail
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: nobody but the library reads, writes or closes it. An
 * object is armed until the next function call with it, so delegrpc_server_arm() comes last. A
 * thread that arms several objects uses timeout 0 if any arm returned 1. A
 * woken object is polled as usual; its descriptor stays readable until it is armed again. Spurious
 * wake-ups are possible. A peer without a descriptor wakes one that has a descriptor, and the
 * reverse. Descriptors work between processes of one network namespace, and not for a client whose
 * sandbox does not let it send to abstract sockets: connect and delegrpc_server_fd() return an error
 * if a client could not wake a server that sleeps on a descriptor. If that comes later, the
 * client's flush, poll, wait and arm return it (see delegrpc_client_poll()), and a call is late, but
 * is not lost without a word. An armed client with calls pending becomes readable every 100 ms, so that its poll
 * finds a dead server; an armed server does so only if a dead client may block the ring. If a
 * client dies between publishing and waking (see Waking), or if another process that writes into
 * the region has spoilt the wake-up, the request waits for the next client's wake-up. A timeout of
 * poll(2) limits that wait.
 *
 * Waiting: a client or server that has nothing to do polls, pausing, for about 1 us, then yields
 * the core between polls for about 100 us, and then sleeps in the kernel. delegrpc_client_wait()
 * and delegrpc_server_wait() do that. A program with a polling loop of its own should do the same.
 */
#ifndef DELEGRPC_H
#define DELEGRPC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines it: libdelegrpc exports the same functions, for programs in other languages.
 */
#ifndef DELEGRPC_INLINE
#define DELEGRPC_INLINE static inline
#endif

#define DELEGRPC_BATCH 8 /* calls or replies per publication, responses per client poll */
#define DELEGRPC_SERVER_POLL_MAX 32 /* most requests that one server poll makes available */

/* Limits on the work that one server poll, or one turn of a wait, does to find holes. */
#define DELEGRPC_POLL_LOOKS 64 /* looks at clients' locks, a system call each */
#define DELEGRPC_POLL_SKIPS 1024 /* slots skipped */

#define DELEGRPC_FOREVER UINT64_MAX /* as a timeout */
#define DELEGRPC_SET_GID 1u /* in attributes: gid is given, 0 being a group */
#define DELEGRPC_MAX_NAME 192
#define DELEGRPC_MAX_CLIENTS 4096
#define DELEGRPC_MAX_RING_DEPTH (1u << 24)
#define DELEGRPC_MAX_RESP_DEPTH (1u << 15)
#define DELEGRPC_MAX_PAYLOAD (1u << 16) /* of a request's and of a response's payload */

/*
 * The sizes and the access of a region. Zero means the default. Requests have 16 B and responses
 * 8 B of header, and are packed at multiples of 16 and 8 B. With the defaults each is a cache line.
 * Smaller ones share cache lines, which makes large bursts faster.
 */
struct delegrpc_attr {
	/*
	 * sizeof(struct delegrpc_attr), or 0 for the fields up to set, which every version has. A
	 * later version adds fields behind them.
	 */
	size_t size;
	uint32_t max_clients; /* connected at a time; 64 */
	/*
	 * Slots in the request ring, rounded up to a power of two. The default, the next
	 * power of two from max_clients * resp_depth and from 256, can never be full, unless
	 * that is over DELEGRPC_MAX_RING_DEPTH, which is the default then. A ring that can be
	 * full makes clients watch the server's progress, and must exceed
	 * max_clients * DELEGRPC_BATCH: each client may hold one batch between its look
	 * at the ring and its reservation.
	 */
	uint32_t ring_depth;
	uint32_t resp_depth; /* calls in flight per client, rounded likewise; 64 */
	uint32_t req_size; /* largest request payload in bytes; 48 */
	uint32_t resp_size; /* largest response payload in bytes; 56 */
	/*
	 * The access. 0600 (also if 0): the server's user may connect. 0660: the members of the
	 * region's group as well, which is gid if set has DELEGRPC_SET_GID, otherwise the group
	 * of the server's process. A connect gives the access that the region must have. Another
	 * user's region is refused unless mode is 0660 here, too, and the client is a member of
	 * its group.
	 */
	uint32_t mode;
	uint32_t gid;
	uint32_t
		set; /* DELEGRPC_SET_*; a gid only with mode 0660, where one that is not set is refused */
};

struct delegrpc_server;
struct delegrpc_client;

/* ---- server ---- */

/* One request, as delegrpc_server_recv() hands it out. */
struct delegrpc_req {
	uint32_t client; /* where the reply goes: below max_clients */
	uint32_t len; /* of the payload, at most req_size */
	uint64_t
		id; /* names the request among all that its client and others in its place make; opaque */
	/*
	 * In the ring, 16-byte aligned; valid until the next delegrpc_server_recv(), or until
	 * this request is replied to. A client can still write there, so a server that does not
	 * trust its clients copies the payload before it checks it.
	 */
	const void *payload;
};

struct delegrpc_server_stats {
	uint64_t requests; /* handed out by recv */
	uint64_t replies; /* written, or collected to be */
	uint64_t stale_replies; /* not written: the client had gone (-EPIPE, or dropped) */
	uint64_t bad_requests; /* dropped: impossible client, id or length */
	uint64_t holes; /* slots that a dead client had reserved, skipped */
	uint64_t looks; /* at clients' locks, in search of such slots */
	uint64_t sleeps; /* of this server, or times it was armed */
	uint64_t wakes; /* of sleeping clients */
	uint64_t yields; /* of a busy server, for clients on its core */
};

/*
 * Makes the region /dev/shm/delegrpc.<name> and serves it. The region of a dead server with that
 * name is replaced. attr may be NULL (all defaults). 0, or
 *	-EINVAL		the name is empty, contains '/' or is over DELEGRPC_MAX_NAME bytes, or
 *			an attribute is out of range, or ring_depth is too small
 *	-E2BIG		attr has a field that this version does not know, and it is not 0
 *	-EADDRINUSE	a living server has the name: choose another
 *	-EACCES, -ELOOP	another user has the name
 *	-EPERM		the server's user is no member of gid
 *	-ENOSPC		/dev/shm is full: choose smaller attributes
 *	-EFBIG		the region is over the process's limit of file sizes (RLIMIT_FSIZE)
 *	-ENOMEM, -EMFILE, ...
 */
int delegrpc_server_create(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_server **server_p);

/*
 * Removes the name at once. No client can connect any more, connected clients stay connected, and
 * nothing is left behind if all processes crash. 0, also the second time, or -errno of
 * shm_unlink(3).
 */
int delegrpc_server_unlink(struct delegrpc_server *server);

/* Clients get -EPIPE; the name is removed; frees the server. NULL is allowed. */
void delegrpc_server_destroy(struct delegrpc_server *server);

/*
 * The region's attributes, rounded as they hold, in *attr_p, which has size bytes. They may be given to a
 * create or connect.
 */
void delegrpc_server_get_attr(const struct delegrpc_server *server, struct delegrpc_attr *attr_p,
	size_t size);

/*
 * Returns how many requests delegrpc_server_recv() can now hand out, at most
 * DELEGRPC_SERVER_POLL_MAX, in the order of their reservation. Looks for more once all of them have
 * been handed out. Publishes replies (see Visibility), and wakes clients (see Waking).
 * Every few hundred empty polls it checks whether a dead client blocks the ring, and skips and
 * gives back the slots that this client reserved. One poll does at most DELEGRPC_POLL_LOOKS and
 * DELEGRPC_POLL_SKIPS of that, and the next polls do the rest. A busy server yields its core every
 * 150 us if clients wait. 0: nothing yet; or
 *	-EPROTO		a client has overwritten the ring's indices and no order can be
 *			restored: clients get -EPIPE, destroy the server
 */
DELEGRPC_INLINE int delegrpc_server_poll(struct delegrpc_server *server);

/*
 * Returns 1 and the next request, or 0 if all requests that the last poll found have been handed
 * out; then replies are published. Requests with an impossible client, id or length are counted
 * and dropped.
 */
DELEGRPC_INLINE int delegrpc_server_recv(struct delegrpc_server *server,
	struct delegrpc_req *req_p);

/*
 * Gives the slots of all requests handed out back to the clients. Call it after each batch, before
 * the next wait. If the ring is smaller than the number of calls that can be in flight, clients get
 * -EAGAIN until then. A client that has taken a free id always gets -EAGAIN until the requests of
 * its predecessor are given back. The call is not needed if nothing was handed out: slots that
 * were skipped, or whose request was dropped, are given back without it.
 */
DELEGRPC_INLINE void delegrpc_server_advance_tail(struct delegrpc_server *server);

/*
 * Answers a request, in any order and at any time. Copies len bytes of resp (which may be NULL when
 * len is 0), and the client is told len. See Visibility and Waking for when the client receives
 * it. If len is a compile-time constant, the copy is inlined. 0, or, with nothing sent,
 *	-EINVAL		this request is not open (never received, or replied to already): a
 *			bug of the caller
 *	-EMSGSIZE	len is over resp_size: answer with less
 *	-EPIPE		another client has taken the place of the one that asked, the next one or
 *			any later one: forget the request
 * A reply to a client that died and has no successor yet returns 0, and nobody reads it. If such a
 * reply is still collected when the successor's first request is received, it is dropped.
 */
DELEGRPC_INLINE int delegrpc_server_reply(struct delegrpc_server *server, uint32_t client,
	uint64_t id, const void *resp, uint32_t len);

/*
 * Publishes all replies, and wakes the clients that sleep and were replied to since they were last
 * checked. For a server that turns to other work after it has replied.
 */
DELEGRPC_INLINE void delegrpc_server_flush(struct delegrpc_server *server);

/*
 * Waits for a request. 1: there is one; 0: timeout_ns nanoseconds have passed, or a signal
 * interrupted the sleep; -EPROTO as above.
 */
int delegrpc_server_wait(struct delegrpc_server *server, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed server has something to do. The first
 * call opens it; it belongs to the server until destroy. Clients that connected earlier wake it as
 * well. It takes three descriptors of this process; a client that wakes a server takes one. Not
 * negative, or
 *	-ENETUNREACH	a client is connected from another network namespace and could not
 *			wake this server, or there is no /proc to find that out
 *	-EBADF		in a forked child
 *	-EMFILE, -ENFILE, -ENOMEM, ...
 */
int delegrpc_server_fd(struct delegrpc_server *server);

/*
 * Arms the descriptor: publishes replies, wakes clients, empties the descriptor, and checks once
 * more. 0: the caller may sleep; 1: it must poll again instead; -EBADF: there is no descriptor, do not
 * wait for it.
 */
int delegrpc_server_arm(struct delegrpc_server *server);

/* Writes as many bytes of the counters as *stats_p has: size, sizeof(*stats_p). */
void delegrpc_server_get_stats(const struct delegrpc_server *server,
	struct delegrpc_server_stats *stats_p, size_t size);

/* ---- client ---- */

/*
 * Handles the response to the call with that token. resp points at the len bytes that the server
 * sent, in shared memory, aligned to 8 and valid until the function returns.
 */
typedef void delegrpc_response_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

struct delegrpc_client_stats {
	uint64_t calls; /* accepted */
	uint64_t responses; /* delivered */
	uint64_t late_responses; /* of blocking calls that had timed out, dropped */
	uint64_t bad_responses; /* dropped: no such call, or impossible length */
	uint64_t flushes; /* publications; calls / flushes is the batch size */
	uint64_t full; /* publications put off: no room in the ring */
	uint64_t sleeps; /* or times it was armed */
	uint64_t wakes; /* of the sleeping server */
};

/*
 * Connects to a server. Fields of attr that are not zero must be the region's (after
 * rounding); attr may be NULL. 0, or
 *	-EINVAL		the name, or mode, gid and set, as above
 *	-ENOENT		no server yet: try again later
 *	-ECONNREFUSED	the server is dead: try again later
 *	-EAGAIN		the server is just starting: try again at once
 *	-EPROTO		no region of this library, another version, or another attribute
 *	-EUSERS		max_clients are connected: try again later
 *	-ENETUNREACH	the server sleeps on a descriptor, in another network namespace
 *	-EPERM		the server sleeps on a descriptor, and this process may not send to it
 *	-EACCES, -ELOOP	the region is another user's, or has another mode or gid; or as -EPERM
 *	-E2BIG		as above
 *	-ENOMEM, -EMFILE, ...
 */
int delegrpc_client_connect(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_client **client_p);

/* Pending calls end without a response. Frees the client. NULL is allowed. */
void delegrpc_client_disconnect(struct delegrpc_client *client);

/* The region's attributes, and this client's id in it. */
void delegrpc_client_get_attr(const struct delegrpc_client *client, struct delegrpc_attr *attr_p,
	size_t size);
uint32_t delegrpc_client_index(const struct delegrpc_client *client);

/*
 * Stages a request of len bytes (copied; req may be NULL when len is 0). The token comes back with
 * the response. If len is a compile-time constant, the copy is inlined. A response function may
 * call, too. 0, or
 *	-EAGAIN		resp_depth calls are in flight, or the ring is full: poll and retry
 *	-EMSGSIZE	len over req_size
 *	-EPIPE		the server has gone: disconnect
 */
DELEGRPC_INLINE int delegrpc_client_call(struct delegrpc_client *client, const void *req,
	uint32_t len, uint64_t token);

/*
 * Publishes the staged calls, and wakes the server if it sleeps. 0, or
 *	-EAGAIN		the ring is full: poll and retry (a poll tries, too)
 *	-EPIPE		the server has gone: disconnect
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	published, but the server sleeps: see
 *			delegrpc_client_poll()
 */
DELEGRPC_INLINE int delegrpc_client_flush(struct delegrpc_client *client);

/*
 * Publishes the staged calls and hands at most DELEGRPC_BATCH responses to fn (a constant fn is
 * inlined). Returns the number of responses, 0 for none yet, or
 *	-EPIPE		the server has gone, and every response it wrote has been handed out:
 *			the calls still pending will never be answered; disconnect
 *	-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS	the server sleeps on its descriptor and could not be
 *			woken for lack of a descriptor or of memory: free some, poll and retry
 *	-ENETUNREACH	likewise, because this thread has left the server's network namespace
 *	-EPERM, -EACCES, ...	likewise, because a sandbox forbids it. In these cases the calls stay
 *			published: the server finds them when another client wakes it, or when a
 *			later poll, flush or wait of this one can
 * fn may call delegrpc_client_call() and delegrpc_client_flush() for this client, but must not poll,
 * wait, arm or disconnect it.
 */
DELEGRPC_INLINE int delegrpc_client_poll(struct delegrpc_client *client, delegrpc_response_fn *fn,
	void *arg);

/* Accepted calls whose response has not been handed out. */
DELEGRPC_INLINE uint32_t delegrpc_client_pending(const struct delegrpc_client *client);

/*
 * Publishes, wakes the server unless a response is there, and waits for a response. 1: there is one
 * to poll; 0: timeout_ns nanoseconds have passed, nothing is pending, or a signal interrupted the
 * sleep; errors as of delegrpc_client_poll(), at once.
 */
int delegrpc_client_wait(struct delegrpc_client *client, uint64_t timeout_ns);

/*
 * As delegrpc_server_fd(), for responses; or
 *	-ENETUNREACH	the server is in another network namespace and could not wake
 *			this client, or /proc is not there to tell
 */
int delegrpc_client_fd(struct delegrpc_client *client);

/*
 * As delegrpc_server_arm(). Publishes calls and wakes the server first. With calls pending the
 * descriptor is readable after 100 ms at the latest, so that a poll finds a dead server in time. Errors
 * as well of delegrpc_client_poll() if the server could not be woken: it is not armed then.
 */
int delegrpc_client_arm(struct delegrpc_client *client);

/*
 * Makes a call and waits for its response. Copies at most capacity bytes of it to resp; *len_p gets
 * the bytes that the server sent, which may be more (len_p may be NULL). Signals do not end the
 * wait. 0, or
 *	-EBUSY		other calls are pending: their responses would have nowhere to go
 *	-ETIMEDOUT	no response within timeout_ns; one that comes late is dropped, but
 *			the call may have been, or may yet be, carried out
 *	-EAGAIN		as many calls as resp_depth timed out and are still unanswered, or the
 *			ring is full: poll and retry
 *	-EMSGSIZE, -EPIPE	as above
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	as of delegrpc_client_poll(), at once; otherwise
 *			as -ETIMEDOUT
 */
int delegrpc_client_call_wait(struct delegrpc_client *client, const void *req, uint32_t len,
	void *resp, uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p);

/* As delegrpc_server_get_stats(). */
void delegrpc_client_get_stats(const struct delegrpc_client *client,
	struct delegrpc_client_stats *stats_p, size_t size);

/* ---- looking at a region from outside ---- */

/* DEAD: the process has ended, or has left; known from its lock. The others are as it last said. */
enum delegrpc_look_state {
	DELEGRPC_LOOK_DEAD,
	DELEGRPC_LOOK_RUNNING,
	DELEGRPC_LOOK_WAITING, /* polls and yields its core */
	DELEGRPC_LOOK_ASLEEP, /* in the kernel, until the other side wakes it */
};

/*
 * A region as it was read, in parts, while others went on. The kernel knows which processes are alive. The
 * rest is what the region says, and a process that may write to the region may have forged it.
 * Slots in use are those that clients have reserved and the server has not given back: requests that
 * wait, that are being served or that are held, and holes.
 */
struct delegrpc_look_region {
	struct delegrpc_attr attr; /* the sizes, and the access that the file has */
	uint64_t size; /* of the region, in bytes */
	enum delegrpc_look_state server;
	uint32_t clients; /* alive */
	uint32_t dead_clients; /* that have not been cleaned up yet */
	uint32_t connects; /* so far */
	uint32_t in_use; /* slots of the request ring; at most ring_depth */
};

struct delegrpc_look_client {
	uint32_t id; /* as delegrpc_client_index() */
	enum delegrpc_look_state state;
};

typedef void delegrpc_look_fn(void *arg, const struct delegrpc_look_client *client);

/*
 * Looks at the region of this name without connecting: opens the file for reading only, does not
 * map it, takes no lock and no place, and disturbs nobody. Each client, dead ones included, is passed
 * to fn, unless that is NULL. *look_p has size bytes. Needs read permission and works with dead
 * servers. 0, or
 *	-EINVAL, -ENOENT, -ELOOP	as connect
 *	-EACCES		the file may not be read, or is no regular one
 *	-EPROTO		no region of this library, another version, or not complete yet
 */
int delegrpc_look(const char *name, struct delegrpc_look_region *look_p, size_t size,
	delegrpc_look_fn *fn, void *arg);

/*
 * Removes the name of a region whose server is dead. Clients that still have it keep their memory. A
 * server that starts at this moment either keeps its new region or finds the name free. 0, or, with
 * nothing removed,
 *	-EADDRINUSE	the server is alive
 *	-EPROTO		the file is no region of this library, or not complete
 *	-EAGAIN		a server is starting with this name at this moment, or another process
 *			is removing it
 *	-EACCES		another user's, or with another mode than a region has
 *	-EINVAL, -ENOENT, -ELOOP	as connect
 */
int delegrpc_remove_dead(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include "delegrpc_inline.h" /* the hot path */

#endif
