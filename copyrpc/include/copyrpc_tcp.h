/* SPDX-License-Identifier: MIT */
/*
 * Connecting copyrpc endpoints over TCP: both sides exchange their blobs, connect, and report to
 * each other that they are ready, within a time limit. These functions are part of libcopyrpc.
 * Programs that have another channel (PMIx, MPI, a file) use copyrpc_ep_info() and
 * copyrpc_ep_connect() instead.
 *
 *	copyrpc_tcp_listen(NULL, 4711, &listener);                       // server
 *	copyrpc_accept(ctx, NULL, listener, 5000, &ep);
 *
 *	copyrpc_connect(ctx, NULL, "server", 4711, 5000, &ep);           // client
 *	...                                                              // copyrpc_ep_status() != 0:
 *	copyrpc_reconnect(ep, "server", 4711, 5000, &ep);
 *
 * Time limits are in milliseconds and hold for the whole function; -1: none. The resolution of a
 * host's name is not limited. These functions wait in poll(2) and do not poll the context, so its
 * other endpoints make no progress meanwhile: call copyrpc_accept() when poll(2) reports that the
 * listener is readable, and again after -EAGAIN.
 *
 * The other side is not trusted. Its messages are checked, an endpoint is created for it only after
 * a valid greeting, and it cannot make a function wait longer than the limit. copyrpc_accept()
 * serves all connections in parallel. A silent or slow connection takes a descriptor (at most 64
 * per listener; then the oldest one is closed). It delays the next connection by at most 0.1 s, and
 * messages of other endpoints by at most 0.5 s. But every host that reaches the port can connect,
 * and the blobs are not encrypted: use these functions only where the hosts of a job trust each
 * other.
 *
 * Both sides send the same two messages: a greeting with the addresses and keys of the ring, and,
 * when the endpoint is connected, the result. Each entry below starts with the offset and the
 * length in bytes; all numbers are little-endian:
 *
 *	 0  8  "CPRPCTCP"                        0  8  "CPRPCRES"
 *	 8  2  version: 1                        8  4  0, or the errno that ended the attempt
 *	10  2  length: 128                      12  4  zero
 *	12  4  zero
 *	16  8  number of the endpoint's owner, the same after a reconnect
 *	24 96  the blob of copyrpc_ep_info()
 *	120 8  zero
 *
 * After the result, the program that has opened the connection may use it.
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
 * connections that are not complete; otherwise it keeps them for the next copyrpc_accept() with
 * this listener.
 *
 * -ETIMEDOUT: no connection was completed in time. -ECONNRESET: the connection was closed, for
 * example because the other side could not create its endpoint. -EPROTO: the other side did not
 * send a greeting of copyrpc. -EPROTONOSUPPORT: it has another version. -ECONNREFUSED: the other
 * side could not connect its endpoint. Otherwise an error of copyrpc_ep_create() or
 * copyrpc_ep_connect(). After each error the listener can be used again, and no endpoint remains
 * (an endpoint that was connected already counts in max_endpoints until the next poll).
 */
int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Connects an endpoint to a side that accepts. A refused connection is tried again until the time
 * is over, because the server may not have started yet.
 *
 * -EADDRNOTAVAIL: no such host. -ECONNREFUSED: no process listened there until the time was over,
 * or the other side refused (its copyrpc_accept() returns the reason). -EHOSTUNREACH, -ENETUNREACH:
 * no route. Otherwise as copyrpc_accept().
 */
int copyrpc_connect(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, const char *host,
	uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Replaces an endpoint, whether or not it has failed: connects a new endpoint with the attributes
 * of @old, and destroys @old (its pending calls end at the next poll). The accepting side
 * recognises the owner of @old, and fails its own old endpoint, too. Both endpoints count in
 * max_endpoints until then.
 *
 * Returns as copyrpc_connect(). After an error @old is unchanged, and the function may be called
 * again.
 */
int copyrpc_reconnect(struct copyrpc_ep *old, const char *host, uint16_t port, int timeout_ms,
	struct copyrpc_ep **ep_p);

/* ------------------------------------------------------------------ the parts */

/*
 * Accept or make only the TCP connection. This is for programs that also use the connection for
 * something else, or connect several endpoints over one connection. The caller must close *fd_p.
 * The socket is close-on-exec, has TCP_NODELAY, and is blocking.
 */
int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p);
int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p);

/*
 * Connects an endpoint over a connected stream socket. The other side must call the same function.
 * Returns as copyrpc_accept(). After an error the only valid actions are to destroy the endpoint
 * and to close the connection.
 */
int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
