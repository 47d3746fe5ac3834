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
 * Posts: with delegrpc_client_post() a client sends a message that has no response and no token.
 * Calls and posts of one client are received in the order in which they were made. A post is in
 * flight until the server has given its slot back (delegrpc_server_advance_tail()), and counts
 * against resp_depth as a call does. A post whose client dies is received if it was published. If
 * the server dies, the posts whose slots it had given back have been received. It may also have
 * received some of the later posts, after its last delegrpc_server_advance_tail(). The rest are
 * lost. The function delegrpc_client_posts() returns the number of posts that are not known to have
 * been received.
 *
 * Visibility: calls and posts are staged in private memory and published eight at a time, with one
 * atomic addition. They become visible to the server at the latest in the client's next poll,
 * flush, wait or arm, unless the ring is full then. If a client has eight or more calls in flight,
 * and resp_size is at most 248, replies to the client are collected (a quarter of the number in
 * flight, at most eight) and published together. The server publishes collected replies at the
 * latest in the first of these:
 *	- a reply to another client
 *	- a delegrpc_server_recv() that finds nothing, a flush, an arm, a destroy
 *	- a poll or wait that finds no request
 *	- the second of two polls or waits without a reply in between
 * All other replies are published immediately. No function spins on another process: a function
 * that cannot proceed returns -EAGAIN.
 *
 * Waking: a process does not check at each publication whether its peer sleeps. It checks later,
 * with one memory barrier for all publications since the last check, and wakes the peer:
 *	- in a flush or an arm
 *	- in a poll or a wait that finds nothing
 *	- otherwise after 16 publications (a client) or 16 polls (a server)
 * After a call, a post or a reply, a thread must call flush before it does other work: otherwise a
 * sleeping peer may not be woken.
 *
 * Threads: at most one thread at a time may use a server object or a client object; different
 * objects are independent. A process may hold any number of objects, including the server and
 * clients of one region. A child made by fork() must not use the objects of its parent; it may
 * disconnect or destroy them, which then only frees memory.
 *
 * Death: a process that is killed, at any instruction, does not block the others. Requests that a
 * dead client had published are served, slots that it had only reserved are skipped, and the
 * client's id is free for the next client: immediately or, if the server takes events, when the
 * event of the death has been taken. If the server is killed or destroyed, clients that wait, or
 * poll at least twenty times a second, get -EPIPE within a second. For a client that polls less
 * often, at most fifteen polls find nothing before a poll returns -EPIPE. A new server of the same
 * name replaces the region of a dead one. If a client is stopped (SIGSTOP, a debugger) in the few
 * instructions between reserving and filling its slots, the others wait until it continues or dies.
 *
 * Trust: the region belongs to one user (mode 0600: other users are refused), or to a group that
 * the server names (mode 0660). A process that has mapped the region can write anywhere in it. Such
 * a process cannot make the server read or write outside of the region. It cannot make the server
 * hang, unless the server takes events. But it can:
 *	- spoil, forge or delay the calls of others
 *	- keep all others from connecting, by taking all client ids or their locks
 *	- if the server takes events (delegrpc_server_event()): make requests under the index of a
 *	  client that has connected, also after that client's death
 *	- if the server takes events: keep the server from learning which clients come, by filling
 *	  the server's socket, or by replacing the socket's address in the region; clients then send
 *	  descriptors of the region's file to the new address
 *	- if the server takes events: block the server's thread, by sending the server a descriptor
 *	  that takes as long to check or to close as the sender wants (a file of FUSE, a TCP socket
 *	  with SO_LINGER). Meanwhile, each fork() of the server's process is blocked, and so is each
 *	  of its threads in which delegrpc opens or closes a descriptor for wake-ups
 *	- truncate the file, which kills every process that accesses it, the server included, by
 *	  SIGBUS
 * With mode 0600 only processes of the same user can do this, and they could also kill the server
 * by a signal. With mode 0660 every member of the group can do it, so name only a group whose
 * members may stop the server. With mode 0660, a lock on /dev/shm/delegrpc-guard.<name>, a file of
 * mode 0600, shows that the server is alive. So a member cannot keep the server's user from
 * starting another server, and cannot make a dead server look alive to clients of that user. A
 * member can make a dead server look alive to clients of other users, until the next server starts.
 *
 * Descriptors: a thread that also waits for other events sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { delegrpc_server_fd(s), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = delegrpc_server_arm(s)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(s) > 0)    // polls, receives, replies, advances the tail
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: the caller must not read, write or close it. An object is
 * armed until the next function call with that object, so delegrpc_server_arm() must be the last
 * call before poll(2). A thread may arm several objects; if arm returned 1 for any of them, the
 * timeout must be 0. After a wake-up, poll the object as usual; its descriptor stays readable until
 * the object is armed again. Spurious wake-ups are possible. It does not matter whether the peer
 * also uses a descriptor.
 *
 * Descriptors work only within one network namespace, and only if the client's sandbox allows
 * abstract sockets. If the server has a descriptor that a client cannot wake, connect fails. If
 * connected clients are in another network namespace, delegrpc_server_fd() fails. It does not
 * notice a client's sandbox: then, or if one of these causes arises later, the client's calls are
 * delayed, and its flush, poll, wait and arm return the error (see delegrpc_client_poll()). The
 * descriptor of an armed client with pending calls becomes readable within 100 ms, so that the
 * client polls and finds a dead server. The descriptor of an armed server that no client wakes
 * becomes readable after 100 ms, but only in three cases:
 *	- while a dead client may block the ring
 *	- while a client could not be woken for lack of a descriptor
 *	- while clients are connected, if the server takes events
 * If a client dies after publishing a request and before waking the server (see Waking), or if
 * another process spoils the wake-up by writing into the region, the request waits until the next
 * client wakes the server. A timeout of the server's poll(2) limits how long it waits.
 *
 * Waiting: the functions delegrpc_client_wait() and delegrpc_server_wait() poll for about 1 us,
 * with a pause instruction between polls, then yield the core between polls for about 100 us, and
 * then sleep in the kernel. A program with a polling loop of its own should do the same.
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
 * defines this macro, as empty, so that libdelegrpc exports the same functions for programs in
 * other languages.
 */
#ifndef DELEGRPC_INLINE
#define DELEGRPC_INLINE static inline
#endif

#define DELEGRPC_BATCH 8 /* maximum of calls or replies per publication, responses per poll */
#define DELEGRPC_SERVER_POLL_MAX 32 /* maximum of requests that one server poll makes available */

/*
 * Limits on the work of one poll of a server, or of one poll within a wait, in its search for holes
 * (slots that a dead client has reserved and will never fill).
 */
#define DELEGRPC_POLL_LOOKS 64 /* checks of clients' locks, each a system call */
#define DELEGRPC_POLL_SKIPS 1024 /* holes skipped */

#define DELEGRPC_FOREVER UINT64_MAX /* a timeout: wait without limit */
#define DELEGRPC_SET_GID 1u /* bit of attr.set: gid is valid; needed because gid 0 is a group */
#define DELEGRPC_POST UINT64_MAX /* the id of a request that is a post, which has no reply */
#define DELEGRPC_MAX_NAME 192
#define DELEGRPC_MAX_CLIENTS 4096
#define DELEGRPC_MAX_RING_DEPTH (1u << 24)
#define DELEGRPC_MAX_RESP_DEPTH (1u << 15)
#define DELEGRPC_MAX_PAYLOAD (1u << 16) /* bytes of a request's or of a response's payload */

/*
 * The sizes and the access of a region. Zero means the default. A request has a header of 16 B and
 * begins at a multiple of 16 B; a response has a header of 8 B and begins at a multiple of 8 B.
 * With the default sizes each message fills a cache line. Smaller messages share cache lines, which
 * makes large bursts faster.
 */
struct delegrpc_attr {
	/*
	 * sizeof(struct delegrpc_attr). 0 means that the struct ends with the member `set`. Every
	 * version has the members up to `set`; later versions add members after it.
	 */
	size_t size;
	uint32_t max_clients; /* maximum number of clients connected at a time; default 64 */
	/*
	 * Slots in the request ring, rounded up to a power of two. The default is the larger of 256
	 * and max_clients * resp_depth, rounded up, but at most DELEGRPC_MAX_RING_DEPTH. A ring of
	 * fewer than max_clients * resp_depth slots can fill up, so its clients also read the
	 * server's tail, which costs time. Such a ring must have more than max_clients *
	 * DELEGRPC_BATCH slots, because clients may check for room at the same time, and then
	 * reserve one batch each.
	 */
	uint32_t ring_depth;
	/* Calls and posts in flight per client, rounded up to a power of two; default 64. */
	uint32_t resp_depth;
	uint32_t req_size; /* largest request payload in bytes; default 48 */
	uint32_t resp_size; /* largest response payload in bytes; default 56 */
	/*
	 * The access. 0600 or 0: only the server's user may connect. 0660: the members of the
	 * region's group may connect, too. That group is `gid` if `set` contains
	 * DELEGRPC_SET_GID, otherwise the group of the server's process. In connect, `mode` (unless
	 * it is 0) and `gid` (if `set` contains DELEGRPC_SET_GID) are what the caller expects:
	 * connect fails if those of the region differ. A client of another user must be a member of
	 * the group and must set mode to 0660 as well.
	 */
	uint32_t mode;
	uint32_t gid; /* only with mode 0660; if not 0, `set` must contain DELEGRPC_SET_GID */
	uint32_t set; /* DELEGRPC_SET_*; DELEGRPC_SET_GID only with mode 0660 */
	/*
	 * Connect only: for this many milliseconds, connect retries after -ENOENT, -ECONNREFUSED,
	 * -EAGAIN and -EUSERS.
	 */
	uint32_t connect_ms;
	/* Create only: not 0 if the server takes events (delegrpc_server_event()). */
	uint32_t events;
};

struct delegrpc_server;
struct delegrpc_client;

/* ---- server ---- */

/* One request, as delegrpc_server_recv() hands it out. */
struct delegrpc_req {
	uint32_t client; /* index of the client, less than max_clients; for the reply */
	uint32_t len; /* bytes of the payload, at most req_size */
	/*
	 * DELEGRPC_POST for a post. Otherwise an opaque number for the reply. It is unique among
	 * the unanswered requests with this client index, including those of former clients.
	 */
	uint64_t id;
	/*
	 * In the ring, 16-byte aligned; valid until this request is replied to, or until the next
	 * delegrpc_server_recv() or delegrpc_server_advance_tail(), whichever is first. A client
	 * can still write there, so a server that does not trust its clients must copy the payload
	 * before it checks it.
	 */
	const void *payload;
};

enum delegrpc_event_kind {
	DELEGRPC_EVENT_CAME, /* a client has connected */
	DELEGRPC_EVENT_LEFT, /* a client has disconnected */
	DELEGRPC_EVENT_DIED, /* a client has ended without disconnecting */
};

/*
 * An event of a client. pid, uid and gid are those of the client's process when it connected, as
 * reported by the kernel. They are not known (pid 0, uid and gid UINT32_MAX) if the client could
 * not send to the server's socket, because it is in another network namespace or in a sandbox
 * without abstract sockets, or because the server did not read the socket for 0.2 s, or had no free
 * descriptor when it did. For a process of another pid namespace, pid may be 0. Another process
 * that has mapped the region can write requests with this client's index, too (see Trust).
 */
struct delegrpc_event {
	uint32_t kind; /* enum delegrpc_event_kind */
	uint32_t index; /* the client's index, as in its requests */
	uint32_t pid, uid, gid;
};

struct delegrpc_server_stats {
	uint64_t requests; /* calls handed out by recv */
	uint64_t replies; /* written, or collected and not published yet */
	uint64_t stale_replies; /* refused with -EPIPE or dropped, because the client had gone */
	uint64_t bad_requests; /* dropped: impossible client, id or length */
	uint64_t holes; /* slots skipped, because a dead client had reserved them */
	uint64_t looks; /* checks of clients' locks, in search of holes */
	uint64_t bursts; /* publications of replies; replies / bursts is the mean size of a burst */
	uint64_t sleeps; /* times that this server slept or was armed */
	uint64_t wakes; /* sleeping clients woken */
	uint64_t yields; /* times that this server, while busy, yielded its core to clients */
	uint64_t posts; /* posts handed out by recv */
};

/*
 * Makes the region /dev/shm/delegrpc.<name> and serves it. The region of a dead server with that
 * name is replaced. attr may be NULL (all defaults). Returns 0, or
 *	-EINVAL		the name is empty, contains '/' or is over DELEGRPC_MAX_NAME bytes, or
 *			an attribute is out of range, or ring_depth is too small
 *	-E2BIG		attr has a field that this version does not know, and it is not 0
 *	-EADDRINUSE	a living server has the name: choose another
 *	-EACCES, -ELOOP	another user has the name
 *	-EPERM		the server's user is not a member of the group gid
 *	-ENOSPC		/dev/shm is full: choose smaller attributes
 *	-EFBIG		the region exceeds the process's limit of file sizes (RLIMIT_FSIZE)
 *	-ENOMEM, -EMFILE, ...
 */
int delegrpc_server_create(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_server **server_p);

/*
 * Removes the name immediately. No client can connect any more, connected clients stay connected,
 * and nothing is left behind if all processes crash later. Returns 0, also if the name was removed
 * before, or -errno of shm_unlink(3).
 */
int delegrpc_server_unlink(struct delegrpc_server *server);

/* Removes the name and frees the server. Clients get -EPIPE. NULL is allowed. */
void delegrpc_server_destroy(struct delegrpc_server *server);

/*
 * Writes the region's attributes, after rounding, to *attr_p, at most size bytes. The attributes
 * may be passed to create or connect.
 */
void delegrpc_server_get_attr(const struct delegrpc_server *server, struct delegrpc_attr *attr_p,
	size_t size);

/*
 * Looks for requests. Returns how many requests delegrpc_server_recv() can now hand out, at most
 * DELEGRPC_SERVER_POLL_MAX. Requests are handed out in the order in which their slots were
 * reserved. New requests are looked for only when all that were found before have been handed out.
 * Publishes replies (see Visibility), and wakes clients (see Waking). Every 256 empty polls it
 * checks whether a dead client blocks the ring, and skips and gives back the slots that this client
 * reserved. One poll makes at most DELEGRPC_POLL_LOOKS checks and DELEGRPC_POLL_SKIPS skips; the
 * next polls do the rest. A busy server yields its core every 150 us if clients wait. Returns 0 if
 * there is no request yet, or
 *	-EPROTO		a process has overwritten the ring's indices, which cannot be repaired. The
 *			clients get -EPIPE; destroy the server
 */
DELEGRPC_INLINE int delegrpc_server_poll(struct delegrpc_server *server);

/*
 * Takes the next of the requests that the last poll found. Returns 1 and the request in *req_p, or
 * 0 if all these requests have been handed out. Before it returns 0, the function publishes the
 * replies. Requests with an impossible client, id or length are counted and dropped.
 */
DELEGRPC_INLINE int delegrpc_server_recv(struct delegrpc_server *server,
	struct delegrpc_req *req_p);

/*
 * Gives the slots of all requests that were handed out back to the clients. Call it when the
 * requests of a poll have been handled, before the next wait. Until slots are given back, clients
 * get -EAGAIN if the ring is full. A new client cannot publish calls until the slots that were
 * reserved before it connected are given back. A post is in flight until its slot is given back.
 * The function need not be called if nothing was handed out: slots that were skipped, or whose
 * request was dropped, are given back without it.
 */
DELEGRPC_INLINE void delegrpc_server_advance_tail(struct delegrpc_server *server);

/*
 * Answers a request. Requests may be answered in any order and at any time. Copies len bytes of
 * resp (which may be NULL when len is 0), and passes len on to the client. See Visibility and
 * Waking for when the client receives the response. If len is a compile-time constant, the copy is
 * inlined. Returns 0, or, with nothing sent,
 *	-EINVAL		this request is not open (never received, replied to already, or a
 *			post): a bug of the caller
 *	-EMSGSIZE	len exceeds resp_size: send a shorter response
 *	-EPIPE		the client of this request has gone, and a later client uses its index: drop
 *			the request
 * A reply to a client that died and has no successor yet returns 0, but is never read. If such a
 * reply is not published yet when the successor's first request is received, it is dropped.
 */
DELEGRPC_INLINE int delegrpc_server_reply(struct delegrpc_server *server, uint32_t client,
	uint64_t id, const void *resp, uint32_t len);

/*
 * Handles a request. payload is req->payload, here valid until the request is replied to or the
 * function returns, whichever is first. A server that does not trust its clients must copy the
 * payload before it checks it. The function answers with delegrpc_server_reply(), or keeps a copy
 * of *req and answers later; a post gets no answer. The function may also reply to other requests,
 * but must not poll, receive, serve, wait or destroy.
 */
typedef void delegrpc_serve_fn(void *arg, const struct delegrpc_req *req, const void *payload);

/*
 * Polls, calls fn(arg, ...) for each request that the poll found, at most max times, gives the
 * slots back, publishes the replies and wakes their clients. Returns how often it called fn, or an
 * error of delegrpc_server_poll(). While there is an event to take (delegrpc_server_event()), fn is
 * not called. So if a program takes all events before each call of this function, it gets the event
 * of a client's arrival before that client's first request. A server that has nothing else to do:
 *
 *	while ((n = delegrpc_server_serve(s, fn, arg, 256)) >= 0)
 *		if (!n)
 *			delegrpc_server_wait(s, DELEGRPC_FOREVER);
 */
DELEGRPC_INLINE int delegrpc_server_serve(struct delegrpc_server *server, delegrpc_serve_fn *fn,
	void *arg, uint32_t max);

/*
 * Publishes all replies, and wakes the sleeping clients that got a reply since the last such check.
 * A server must call this function after a reply, before it does other work.
 */
DELEGRPC_INLINE void delegrpc_server_flush(struct delegrpc_server *server);

/*
 * Waits for a request or, if the server takes events, an event. If there is none at first,
 * publishes replies and wakes clients. Returns 1 if there is a request or an event, 0 if timeout_ns
 * nanoseconds have passed or a signal interrupted the sleep, or -EPROTO like
 * delegrpc_server_poll().
 */
int delegrpc_server_wait(struct delegrpc_server *server, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed server has something to do. The first
 * call opens the descriptor, which belongs to the server until destroy. Clients that connected
 * before the first call can wake the server as well. Each object uses one descriptor of its
 * process, one more with mode 0660 if the process can open the guard file (see Trust), and a server
 * that takes events one more. delegrpc_server_fd() or delegrpc_client_fd() adds three. An object
 * that has sent a wake-up to a peer's descriptor (as connect does) uses one more. Errors:
 *	-ENETUNREACH	a client is connected from another network namespace and could not
 *			wake this server, or there is no /proc to find that out
 *	-EBADF		in a forked child
 *	-EMFILE, -ENFILE, -ENOMEM, ...
 */
int delegrpc_server_fd(struct delegrpc_server *server);

/*
 * Arms the descriptor: publishes replies, wakes clients, empties the descriptor, and checks once
 * more for requests. Returns 0 if the caller may sleep, 1 if it must poll again instead, or
 *	-EBADF		delegrpc_server_fd() has not opened the descriptor
 *
 * A thread must call this function each time before it sleeps in poll(2), because clients make the
 * descriptor readable only while the server is armed.
 */
int delegrpc_server_arm(struct delegrpc_server *server);

/*
 * Takes the next event of a server that was created with attr.events: a client has come, left or
 * died. Writes at most size bytes to *event_p. An index goes to another client only after the event
 * of its last client's end has been taken, so a server can keep data for each client and free them
 * at that event. Call this function after each poll and wait, before delegrpc_server_recv(), until
 * it returns 0. Then the event of a client's arrival precedes that client's first request, and the
 * event of the client's end follows its last request. This function also looks for clients that
 * have died: if it is called continuously, it tests 64 indices every 10 ms. A server that waits or
 * is armed tests 64 indices every 100 ms, so it finds a death after at most about max_clients / 640
 * seconds. Memory for two events per index is reserved; if the events are not taken, each index is
 * used only once. Returns 1, 0 if there is no event, or
 *	-EINVAL		attr.events was 0: a bug of the caller
 */
int delegrpc_server_event(struct delegrpc_server *server, struct delegrpc_event *event_p,
	size_t size);

/* Copies at most size bytes of the counters to *stats_p; size is sizeof(*stats_p). */
void delegrpc_server_get_stats(const struct delegrpc_server *server,
	struct delegrpc_server_stats *stats_p, size_t size);

/* ---- client ---- */

/*
 * Handles the response to the call with this token. resp points into shared memory, at the len
 * bytes that the server sent; it is aligned to 8, and valid until the function returns. resp is
 * NULL if delegrpc_client_abort() hands the token back.
 */
typedef void delegrpc_response_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

struct delegrpc_client_stats {
	uint64_t calls; /* accepted */
	uint64_t responses; /* delivered */
	uint64_t late_responses; /* dropped: responses to blocking calls that had timed out */
	uint64_t bad_responses; /* dropped: no such call, or impossible length */
	uint64_t flushes; /* publications; (calls + posts) / flushes is the mean batch size */
	uint64_t full; /* publications put off because the ring had no room */
	uint64_t sleeps; /* times that this client slept or was armed */
	uint64_t wakes; /* times that this client woke the sleeping server */
	uint64_t posts; /* accepted */
};

/*
 * Connects to a server. The sizes in attr that are not zero must be equal to the region's (after
 * rounding); for mode, gid and set see struct delegrpc_attr. attr may be NULL. Returns 0, or
 *	-EINVAL		name, mode, gid or set is not valid (see delegrpc_server_create())
 *	-ENOENT		no server yet: try again later
 *	-ECONNREFUSED	the server is dead: try again later
 *	-EAGAIN		the server is just starting: try again immediately
 *	-EPROTO		not a region of this library, another version, or an attribute differs
 *	-EUSERS		max_clients clients are connected, or have ended and the server has not
 *			taken the events of their ends: try again later
 *	-ENETUNREACH	the server sleeps on a descriptor, in another network namespace
 *	-EPERM		the server sleeps on a descriptor, and this process may not send to its
 *			socket
 *	-EACCES, -ELOOP	the region is another user's, or has another mode or gid; or the same
 *			cause as -EPERM; or -EACCES while another user's server with mode 0660 is
 *			just starting: try again (connect_ms and reconnect do not)
 *	-E2BIG		as for delegrpc_server_create()
 *	-ENOMEM, -EMFILE, ...
 */
int delegrpc_client_connect(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_client **client_p);

/*
 * Frees the client. Pending calls end without a response. Calls and posts that are still staged are
 * dropped: flush before. NULL is allowed.
 */
void delegrpc_client_disconnect(struct delegrpc_client *client);

/* Writes the region's attributes, like delegrpc_server_get_attr(). */
void delegrpc_client_get_attr(const struct delegrpc_client *client, struct delegrpc_attr *attr_p,
	size_t size);

/* Returns this client's index in the region. */
uint32_t delegrpc_client_index(const struct delegrpc_client *client);

/*
 * Stages a request of len bytes (copied; req may be NULL when len is 0). The token comes back with
 * the response. If len is a compile-time constant, the copy is inlined. A response function may
 * itself call delegrpc_client_call(). Returns 0, or
 *	-EAGAIN		as many calls and posts are in flight as resp_depth permits, or the ring is
 *			full: poll, or wait, and retry
 *	-EMSGSIZE	len exceeds req_size
 *	-EPIPE		the server has gone: abort, or disconnect
 */
DELEGRPC_INLINE int delegrpc_client_call(struct delegrpc_client *client, const void *req,
	uint32_t len, uint64_t token);

/*
 * Stages a message that has no response (see Posts). Otherwise the function is like
 * delegrpc_client_call(); a response function may call it, too. Returns the same as
 * delegrpc_client_call(). If either function returns -EAGAIN while posts are in flight, the client
 * wants room: a later delegrpc_client_wait() also waits for room, and room also wakes an armed
 * client. The client no longer wants room after a call or post was accepted, or after a wait or an
 * arm has returned 1 because there was room.
 */
int delegrpc_client_post(struct delegrpc_client *client, const void *req, uint32_t len);

/*
 * Returns the number of accepted posts that the server is not known to have received. If the number
 * is not 0, the client then wants room, as after -EAGAIN of a post: until another call or post is
 * accepted, a wait also ends when the server has received some of these posts. To wait for all:
 *
 *	while (delegrpc_client_posts(c) && delegrpc_client_wait(c, DELEGRPC_FOREVER) >= 0)
 *		delegrpc_client_poll(c, done, NULL);
 *
 * After -EPIPE, until a reconnect, the number tells how many posts may be lost.
 */
uint32_t delegrpc_client_posts(struct delegrpc_client *client);

/*
 * Publishes the staged calls and posts, and wakes the server if it sleeps. Returns 0, or
 *	-EAGAIN		the ring is full: poll and retry (poll also tries to publish the calls)
 *	-EPIPE		the server has gone and will not get the staged calls and posts: abort, or
 *			disconnect
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	the calls are published, but the server sleeps and
 *			could not be woken: see delegrpc_client_poll()
 */
DELEGRPC_INLINE int delegrpc_client_flush(struct delegrpc_client *client);

/*
 * Publishes the staged calls and posts, and calls fn for at most DELEGRPC_BATCH responses (a
 * constant fn is inlined). Returns the number of responses, 0 for none yet, or
 *	-EPIPE		the server has gone, and every response it wrote has been handed out. The
 *			calls still pending will never be answered: abort, or disconnect
 *	-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS	the server sleeps on its descriptor and could not be
 *			woken for lack of a descriptor or of memory: free some, poll and retry
 *	-ENETUNREACH	the same, because this thread has left the server's network namespace
 *	-EPERM, -EACCES, ...	the same, because a sandbox forbids it
 * If the server could not be woken, the calls stay published. The server finds them as soon as
 * another client wakes it, or a later poll, flush or wait of this client succeeds in waking it. fn
 * may call, post and flush with this client, but must not poll, wait, arm or disconnect it.
 */
DELEGRPC_INLINE int delegrpc_client_poll(struct delegrpc_client *client, delegrpc_response_fn *fn,
	void *arg);

/*
 * Returns the number of accepted calls whose response has not been handed out. Blocking calls that
 * timed out do not count.
 */
DELEGRPC_INLINE uint32_t delegrpc_client_pending(const struct delegrpc_client *client);

/*
 * Publishes the staged calls and posts, wakes the server unless a response has arrived, and waits
 * for a response. If the client wants room (see delegrpc_client_post()), the function also waits
 * for room. Returns 1 if there is a response to poll, or room; 0 if timeout_ns nanoseconds have
 * passed, nothing is pending, or a signal interrupted the sleep; or an error of
 * delegrpc_client_poll(), as soon as there is one.
 */
int delegrpc_client_wait(struct delegrpc_client *client, uint64_t timeout_ns);

/*
 * Returns the client's descriptor, like delegrpc_server_fd(). Two errors have other causes:
 *	-ENETUNREACH	the server is in another network namespace and could not wake
 *			this client, or there is no /proc to find that out
 *	-EBADF		in a forked child, or after a failed reconnect if no descriptor is open
 */
int delegrpc_client_fd(struct delegrpc_client *client);

/*
 * Arms the descriptor like delegrpc_server_arm(). Publishes calls and wakes the server first. If
 * calls are pending, the descriptor is readable after 100 ms at the latest, so that a poll finds a
 * dead server in time. Returns the same as delegrpc_server_arm(). If the server could not be woken,
 * returns an error of delegrpc_client_poll(), and the client is not armed.
 *
 * A client that has no pending calls and does not want room (see delegrpc_client_post()) is not
 * woken. So a loop that ends after the last response must check delegrpc_client_pending() before it
 * arms the client.
 */
int delegrpc_client_arm(struct delegrpc_client *client);

/*
 * Sets the function that gets responses to other calls if they arrive while
 * delegrpc_client_call_wait() waits. If fn is NULL, delegrpc_client_call_wait() fails while other
 * calls are pending. fn may do what a response function of delegrpc_client_poll() may do.
 */
void delegrpc_client_others(struct delegrpc_client *client, delegrpc_response_fn *fn, void *arg);

/*
 * Makes a call and waits for its response. Copies at most capacity bytes of the response to resp,
 * and writes the number of bytes that the server sent, which may be larger, to *len_p (len_p may be
 * NULL). Signals do not end the wait. Returns 0, or
 *	-EBUSY		other calls are pending, and delegrpc_client_others() has set no function
 *			for them: set one, or poll until none is pending
 *	-ETIMEDOUT	no response within timeout_ns; the server may have carried out the call, or
 *			may do so later, and a late response is dropped
 *	-EAGAIN		as many calls and posts are in flight as resp_depth permits (calls that
 *			timed out and are still unanswered count, too), or the ring is full: poll,
 *			or wait, and retry
 *	-EMSGSIZE, -EPIPE	as for delegrpc_client_call()
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	the errors of delegrpc_client_poll(), without
 *			waiting; the call and its response are treated as after -ETIMEDOUT
 */
int delegrpc_client_call_wait(struct delegrpc_client *client, const void *req, uint32_t len,
	void *resp, uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p);

/*
 * Ends the pending calls after any function has returned -EPIPE. Hands out the responses that have
 * arrived, then calls fn(arg, token, NULL, 0) for every call that is still pending. It is not known
 * whether the server has carried out those calls. For posts see delegrpc_client_posts(). Returns
 * the number of calls that ended without a response, or -EBUSY, with nothing done, if the
 * connection still works.
 */
int delegrpc_client_abort(struct delegrpc_client *client, delegrpc_response_fn *fn, void *arg);

/*
 * Connects to the next server of the same name, after delegrpc_client_abort(). That server must
 * have the same sizes and access. The object, its descriptor and its totals of sleeps and wakes
 * stay; the other counters begin at 0, and the index may differ. Tries for timeout_ns nanoseconds,
 * because a server needs time to restart. Returns 0, or an error of delegrpc_client_connect(),
 * after which the function may be called again, or
 *	-EBUSY		the connection still works, or calls are pending: poll, and abort them
 *	-ENETUNREACH	also: the client has a descriptor, and the server is in another network
 *			namespace
 *	-EBADF		in a forked child
 */
int delegrpc_client_reconnect(struct delegrpc_client *client, uint64_t timeout_ns);

/* Copies the counters like delegrpc_server_get_stats(). */
void delegrpc_client_get_stats(const struct delegrpc_client *client,
	struct delegrpc_client_stats *stats_p, size_t size);

/* ---- inspecting a region from outside ---- */

/*
 * The state of a server or client. The kernel's lock shows whether the process is dead; the other
 * states are those that the process wrote into the region.
 */
enum delegrpc_look_state {
	DELEGRPC_LOOK_DEAD, /* it has ended, or has disconnected */
	DELEGRPC_LOOK_RUNNING,
	DELEGRPC_LOOK_WAITING, /* it polls and yields its core */
	DELEGRPC_LOOK_ASLEEP, /* it sleeps in the kernel until the other side wakes it */
};

/*
 * A snapshot of a region. It is not atomic: other processes may have changed the region while it
 * was read. The kernel's locks tell which processes are alive. Everything else is read from the
 * region, where a process that may write to it may have forged it. Slots in use are those that
 * clients have reserved and the server has not given back (delegrpc_server_advance_tail()).
 */
struct delegrpc_look_region {
	struct delegrpc_attr attr; /* the sizes, and the access that the file has */
	uint64_t size; /* of the region, in bytes */
	enum delegrpc_look_state server;
	uint32_t clients; /* alive */
	uint32_t dead_clients; /* clients that ended, and whose ids are neither freed nor reused */
	uint32_t connects; /* since the region was made */
	uint32_t in_use; /* slots of the request ring in use; at most ring_depth */
};

struct delegrpc_look_client {
	uint32_t id; /* the client's delegrpc_client_index() */
	enum delegrpc_look_state state;
};

typedef void delegrpc_look_fn(void *arg, const struct delegrpc_look_client *client);

/*
 * Reads the region of this name without connecting: opens the file for reading only, does not map
 * it, takes no lock and no id, and disturbs no process. Calls fn for each client, dead ones
 * included, unless fn is NULL. Writes at most size bytes to *look_p. Needs read permission and
 * works with dead servers. Returns 0, or
 *	-EINVAL, -ENOENT, -ELOOP	as for delegrpc_client_connect()
 *	-EACCES		this process may not read the file, or it is not a regular file
 *	-EPROTO		not a region of this library, another version, or not complete yet
 */
int delegrpc_look(const char *name, struct delegrpc_look_region *look_p, size_t size,
	delegrpc_look_fn *fn, void *arg);

/*
 * Removes the name of a region whose server is dead. Clients that are still connected keep their
 * memory. A server that starts at this moment either keeps its new region or finds the name free.
 * Returns 0, or, with nothing removed,
 *	-EADDRINUSE	the server is alive
 *	-EPROTO		the file is not a region of this library, or not complete
 *	-EAGAIN		a server is starting with this name at this moment, or another process
 *			is removing it
 *	-EACCES		the file belongs to another user, or has a mode that no region has
 *	-EINVAL, -ENOENT, -ELOOP	as for delegrpc_client_connect()
 */
int delegrpc_remove_dead(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include "delegrpc_inline.h" /* the hot path */

#endif
