/* SPDX-License-Identifier: MIT */
/*
 * Connecting copyrpc endpoints over TCP: both sides exchange their blobs, connect, and report to
 * each other that they are ready, within a time limit. These functions are part of libcopyrpc.
 * Programs that have another channel (PMIx, MPI, a file) use copyrpc_ep_info() and
 * copyrpc_ep_connect() instead.
 *
 * A program that has other work connects inside copyrpc_poll():
 *
 *	copyrpc_tcp_listen(NULL, 4711, &listener);
 *	copyrpc_listen(ctx, NULL, listener, 0);                          // others may connect
 *	copyrpc_dial(ctx, NULL, "server", 4711, 5000, 7);                // token 7
 *	for (;;) {
 *		copyrpc_poll(ctx, on_response, NULL);
 *		while (copyrpc_event_recv(ctx, &event, sizeof(event)))
 *			handle(&event);                                  // UP: event.ep is ready
 *		...                                                      // copyrpc_recv(), sleep
 *	}
 *
 * A program that has nothing else to do waits:
 *
 *	copyrpc_accept(ctx, NULL, listener, 5000, &ep);                  // server
 *
 *	copyrpc_connect(ctx, NULL, "server", 4711, 5000, &ep);           // client
 *	...                                                              // after a failure:
 *	copyrpc_reconnect(ep, "server", 4711, 5000, &ep);
 *
 * Time limits are in milliseconds and hold for the whole function or dial; -1: none. They do not
 * hold for the resolution of a host's name; a numeric address needs no resolution. While a function
 * waits, it does not poll, so the endpoints of the context make no progress. The context's other
 * listeners and dials do while copyrpc_accept(), copyrpc_connect() or copyrpc_reconnect() waits.
 *
 * The other side is not trusted. Its messages are checked, and an endpoint is created for it only
 * after a valid greeting; before that, a connection uses a descriptor and less than 4 KiB. All
 * connections are served in parallel. A poll never waits: it handles a few dozen events of
 * connections, and at most eight times it creates, replaces or connects a queue pair, which takes
 * some commands of the device. The rest is left to the next polls. But every host that reaches the
 * port can connect, and the blobs are not encrypted: use these functions only where the hosts of a
 * job trust each other.
 *
 * Both sides send the same two messages: a greeting with the addresses and keys of the ring, and,
 * when the endpoint is connected, the result. An accepting side that refuses the connection sends a
 * greeting whose blob is zero (or contains only the version, if the peer's blob has a wrong
 * version), and then the result. If the peer's greeting has a wrong version, it sends no result.
 * Each entry below starts with the offset and the length in bytes; all numbers are little-endian:
 *
 *	 0  8  "CPRPCTCP"                        0  8  "CPRPCRES"
 *	 8  2  version: 2                        8  4  0, or the errno that ended the attempt
 *	10  2  length: 128                      12  4  zero
 *	12  4  bits: 1: `single`; 2: the endpoint can come back; 4: it is coming back
 *	16  8  the owner number: random; copyrpc_reconnect() keeps it for the new endpoint
 *	24 96  the blob of copyrpc_ep_info()
 *	120 8  random number of the context, not 0
 *
 * A program that has opened the TCP connection itself may continue to use it after the results. The
 * TCP connection may be lost when only one side has received the other's result. If the endpoint
 * can come back (see below), the endpoint is not lost: the sides connect again, and each program
 * then gets COPYRPC_UP, or the endpoint from copyrpc_accept() or copyrpc_connect().
 *
 * Coming back: if both contexts have the attribute reconnect_ms, an endpoint that was not connected
 * by copyrpc_ep_meet() does not fail when its connection is lost (-ECONNRESET, -ETIMEDOUT): it gets
 * another queue pair. As long as both processes live, each call is executed at most once and ends
 * exactly once, with its response if the endpoint returns within reconnect_ms. Meanwhile
 * copyrpc_ep_status() is 0; calls and replies are accepted while there is room, and sent later;
 * requests that are held stay in the ring; time limits of calls continue to run. Raw operations in
 * progress end with the status of the loss, because they cannot be repeated (they may have been
 * executed); further ones return -EAGAIN.
 *
 * Only the side that has dialed connects again: in its polls it opens another TCP connection to the
 * same address. The listening side must also poll, and must still listen at that address with
 * copyrpc_listen(). The side that has dialed probes the peer every 0.1 s even without calls. If a
 * probe has got no answer for 0.2 s, this side asks over TCP, once a second, whether the peer has
 * the endpoint, and in this way detects a restart of the peer's process. The listening side detects
 * a restart of its peer only when reconnect_ms is over. The endpoint fails as usual if reconnect_ms
 * is over, if the peer says goodbye, or if the peer does not have the endpoint any more (it was
 * destroyed, has failed, or its process was restarted).
 *
 * If the address of a port is deleted or replaced, its endpoints return with the present address,
 * as soon as the device reports the change; while the port has no address, attempts fail and are
 * repeated, and copyrpc_ep_describe() says why. If the address of the listening host has changed,
 * the side that has dialed sets it with copyrpc_redial(). While the port of a side is not active,
 * nothing is connected: the endpoint returns when the device reports that the port is active.
 *
 * copyrpc/docs/reconnect.md describes the protocol. After a greeting with the bit 4, a side also
 * sends:
 *
 *	 0  8  "CPRPCPOS"
 *	 8  8  owner number of the other side's endpoint
 *	16  8  number of the attempt
 *	24  8  bytes that were received since the first connection
 */
#ifndef COPYRPC_TCP_H
#define COPYRPC_TCP_H

#include "copyrpc.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Creates a socket that listens on the address of the host (NULL: on all addresses) and the port
 * (0: a free port, see copyrpc_tcp_port()). The caller must close *fd_p. -EADDRNOTAVAIL: no such
 * host. Otherwise errno of socket(2), bind(2), listen(2): -EADDRINUSE, -EACCES, -EMFILE.
 */
int copyrpc_tcp_listen(const char *host, uint16_t port, int *fd_p);

/* Returns the port of a socket, or -errno. */
int copyrpc_tcp_port(int fd);

/* ------------------------------------------------------------------ inside poll */

/* All zero is the default. */
struct copyrpc_listen_attr {
	size_t size; /* of this struct, see Sizes in copyrpc.h; 0: the fields up to and including
			patience_ms */
	const struct copyrpc_ep_attr *ep; /* of the endpoints; may be NULL; copied */
	uint32_t max_guests; /* maximum number of connections in progress; if there is one more, the
				oldest is closed; 0: 64 */
	uint32_t patience_ms; /* a connection that takes longer is closed; 0: 5000 */
};

/*
 * Lets others connect through a listening socket, until copyrpc_unlisten() or the end of the
 * context: polls accept the connections and create and connect an endpoint for each, and
 * copyrpc_event_recv() returns COPYRPC_UP with @token. The socket still belongs to the caller, who
 * must call copyrpc_unlisten() before closing it. With reconnect_ms no other context may listen at
 * the same address: the other context would refuse the endpoints of this context that come back,
 * and peers that ask whether this context has their endpoint.
 *
 * -EBUSY: the context listens on this socket already, or copyrpc_accept() was called for it.
 * -E2BIG: as from copyrpc_ctx_create(). -EBADF, -ENOTSOCK: not a socket. -EINVAL: a socket that
 * does not listen, a wrong ring size or path, or an endpoint `by_hand`. -EMFILE: no free
 * descriptor; a context with listeners or dials needs one more. -ENOMEM.
 */
int copyrpc_listen(struct copyrpc_ctx *ctx, const struct copyrpc_listen_attr *attr, int listener,
	uint64_t token);

/*
 * Ends copyrpc_listen(), and closes the connections in progress. Endpoints that are up stay.
 * -ENOENT: the context does not listen there.
 */
int copyrpc_unlisten(struct copyrpc_ctx *ctx, int listener);

/* All zero is the default. */
struct copyrpc_dial_attr {
	size_t size; /* of this struct; 0: the fields up to and including single */
	const struct copyrpc_ep_attr *ep; /* of the endpoint; may be NULL; copied */
	bool single; /* at most one `single` connection between the two contexts */
};

/*
 * Connects an endpoint to a side that listens. This function only resolves the name and starts a
 * TCP connection; the rest happens in polls. The dial ends with exactly one event with @token:
 * COPYRPC_UP with the endpoint, or COPYRPC_GONE. Until the time is over, the dial tries again if no
 * process listens yet, if the other side has closed the connection without an answer, if one of the
 * sides has no room for another endpoint, or if the port of this side's device is
 * not active.
 *
 * If two contexts dial each other with `single`, one connection results, even if they do so at the
 * same time. The context with the larger random number (in its greeting) decides: it keeps the
 * connection whose greeting it has received first, and refuses the other one until the first has
 * failed or is destroyed. A dial that was refused ends with COPYRPC_UP, status -EISCONN and the
 * endpoint of the kept connection; the event of the kept connection itself came before. If the
 * dialing side does not have its end of the kept connection any more, the refusing side detects
 * this, and a later attempt succeeds: at once if that end has said goodbye, otherwise after the
 * time that copyrpc.h states for the death of a peer (5 s by default). In the latter case, with
 * reconnect_ms, a refusing side that had accepted the kept connection refuses attempts until
 * reconnect_ms is over, too. While both connections are being made, both sides need one more
 * endpoint: max_endpoints should be somewhat larger than the number of peers.
 *
 * -EADDRNOTAVAIL: no such host. -EINVAL: a wrong ring size or path, or `by_hand`. -E2BIG, -EMFILE,
 * -ENOMEM: as from copyrpc_listen().
 */
int copyrpc_dial(struct copyrpc_ctx *ctx, const struct copyrpc_dial_attr *attr, const char *host,
	uint16_t port, int timeout_ms, uint64_t token);

/* Ends the dials with that token that are in progress, with -ECANCELED. Returns their number, or
 * -EMFILE or -ENOMEM as from copyrpc_listen(). */
int copyrpc_dial_cancel(struct copyrpc_ctx *ctx, uint64_t token);

enum copyrpc_event_kind {
	COPYRPC_UP = 1, /* both sides may make calls */
	COPYRPC_DOWN, /* an endpoint that was UP has failed, with a status of copyrpc_ep_status():
			 destroy it. Status -EAGAIN: it has lost its connection and is being
			 connected again */
	COPYRPC_GONE, /* a dial has ended without an endpoint */
	COPYRPC_BACK, /* an endpoint that was DOWN with -EAGAIN is connected again */
};

/*
 * Describes an event. The status of COPYRPC_GONE:
 *
 *	-ECANCELED	copyrpc_dial_cancel() was called
 *	-ETIMEDOUT	the time is over
 *	-ECONNREFUSED	no process listened before the time was over, or the other side refused
 *	-EPROTO		the other side is not copyrpc
 *	-EPROTONOSUPPORT	the other side has another version: copyrpc_ctx_versions()
 *	-ECONNRESET	the other side has closed the connection, or has no room
 *	-ENETDOWN	the port of this side's device was not active when the time was over
 *	-EHOSTUNREACH, -ENETUNREACH	no route
 *
 * Otherwise it is an error of copyrpc_ep_create() or copyrpc_ep_connect().
 */
struct copyrpc_event {
	int kind; /* enum copyrpc_event_kind */
	int status; /* 0 or -errno */
	struct copyrpc_ep *ep; /* NULL if GONE */
	uint64_t token; /* of copyrpc_listen() or copyrpc_dial() */
};

/*
 * Takes the oldest event. Returns 1 with *event_p, or 0 if there is none. @size must be
 * sizeof(*event_p). Polls add events, so take all of them before a sleep, as with copyrpc_recv(). A
 * request of an endpoint may arrive shortly before its UP. An endpoint that the program destroys
 * has no further events. Endpoints of copyrpc_listen() and copyrpc_dial() have events. Endpoints
 * with the attribute `by_hand` have the events DOWN and BACK, with their event_token. All other
 * endpoints have none. An event DOWN or BACK that the program has not taken is reported only once,
 * even if the endpoint loses its connection and returns several times meanwhile.
 */
int copyrpc_event_recv(struct copyrpc_ctx *ctx, struct copyrpc_event *event_p, size_t size);

/*
 * Sets the address at which an endpoint of copyrpc_dial() connects again after the loss of its
 * connection, if the address of the peer's host has changed. If the endpoint has no connection now,
 * an attempt starts within 0.1 s.
 *
 * -EADDRNOTAVAIL: no such host. -EOPNOTSUPP: the endpoint was not dialed, or cannot come back.
 * Otherwise the endpoint has failed, and its status is returned.
 */
int copyrpc_redial(struct copyrpc_ep *ep, const char *host, uint16_t port);

/* ------------------------------------------------------------------ waiting */

/*
 * Accepts an endpoint: takes the next TCP connection, creates an endpoint as copyrpc_ep_create()
 * does, connects it, and closes the TCP connection. After the return both sides may make calls. An
 * endpoint whose attribute `name` is not set gets the address of its peer as its name. If the peer
 * had an endpoint here before (see copyrpc_reconnect()), the former endpoint fails with
 * -ECONNRESET.
 *
 * -EAGAIN: a connection has not sent its greeting and result within half a second, and other
 * endpoints of the context need a poll (a message, a completion, a time limit): poll, and call
 * again soon, because the connection is kept. If the function returns -ETIMEDOUT, it closes the
 * connections that are not complete; otherwise it keeps them: polls complete them, and the next
 * copyrpc_accept() with this listener returns one of them. A connection that is kept does not make
 * the listener readable, so a program that waits for several things uses copyrpc_listen() instead.
 * copyrpc_unlisten() closes the connections that are kept. A program need not call
 * copyrpc_unlisten() before it closes the listener; without the call, these connections last until
 * the number of the descriptor is used for another listener, or the context is destroyed.
 *
 * -EBUSY: copyrpc_listen() was called for that listener. -ETIMEDOUT: no connection was completed in
 * time. -ECONNRESET: the connection was closed. -EPROTO: the other side did not send a greeting of
 * copyrpc. -EPROTONOSUPPORT: the other side has another version. -ECONNREFUSED: the other side
 * could not connect its endpoint. Otherwise an error of copyrpc_listen(), copyrpc_ep_create() or
 * copyrpc_ep_connect(). After each error the listener can be used again, and no endpoint remains
 * (an endpoint that was connected counts in max_endpoints until the next poll).
 */
int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Connects an endpoint like copyrpc_dial(), and waits for the end. Returns 0, an error of
 * copyrpc_dial(), or the status of COPYRPC_GONE.
 */
int copyrpc_connect(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, const char *host,
	uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Replaces an endpoint, whether or not it has failed: connects a new endpoint with the attributes
 * of @old, and destroys @old (its pending calls end at the next poll). The accepting side
 * recognises the owner number of @old, and fails its own old endpoint, too. Both endpoints count in
 * max_endpoints until @old is destroyed.
 *
 * Returns the same as copyrpc_connect(). After an error @old is unchanged, and the function may be
 * called again.
 */
int copyrpc_reconnect(struct copyrpc_ep *old, const char *host, uint16_t port, int timeout_ms,
	struct copyrpc_ep **ep_p);

/* ------------------------------------------------------------------ the parts */

/*
 * Accept or make only the TCP connection. This is for programs that also use the connection for
 * something else, or connect several endpoints over one connection. The caller must close *fd_p.
 * The socket is close-on-exec, has TCP_NODELAY, and is blocking. While the connection is refused,
 * copyrpc_tcp_connect() tries again; it returns -ECONNREFUSED when the time is over. Return 0,
 * -ETIMEDOUT, -EADDRNOTAVAIL (no such host), or an error of accept(2) or connect(2).
 */
int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p);
int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p);

/*
 * Connects an endpoint over a connected stream socket. The other side must call the same function.
 * Returns the same as copyrpc_accept(), but neither -EAGAIN nor -EBUSY. -EISCONN: the endpoint was
 * connected before. After another error the only valid actions are to destroy the endpoint and to
 * close the connection.
 */
int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
