/* SPDX-License-Identifier: MIT */
/*
 * shmipc: short requests and responses between processes of one machine, through shared memory.
 * There is one server and many clients, with a pair of single-producer single-consumer rings per
 * client. A round trip of a short message moves two cache lines, or fewer if several messages are
 * published together.
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
 * Threads: at most one thread at a time may use a handle; different handles are independent, even
 * those of one server. A child of fork(2) must not use the handles of its parent; it may only
 * destroy or disconnect them.
 *
 * Visibility: if a client has at least eight calls in flight, or had that many at its last poll (a
 * poll without a new call since the previous poll does not count), its calls are collected and
 * published in bursts of up to eight. The replies to it are collected, too. Otherwise each of its
 * calls, and each reply to it, is published immediately; so are calls if req_size exceeds 120, and
 * replies if resp_size does. A client publishes collected calls at the latest in its next poll,
 * flush, wait or arm, or in a call that is refused with -EAGAIN. The server publishes collected
 * replies at the latest in the first of these:
 *	- a flush, an arm, a destroy, a reply to another client, a recv that returns 0
 *	- a poll or wait that finds no request
 *	- the second of two polls or waits without a reply in between
 *
 * Waking: a process does not check at each publication whether its peer sleeps, so one memory fence
 * serves many messages. It checks later, and wakes the peer:
 *	- in a flush or an arm
 *	- in a wait, before the thread yields its core or the function returns 0
 *	- in the eighth poll that finds nothing after the last publication
 *	- in a poll that finds something, if the publications and the polls that found something
 *	  since the last check are sixty-four or more in total
 * After a call or a reply, a thread must call flush before it does other work. A wait function
 * sleeps for at most 100 ms at a time, even if no wake-up comes.
 *
 * Exactly once: a call ends in one callback, unless the server dies or is destroyed. In that case
 * poll returns -EPIPE, shmipc_client_abort() hands the tokens of pending calls back, and
 * shmipc_client_reconnect() waits for the next server. A client that waits, or that polls at least
 * twenty times a second, gets -EPIPE within a second. For a client that polls less often, at most
 * fifteen polls find nothing before a poll returns -EPIPE.
 *
 * One-way messages: a client sends posts, the server sends pushes (attr.pushes). Neither has an
 * answer. Posts are received in order with the calls of their client, pushes in order with the
 * replies to their client. The receiver counts the one-way messages that it has consumed, and the
 * sender reads the count when it has no room left. A post is consumed when the server has copied it
 * (shmipc_server_recv()), a push when the client's function for it has returned. If the server
 * ends, the posts that it has not consumed are lost, and the pushes that it has published are still
 * delivered. If a client ends, the server may receive published posts of the client until it
 * notices the end. The other posts, and the pushes that the client has not consumed, are lost.
 *
 * Descriptors: a thread that also waits for other events sleeps in poll(2) or epoll(7):
 *
 *	struct pollfd p[] = { { shmipc_server_fd(s), POLLIN }, { pipe, POLLIN } };
 *	int busy;
 *
 *	while ((busy = shmipc_server_arm(s)) >= 0) {
 *		poll(p, 2, busy ? 0 : -1);
 *		while (serve(s) > 0)    // polls, receives, replies
 *			;
 *		...
 *	}
 *
 * The descriptor is for POLLIN only: the caller must not read, write or close it. A handle is
 * armed until the next function call with that handle, so shmipc_server_arm() must be the last call
 * before poll(2). A thread may arm several handles; if arm returned 1 for any of them, the timeout
 * must be 0. After a wake-up, poll the handle as usual; its descriptor stays readable until the
 * handle is armed again. Spurious wake-ups are possible. It does not matter whether the peer also
 * uses a descriptor.
 *
 * Descriptors work only within one network namespace, and only if the client's sandbox allows
 * abstract sockets. If the server has a descriptor that a client cannot wake, connect fails. If
 * connected clients are in another network namespace, shmipc_server_fd() fails. It does not notice
 * a client's sandbox: then, or if one of these causes arises later, the client's calls are
 * delayed, and its poll, wait and arm return the error (see shmipc_client_poll()). The descriptor
 * of an armed client with pending calls becomes readable within 100 ms even if nothing arrives, so
 * that the client polls and finds a dead server. The descriptor of an armed server that no client
 * wakes becomes readable after 100 ms, but only in two cases:
 *	- while a client could not be woken for lack of a descriptor
 *	- while clients are connected, if the server takes events (was created with attr.events)
 * If a client dies after publishing requests and before waking the server, or if another process
 * spoils the wake-up by writing into the region, the requests wait until the next client wakes the
 * server. A timeout of the server's poll(2) limits how long they wait.
 *
 * Trust: with mode 0600, no other user can open the region; with 0660, the members of a group that
 * the server names can open it. A process that can map the region can:
 *	- overwrite its contents (requests, responses and extra buffers of every client)
 *	- keep the server busy with forged connects
 *	- keep all others from connecting, by taking all places (one per client) or their locks
 *	- if the server takes events (shmipc_server_event()): make requests in the place of a client
 *	  that has connected, also after that client's death
 *	- if the server takes events: hide the pid, uid and gid of new clients from the server, by
 *	  filling the server's socket, or by replacing the socket's address in the region; clients
 *	  then send descriptors of the region's file to the new address
 *	- if the server takes events: block the server's thread, by sending the server a descriptor
 *	  that takes as long to check or to close as the sender wants (a file of FUSE, a TCP socket
 *	  with SO_LINGER). Meanwhile, each fork() of the server's process is blocked, and so is each
 *	  of its threads in which shmipc opens or closes a descriptor for wake-ups
 *	- shorten the file, which ends all processes that use the region, including the server, by
 *	  SIGBUS
 * With mode 0600 only processes of the same user can do this, and they could also kill the server
 * by a signal. With mode 0660 every member of the group can: name only a group whose members may
 * stop the server. With mode 0660, a lock on /dev/shm/shmipc-guard.<name>, a file of mode 0600,
 * shows that the server is alive. So a member cannot keep the server's user from starting another
 * server, and cannot make a dead server look alive to clients of that user. A member can make a
 * dead server look alive to clients of other users, until the next server starts. Nothing in the
 * region makes the server access memory outside of the region or wait for a client, because the
 * server reads and writes the rings through cursors in private memory.
 *
 * Loans: with attr.loans, messages of about 1 KiB and more need not be copied. Each client has a
 * pool of `loans` chunks in the region. The client writes a request into a chunk and commits it,
 * the server reads the request in place and may write its response into the same chunk, and the
 * client reads the response in place:
 *
 *	shmipc_client_loan(c, &q);		while (shmipc_server_take(s, &r, &q) > 0) {
 *	fill(q);					shmipc_server_loan(s, r.client, r.id, &a);
 *	shmipc_client_commit(c, q, len, token);		fill_answer(a, q, r.len);
 *							shmipc_server_commit(s, r.client, r.id, len);
 *						}
 *
 * In all other respects a call with a loan is like other calls, and both kinds can be mixed. The
 * chunk belongs to the client until shmipc_client_commit(), and then to the server until it
 * answers. Then the chunk belongs to the client again, until the response function returns; if that
 * function calls shmipc_client_hold(), until shmipc_client_release(). A process must not read or
 * write a chunk that it does not own, but nothing enforces this. A hostile process can change the
 * bytes while they are read, so copy what you check before you check it. The library reads the
 * number of the chunk and the length once, and checks them. If a client dies or disconnects, its
 * place, and so its chunks, go to another client only after the server has answered all requests in
 * loans of the old client (these answers return -EPIPE) or, with attr.events, has taken the event
 * of the old client's end. If the server dies, shmipc_client_abort() frees the chunks of pending
 * calls.
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
#define SHMIPC_MAX_LOANS 4096u
#define SHMIPC_MAX_LOAN (1u << 24)
#define SHMIPC_FOREVER UINT64_MAX
#define SHMIPC_POLL_MAX 8 /* maximum of responses and pushes that one client poll hands over */
#define SHMIPC_POST UINT32_MAX /* the id of a request that is a post, and must not be answered */

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines this macro, as empty, so that libshmipc exports the same functions for programs in other
 * languages.
 */
#ifndef SHMIPC_INLINE
#define SHMIPC_INLINE static inline
#endif

/* Returns the place of a client, 0 .. max_clients - 1, from its handle (shmipc_req.client). */
#define SHMIPC_CLIENT_INDEX(client) ((uint32_t)(client)&4095u)

/* The sizes and the access of a region. Zero means the default in brackets. */
struct shmipc_attr {
	/*
	 * sizeof(struct shmipc_attr). 0 means that the struct ends with the member `set`. Every
	 * version has the members up to `set`; later versions add members after it.
	 */
	size_t size;
	uint32_t max_clients; /* [64] at most SHMIPC_MAX_CLIENTS */
	uint32_t depth; /* [64] calls and posts in flight per client, at most SHMIPC_MAX_DEPTH */
	uint32_t req_size; /* [56] maximum bytes of a request, at most SHMIPC_MAX_PAYLOAD */
	uint32_t resp_size; /* [56] maximum bytes of a response, at most SHMIPC_MAX_PAYLOAD */
	uint32_t extra_size; /* [0] bytes of the buffer that a client shares with the server */
	/*
	 * The access. 0600 or 0: only the server's user may connect. 0660: the members of the
	 * region's group may connect, too. That group is `gid` if `set` contains
	 * SHMIPC_SET_GID, otherwise the group of the server's process. In connect, `mode` (unless
	 * it is 0) and `gid` (if `set` contains SHMIPC_SET_GID) are what the caller expects:
	 * connect fails if those of the region differ. A client of another user must be a member of
	 * the group and must set mode to 0660 as well.
	 */
	uint32_t mode;
	uint32_t gid; /* only with mode 0660; if not 0, `set` must contain SHMIPC_SET_GID */
	uint32_t set; /* SHMIPC_SET_*; SHMIPC_SET_GID only with mode 0660 */
	/*
	 * Connect only: for this many milliseconds, connect retries after -ENOENT, -ECONNREFUSED,
	 * -EAGAIN and -EUSERS.
	 */
	uint32_t connect_ms;
	/* Create only: not 0 if the server takes events (shmipc_server_event()). */
	uint32_t events;
	/*
	 * [0] pushes per client that may be unconsumed, at most SHMIPC_MAX_DEPTH. Each client's
	 * response ring is extended by the space for this number of bursts.
	 */
	uint32_t pushes;
	/*
	 * The loans (see Loans). Either all three are 0, or `loans` and at least one of the sizes
	 * are not 0. The region has loans * (loan_req_size + loan_resp_size) bytes for each client;
	 * each size is rounded up to a multiple of 64. A message about a loan has 8 bytes in the
	 * ring: choose 8 for req_size if all requests are in loans, and 8 for resp_size if all
	 * responses are.
	 */
	uint32_t loans; /* [0] chunks of each client, at most SHMIPC_MAX_LOANS */
	uint32_t loan_req_size; /* [0] bytes for the request in a chunk, at most SHMIPC_MAX_LOAN */
	uint32_t loan_resp_size; /* [0] the same for the response */
};

/* A request that the server has taken out of its ring. */
struct shmipc_req {
	uint64_t client; /* handle of the connection; no other connection to this server has it */
	uint32_t id; /* opaque; pass it to shmipc_server_reply(), unless it is SHMIPC_POST */
	uint32_t len; /* bytes that the client sent: at most req_size, or loan_req_size in a loan */
};

enum shmipc_event_kind {
	SHMIPC_EVENT_CAME, /* a client has connected */
	SHMIPC_EVENT_LEFT, /* a client has disconnected */
	SHMIPC_EVENT_DIED, /* a client has ended without disconnecting */
};

/*
 * An event of a client. pid, uid and gid are those of the client's process when it connected, as
 * reported by the kernel. They are not known (pid 0, uid and gid UINT32_MAX) if the client could
 * not send to the server's socket, because it is in another network namespace or in a sandbox
 * without abstract sockets, or because the server did not read the socket for 0.2 s, or had no free
 * descriptor when it did. For a process of another pid namespace, pid may be 0. Another process
 * that has mapped the region can write requests into this client's place, too (see Trust).
 */
struct shmipc_event {
	uint32_t kind; /* enum shmipc_event_kind */
	uint32_t index; /* the client's place: SHMIPC_CLIENT_INDEX() of its requests */
	uint32_t pid, uid, gid;
};

struct shmipc_server_stats {
	uint64_t requests, replies; /* from and to all clients since create */
	uint64_t bad_requests; /* dropped: impossible id or length */
	uint64_t clients; /* number of clients that were connected at the last poll */
	uint64_t connects; /* clients seen since create */
	uint64_t departures; /* clients that have disconnected */
	uint64_t reclaimed; /* clients that died without disconnecting */
	uint64_t sleeps, wakes; /* times that the server slept or was armed; clients woken */
	uint64_t yields; /* times that the server yielded its core while busy */
	uint64_t posts, pushes; /* posts received (not counted in `requests`), and pushes sent */
	uint64_t refused_pushes; /* pushes not sent for lack of room (-EAGAIN) */
};

struct shmipc_client_stats {
	uint64_t calls, responses; /* calls made, and calls ended in any way, since connect */
	uint64_t sleeps, wakes; /* times that the client slept or was armed; wakes of the server */
	uint64_t posts, pushes; /* posts made and pushes consumed, since connect */
};

/* ---- server ---- */

/*
 * Makes the region /dev/shm/shmipc.<name> with sizes attr (NULL: all defaults) and serves it until
 * destroy. The region of a dead server with that name is replaced; the clients of the dead server
 * get -EPIPE and may connect again. For each client the region has the extra buffer and two rings.
 * A ring has room for about 8 * depth messages, at least for 64; if a message may have more than
 * 120 bytes, for depth + 1 messages. Do not choose a larger depth than you need: short rings stay
 * in the first-level cache. Returns 0, or
 *	-EINVAL		the name is empty, contains '/' or is over SHMIPC_MAX_NAME bytes; a size
 *			is out of range; or mode, gid or set is not valid
 *	-E2BIG		attr has a field that this version does not know, and it is not 0
 *	-EADDRINUSE	a living server has the name: take another
 *	-EACCES, -ELOOP	the name is another user's, or a symbolic link: take another
 *	-EPERM		the server's user is not a member of the group gid
 *	-EFBIG		the region exceeds the process's limit of file sizes (RLIMIT_FSIZE)
 *	-ENOMEM, -ENOSPC, -EMFILE, ...	from the kernel; nothing is left behind
 */
int shmipc_server_create(const char *name, const struct shmipc_attr *attr,
	struct shmipc_server **server_p);

/*
 * Removes the region's name, so that nothing is left behind if all processes crash later. Connected
 * clients stay connected; no client can connect any more. Returns 0, also if the name was removed
 * before; or -errno of unlink(2), after which the name still exists.
 */
int shmipc_server_unlink(struct shmipc_server *server);

/* Removes the name and frees everything. Clients get -EPIPE. NULL is allowed. */
void shmipc_server_destroy(struct shmipc_server *server);

/*
 * Reads the ring of every connected client, starting with another client each time. Returns the
 * number of clients that have requests. After that, shmipc_server_recv() hands these requests out,
 * at most 8 of each client. While some of these requests are left, further polls read no other
 * rings, and return how many clients have requests left. Never fails and never blocks. Publishes
 * replies (see Visibility), and notices new, leaving and dead clients. While a client waits and has
 * yielded its core, the server yields about every 150 us, so that clients on the server's core can
 * run. A loop whose poll finds nothing should execute a pause instruction after the poll, or call
 * shmipc_server_wait().
 */
SHMIPC_INLINE int shmipc_server_poll(struct shmipc_server *server);

/*
 * Polls like shmipc_server_poll(), but always reads the rings, and skips the client in place i if
 * bit i % 64 of skip[i / 64] is set. Returns the same as shmipc_server_poll(). skip has max_clients
 * bits, belongs to the caller and is used during the call only. The requests of a skipped client
 * stay in its ring, which is backpressure for that client alone. But shmipc_server_wait(),
 * shmipc_server_arm() and shmipc_server_serve() skip no client: while a skipped client has
 * requests, wait and arm return 1 immediately, and a receive after them hands these requests out.
 */
SHMIPC_INLINE int shmipc_server_poll_with_skip(struct shmipc_server *server, const uint64_t *skip);

/*
 * Takes the next request of the clients that the last poll found. Fills *req_p in and copies at
 * most capacity bytes of the payload to buf. If req_p->len > capacity, the rest of the request is
 * lost. If req_p->len < capacity, the rest of the capacity bytes of buf is unspecified. If capacity
 * is a compile-time constant of at most 64, the copy is inlined. Returns 1, or 0 if there are no
 * more requests until the next poll. The bytes come from another process: check them. Requests with
 * an impossible id or length are counted and dropped.
 */
SHMIPC_INLINE int shmipc_server_recv(struct shmipc_server *server, struct shmipc_req *req_p,
	void *buf, uint32_t capacity);

/*
 * Takes a request like shmipc_server_recv(), but writes the address of the payload to *payload_p: a
 * request in a loan stays in place until it is answered, and is aligned to 64. Any other request is
 * copied to memory of the server, aligned to 16, where it is valid until the next take, serve or
 * destroy. Returns the same as shmipc_server_recv().
 */
SHMIPC_INLINE int shmipc_server_take(struct shmipc_server *server, struct shmipc_req *req_p,
	const void **payload_p);

/*
 * Answers the request (client, id) of shmipc_server_recv(). Each request gets one reply, at any
 * time and in any order. Copies len bytes of resp (which may be NULL when len is 0), and passes len
 * on to the client. If len is a compile-time constant of at most 64, the copy is inlined. Returns
 * 0, or, with nothing sent,
 *	-EPIPE		that client has gone (another client may have its place now): drop the
 *			request. If the request is in a loan, the loan has ended
 *	-EMSGSIZE	len exceeds resp_size: send a shorter response
 *	-EINVAL		no such request is unanswered (never received, or replied to already, or
 *			a post): a bug of the caller
 */
SHMIPC_INLINE int shmipc_server_reply(struct shmipc_server *server, uint64_t client, uint32_t id,
	const void *resp, uint32_t len);

/*
 * Finds the memory for a response in a loan. The request (client, id) must be in a loan and not
 * answered yet. *loan_p becomes the address of loan_resp_size bytes, aligned to 64, with undefined
 * contents. They belong to the caller until it answers the request by shmipc_server_commit() or
 * shmipc_server_reply(). Returns 0, or
 *	-EPIPE		that client has gone, but the loan has not ended: call commit or reply, which
 *			return -EPIPE and end it. Without attr.events, no other client gets the
 *			place before that
 *	-EINVAL		no such request is unanswered, or it is not in a loan: use
 *			shmipc_server_reply()
 */
int shmipc_server_loan(struct shmipc_server *server, uint64_t client, uint32_t id, void **loan_p);

/*
 * Answers like shmipc_server_reply(), but sends the first len bytes of the memory of
 * shmipc_server_loan(). Returns 0, or
 *	-EPIPE, -EINVAL	as for shmipc_server_loan(); after -EPIPE the loan has ended
 *	-EMSGSIZE	len exceeds loan_resp_size
 */
int shmipc_server_commit(struct shmipc_server *server, uint64_t client, uint32_t id, uint32_t len);

/*
 * Handles a request. payload points at req->len bytes, as in shmipc_server_take(): a request in a
 * loan is valid until it is answered, any other until the function returns. The function answers
 * with shmipc_server_reply() or shmipc_server_commit(), or keeps a copy of *req and answers later;
 * a post (req->id is SHMIPC_POST) gets no answer. The function may also reply to other requests and
 * push, but must not poll, receive, serve, wait or destroy.
 */
typedef void shmipc_serve_fn(void *arg, const struct shmipc_req *req, const void *payload);

/*
 * Polls, calls fn(arg, ...) for each request that the poll found, at most max times, publishes the
 * replies and wakes their clients. Returns how often it called fn. While there is an event to take
 * (shmipc_server_event()), fn is not called. So if a program takes all events before each call of
 * this function, it gets the event of a client's arrival before that client's first request. A
 * server that has nothing else to do:
 *
 *	for (;;)
 *		if (!shmipc_server_serve(s, fn, arg, 256))
 *			shmipc_server_wait(s, SHMIPC_FOREVER);
 */
SHMIPC_INLINE int shmipc_server_serve(struct shmipc_server *server, shmipc_serve_fn *fn, void *arg,
	uint32_t max);

/*
 * Sends a message to the client in place `index`: len bytes of msg (NULL if len is 0). The client
 * need not have a call in flight. The index is SHMIPC_CLIENT_INDEX() of a request's client,
 * event.index, or the client's shmipc_client_index(). A push is published like a reply to that
 * client. The client that the server means may have gone, and another client may have its place;
 * shmipc_server_event() reports such a change. Returns 0, or, with nothing sent,
 *	-EAGAIN		attr.pushes pushes to this client are not consumed yet: drop this one, or
 *			try again after a later poll. Other clients are not held up. The server has
 *			no function that waits for this room
 *	-EPIPE		no client has this place
 *	-EMSGSIZE	len exceeds resp_size
 *	-EINVAL		there is no such place, or attr.pushes is 0: a bug of the caller
 */
int shmipc_server_push(struct shmipc_server *server, uint32_t index, const void *msg, uint32_t len);

/*
 * Publishes the replies and pushes, and wakes those of their clients that sleep. A server must call
 * this function after a reply or push, before it does other work.
 */
SHMIPC_INLINE void shmipc_server_flush(struct shmipc_server *server);

/*
 * Polls until a request is there or timeout_ns nanoseconds have passed: spins for about 1 us,
 * yields for about 100 us, then sleeps. Returns 1 if shmipc_server_recv() will return a request or
 * shmipc_server_event() an event, 0 if the time has passed or a signal interrupted the sleep.
 */
int shmipc_server_wait(struct shmipc_server *server, uint64_t timeout_ns);

/*
 * Returns the descriptor that becomes readable when an armed server has something to do. The first
 * call opens the descriptor, which belongs to the server until destroy. Clients that connected
 * before the first call can wake the server as well. Each object uses one descriptor of its
 * process, one more with mode 0660 if the process can open the guard file (see Trust), and a server
 * that takes events one more. shmipc_server_fd() or shmipc_client_fd() adds three. An object
 * that has sent a wake-up to a peer's descriptor (as connect does) uses one more. Errors:
 *	-ENETUNREACH	a client is connected from another network namespace and could not
 *			wake this server, or there is no /proc to find that out
 *	-EBADF		in a forked child
 *	-EMFILE, -ENFILE, -ENOMEM, ...
 */
int shmipc_server_fd(struct shmipc_server *server);

/*
 * Arms the descriptor: publishes replies, wakes clients, empties the descriptor, and polls once
 * more. A thread must call this function each time before it sleeps in poll(2), because clients
 * make the descriptor readable only while the server is armed. Returns 0 if the caller may sleep, 1
 * if it must poll again instead, or
 *	-EBADF		shmipc_server_fd() has not opened the descriptor
 */
int shmipc_server_arm(struct shmipc_server *server);

/*
 * Takes the next event of a server that was created with attr.events: a client has come, left or
 * died. A client that ended before any poll noticed that it had come has no events. Writes at most
 * size bytes to *event_p. A place goes to another client only after the event of its last client's
 * end has been taken, so a server can keep data for each client and free them at that event. Call
 * this function after each poll and wait, before shmipc_server_recv(), until it returns 0. Then the
 * event of a client's arrival precedes that client's first request, and the event of the client's
 * end follows its last request. A server that waits or is armed notices deaths within a second. A
 * server that only polls checks one place per 2048 polls and requests, and at most one per
 * millisecond, so it may take minutes if it polls seldom. Memory for two events per place is
 * reserved; if the events are not taken, each place is used only once. Returns 1, 0 if there is no
 * event, or
 *	-EINVAL		attr.events was 0: a bug of the caller
 */
int shmipc_server_event(struct shmipc_server *server, struct shmipc_event *event_p, size_t size);

/*
 * Returns the extra buffer shared with that client: extra_size bytes, aligned to 64, with undefined
 * contents at connect. The messages order the accesses: bytes that the client wrote before a call
 * are visible when the request is received. Returns NULL if the client has gone or the size is 0.
 * The memory stays mapped until destroy, but the next client in that place uses it, too.
 */
void *shmipc_server_extra(struct shmipc_server *server, uint64_t client);

/*
 * Writes the attributes in use to *attr_p, at most size bytes. These attributes may be passed to
 * create or connect.
 */
void shmipc_server_get_attr(const struct shmipc_server *server, struct shmipc_attr *attr_p,
	size_t size);

/* Copies at most size bytes of the counters to *stats_p; size is sizeof(*stats_p). */
void shmipc_server_get_stats(const struct shmipc_server *server,
	struct shmipc_server_stats *stats_p, size_t size);

/* ---- client ---- */

/*
 * Handles the response to the call with this token. resp points into shared memory, at the len
 * bytes that the server sent; it is aligned to 8, and valid until the function returns (see
 * shmipc_client_hold()). Even if the call was made with a loan, the server may answer outside of
 * the loan. Copy the bytes before you check them. The function may call and post, but must not
 * poll, wait, abort or disconnect. resp is NULL if shmipc_client_abort() hands the token back.
 */
typedef void shmipc_response_fn(void *arg, uint64_t token, const void *resp, uint32_t len);

/*
 * Connects to the server of that name. Sizes that are not zero in attr (NULL: none) must be equal
 * to the region's. The region has a place for each of max_clients clients. The server cleans each
 * place that a client has left. If no place is clean, connect waits for at most a second until the
 * server has cleaned one. Returns 0, or
 *	-ENOENT		no such region: the server is not there yet; try again later
 *	-ECONNREFUSED	the server is dead or was destroyed: try again later
 *	-EAGAIN		the server is just starting, or did not clean a free place within a
 *			second: try again immediately
 *	-EUSERS		max_clients clients are connected, or some have gone and a server that
 *			takes events has not noticed that yet: try again later
 *	-EPROTO		another layout version, or other sizes
 *	-ENETUNREACH	the server sleeps on a descriptor, in another network namespace
 *	-EPERM		the server sleeps on a descriptor, and this process may not send to its
 *			socket
 *	-EACCES, -ELOOP	the region is another user's, or has another mode or gid; or the same
 *			cause as -EPERM; or -EACCES while another user's server with mode 0660 is
 *			just starting: try again (connect_ms and reconnect do not)
 *	-EINVAL		name, mode, gid or set is not valid (see shmipc_server_create())
 *	-E2BIG		as for shmipc_server_create()
 *	-ENOMEM, -EMFILE, ...
 */
int shmipc_client_connect(const char *name, const struct shmipc_attr *attr,
	struct shmipc_client **client_p);

/*
 * Disconnects and frees the client. Pending calls get no callback, and posts that the server has
 * not consumed may be lost. NULL is allowed.
 */
void shmipc_client_disconnect(struct shmipc_client *client);

/*
 * Makes a call: sends len bytes of req (copied; req may be NULL when len is 0), at most req_size.
 * The server gets len as shmipc_req.len, and the response function gets the token. If len is a
 * compile-time constant of at most 64, the copy is inlined. Returns 0, or, with nothing sent,
 *	-EAGAIN		as many calls and posts are in flight as attr.depth permits: poll,
 *			then retry
 *	-EPIPE		a poll or wait has found that the server is gone: abort, or disconnect
 *	-EPROTO		the server's count of consumed posts is impossible, or a poll has returned
 *			-EPROTO
 *	-EMSGSIZE	len exceeds req_size
 */
SHMIPC_INLINE int shmipc_client_call(struct shmipc_client *client, const void *req, uint32_t len,
	uint64_t token);

/*
 * Sends a message without a response: len bytes of req, like a call. A post is in flight, and
 * counts as a call does (see depth and Visibility), until this client knows that the server has
 * consumed the post. Returns 0, or, with nothing sent, an error of shmipc_client_call(). If this
 * function or shmipc_client_call() returns -EAGAIN while posts are in flight, the client wants
 * room: once the server has consumed some of these posts, shmipc_client_wait() or
 * shmipc_client_arm() returns 1, or the armed descriptor becomes readable. The client no longer
 * wants room after a wait or an arm has returned 1, for whatever reason, or after a post was sent
 * or shmipc_client_call_wait() was called.
 */
int shmipc_client_post(struct shmipc_client *client, const void *req, uint32_t len);

/*
 * Returns the number of posts that the server is not known to have consumed. If the number is not
 * 0, the client can wait for the server to consume posts, as after -EAGAIN of a post:
 *
 *	while (shmipc_client_posts(c) && shmipc_client_wait(c, SHMIPC_FOREVER) >= 0)
 *		shmipc_client_poll(c, on_response, arg);
 *
 * After the end of a server, and until a reconnect, the number tells how many posts may be lost.
 * The server may have consumed up to seven of these, because it publishes its count once per burst.
 */
uint32_t shmipc_client_posts(struct shmipc_client *client);

/* Handles a push. For msg and len, the rules for resp and len of shmipc_response_fn hold. */
typedef void shmipc_push_fn(void *arg, const void *msg, uint32_t len);

/*
 * Sets the function that shmipc_client_poll() calls for each push, for this connection and those of
 * later reconnects. A wait of the client then also waits for pushes, even if no call is pending. If
 * fn is NULL, which is the default, pushes are consumed and dropped.
 */
void shmipc_client_pushes(struct shmipc_client *client, shmipc_push_fn *fn, void *arg);

/*
 * Takes a chunk of the pool and writes the address for a request to *loan_p: loan_req_size bytes,
 * aligned to 64, with undefined contents. Sends nothing. Returns 0, or
 *	-EAGAIN		no chunk is free: poll, or release one, then retry
 *	-EINVAL		attr.loans is 0
 */
int shmipc_client_loan(struct shmipc_client *client, void **loan_p);

/*
 * Makes a call like shmipc_client_call(), with the first len bytes of the memory of
 * shmipc_client_loan() as the request. Returns 0, or, with nothing sent, so that the loan stays
 * with the caller,
 *	-EAGAIN, -EPIPE, -EPROTO	as for shmipc_client_call()
 *	-EMSGSIZE	len exceeds loan_req_size
 *	-EINVAL		the caller has no loan at this address: a bug
 */
int shmipc_client_commit(struct shmipc_client *client, void *loan, uint32_t len, uint64_t token);

/*
 * Keeps a response that is in a loan. A response function calls this with its argument resp, which
 * then stays valid until shmipc_client_release() or disconnect. Returns 0, or
 *	-EINVAL		the response is not in a loan, or is held already: copy it
 */
int shmipc_client_hold(struct shmipc_client *client, const void *resp);

/*
 * Gives a chunk back: that of a loan that was not committed, or of a response that was held.
 * Returns 0, or
 *	-EINVAL		the caller has no chunk at this address: a bug
 */
int shmipc_client_release(struct shmipc_client *client, const void *loan);

/*
 * Publishes the calls, and wakes the server if it sleeps. Checks the server only if something was
 * published since the last check (see Waking). A client must call this function after a call,
 * before it does other work. If the server could not be woken, the next poll that finds nothing
 * returns the error.
 */
SHMIPC_INLINE void shmipc_client_flush(struct shmipc_client *client);

/*
 * Calls fn(arg, ...) for each response, in the order in which the server replied. One poll takes at
 * most SHMIPC_POLL_MAX responses and pushes, so that client and server work at the same time. If a
 * response leads to another call, make that call in fn. Returns the number of responses and pushes,
 * or 0 if there is none yet. A loop that gets 0 should execute a pause instruction after the poll,
 * or call shmipc_client_wait(). An error is returned only when no response is left:
 *	-EPIPE		the server died or was destroyed: abort or disconnect
 *	-EPROTO		the ring holds a message that no correct server writes: abort or disconnect
 *	-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS	the server sleeps on its descriptor and could not be
 *			woken for lack of a descriptor or of memory: free some, poll and retry
 *	-ENETUNREACH	the same, because this thread has left the server's network namespace
 *	-EPERM, -EACCES, ...	the same, because a sandbox forbids it
 * If the server could not be woken, the calls stay published. The server finds them as soon as
 * another client wakes it, or a later poll, flush or wait of this client succeeds in waking it.
 */
SHMIPC_INLINE int shmipc_client_poll(struct shmipc_client *client, shmipc_response_fn *fn,
	void *arg);

/* Returns the number of calls without a response. Calls that timed out count, too. */
SHMIPC_INLINE uint32_t shmipc_client_pending(const struct shmipc_client *client);

/*
 * Waits until a response is there or timeout_ns nanoseconds have passed: spins for about 1 us,
 * yields for about 100 us, then sleeps. Publishes the calls first. Returns 1 if poll will find a
 * response or push, or if there may be room for a post (see shmipc_client_post()); 0 if the time
 * has passed, nothing is pending, or a signal interrupted the sleep; or, as soon as there is one,
 * an error of shmipc_client_poll().
 */
int shmipc_client_wait(struct shmipc_client *client, uint64_t timeout_ns);

/*
 * Returns the client's descriptor, like shmipc_server_fd(). Two errors have other causes:
 *	-ENETUNREACH	the server is in another network namespace and could not wake this
 *			client, or there is no /proc to find that out
 *	-EBADF		in a forked child, or after a failed reconnect if no descriptor is open
 */
int shmipc_client_fd(struct shmipc_client *client);

/*
 * Arms the descriptor like shmipc_server_arm(). Publishes calls and wakes the server first. Returns
 * the same as shmipc_server_arm(). If the server could not be woken, returns an error of
 * shmipc_client_poll(), and the client is not armed.
 *
 * A client without pending calls is woken only by pushes, if shmipc_client_pushes() has set a
 * function, and by room for posts, if it wants room (see shmipc_client_post()). So a loop that ends
 * after the last response must check shmipc_client_pending() before it arms the client.
 */
int shmipc_client_arm(struct shmipc_client *client);

/*
 * Sets the function that gets responses to other calls if they arrive while
 * shmipc_client_call_wait() waits. If fn is NULL, shmipc_client_call_wait() fails while other calls
 * are pending. fn may do what a response function of shmipc_client_poll() may do.
 */
void shmipc_client_others(struct shmipc_client *client, shmipc_response_fn *fn, void *arg);

/*
 * Makes a call and waits for its response. Copies at most capacity bytes of the response to resp,
 * and writes the number of bytes that the server sent, which may be larger, to *len_p (len_p may be
 * NULL). Signals do not end the wait. Returns 0, or
 *	-ETIMEDOUT	no response within timeout_ns. A late response is dropped; until it arrives,
 *			the call counts as in flight
 *	-EBUSY		other calls are pending, and shmipc_client_others() has set no function for
 *			them: set one, or poll until none is pending
 *	-EAGAIN, -EPIPE, -EMSGSIZE, -EPROTO	as for shmipc_client_call() and shmipc_client_poll()
 *	-EMFILE, -ENETUNREACH, -EPERM, ...	the server could not be woken, see
 *			shmipc_client_poll(). The call has been made; the call and its response are
 *			treated as after -ETIMEDOUT
 */
int shmipc_client_call_wait(struct shmipc_client *client, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p);

/*
 * Ends the pending calls after a poll or wait has returned -EPIPE or -EPROTO: calls fn(arg, token,
 * NULL, 0) for each of them that did not time out. It is not known whether the server has carried
 * out these calls. For posts see shmipc_client_posts(). Returns how often it called fn, or -EBUSY,
 * with nothing done, if the connection still works.
 */
int shmipc_client_abort(struct shmipc_client *client, shmipc_response_fn *fn, void *arg);

/*
 * Connects to the next server of the same name, after shmipc_client_abort(). The new region must
 * have the same access as the old one, and the same sizes, except that a size that was 0 in the old
 * region (extra_size, for example) may differ. The object, its descriptor and its totals of sleeps
 * and wakes stay; calls, responses, posts and pushes are counted from 0, the place may differ, and
 * the extra buffer is a new one. Tries for timeout_ns nanoseconds, because a server needs time to
 * restart. Returns 0, or an error of shmipc_client_connect(), after which the function may be
 * called again, or
 *	-EBUSY		the connection still works, or calls are pending: poll, and abort them. Or
 *			the caller has loans: release them
 *	-ENETUNREACH	also: the client has a descriptor, and the server is in another network
 *			namespace
 *	-EBADF		in a forked child
 */
int shmipc_client_reconnect(struct shmipc_client *client, uint64_t timeout_ns);

/* Returns the extra buffer (see shmipc_server_extra()), valid until disconnect or reconnect. */
void *shmipc_client_extra(struct shmipc_client *client);

/* Returns the client's place, 0 .. max_clients - 1. Another client may get it after disconnect. */
uint32_t shmipc_client_index(const struct shmipc_client *client);

/* Writes the attributes in use, like shmipc_server_get_attr(). */
void shmipc_client_get_attr(const struct shmipc_client *client, struct shmipc_attr *attr_p,
	size_t size);

/* Copies the counters like shmipc_server_get_stats(). */
void shmipc_client_get_stats(const struct shmipc_client *client,
	struct shmipc_client_stats *stats_p, size_t size);

/* ---- inspecting a region from outside ---- */

/*
 * The state of a server or client. The kernel's lock shows whether the process is dead; the other
 * states are those that the process wrote into the region.
 */
enum shmipc_look_state {
	SHMIPC_LOOK_DEAD, /* it has ended, or has disconnected */
	SHMIPC_LOOK_RUNNING,
	SHMIPC_LOOK_WAITING, /* it polls and yields its core */
	SHMIPC_LOOK_ASLEEP, /* it sleeps in the kernel until the other side wakes it */
};

/*
 * A snapshot of a region. It is not atomic: other processes may have changed the region while it
 * was read. Everything except the kernel's locks is read from the region, where a process that may
 * write to it may have forged it. The region does not show the number of calls in flight: the rings
 * have no indices, and each process keeps its cursors in private memory.
 */
struct shmipc_look_region {
	struct shmipc_attr attr; /* the sizes, and the access that the file has */
	uint64_t size; /* of the region, in bytes */
	enum shmipc_look_state server;
	uint32_t clients; /* alive */
	uint32_t dead_clients; /* dead, and not cleaned up yet */
	/*
	 * Increased by each connect and disconnect, and also by a connect that finds no clean
	 * place, perhaps several times.
	 */
	uint32_t changes;
};

struct shmipc_look_client {
	uint32_t index; /* the client's shmipc_client_index() */
	enum shmipc_look_state state;
};

typedef void shmipc_look_fn(void *arg, const struct shmipc_look_client *client);

/*
 * Reads the region of this name without connecting: opens the file for reading only, does not map
 * it, takes no lock and no place, and disturbs no process. Calls fn for each client, dead ones
 * included, unless fn is NULL. Writes at most size bytes to *look_p. Needs read permission, and
 * works with dead servers. Returns 0, or
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
