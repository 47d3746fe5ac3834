/* SPDX-License-Identifier: MIT */
/*
 * Connects copyrpc endpoints over TCP: both sides exchange their blobs, connect, and notify each
 * other when they are ready, within a time limit. Part of libcopyrpc. Programs that have another
 * channel (PMIx, MPI, a file) use copyrpc_ep_info() and copyrpc_ep_connect() instead.
 *
 *	copyrpc_tcp_listen(NULL, 4711, &listener);                       // server
 *	copyrpc_accept(ctx, NULL, listener, 5000, &ep);
 *
 *	copyrpc_connect(ctx, NULL, "server", 4711, 5000, &ep);           // client
 *	...                                                              // copyrpc_ep_status() != 0:
 *	copyrpc_reconnect(ep, "server", 4711, 5000, &ep);
 *
 * Time limits are in milliseconds and apply to the whole call; -1: no limit. Resolving a host's
 * name is not limited. These functions wait in poll(2) and do not poll the context, so its other
 * endpoints make no progress meanwhile: call copyrpc_accept() when poll(2) reports that the
 * listener is readable, and again after -EAGAIN.
 *
 * The other side is not trusted. Its messages are checked, it gets an endpoint only after a valid
 * greeting, and it cannot keep a call longer than the limit. A side that accepts serves all
 * connections at the same time: a connection that is silent or slow costs a descriptor (at most 64
 * per listener; then the oldest is closed). It delays the next connection by at most 0.1 s, and
 * messages of other endpoints by at most 0.5 s. But every host that reaches the port can connect,
 * and the blobs are not encrypted: use this where the hosts of a job trust each other.
 *
 * Both sides send the same, all numbers little-endian: a greeting with the addresses and keys of
 * the ring, and, when the endpoint is connected, the result:
 *
 *	 0  8  "CPRPCTCP"                        0  8  "CPRPCRES"
 *	 8  2  version: 1                        8  4  0, or the errno that ended the attempt
 *	10  2  length: 128                      12  4  zero
 *	12  4  zero
 *	16  8  number of the program that owns the endpoint, the same after a reconnect
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
 * Opens a socket that listens on the address of the host (NULL: on all addresses) and the port (0:
 * a free port, see copyrpc_tcp_port()). The caller must close *fd_p. -EADDRNOTAVAIL: no such host.
 * Otherwise errno of socket(2), bind(2), listen(2): -EADDRINUSE, -EACCES, -EMFILE.
 */
int copyrpc_tcp_listen(const char *host, uint16_t port, int *fd_p);

/* The port of a socket, or -errno. */
int copyrpc_tcp_port(int fd);

/*
 * Accepts an endpoint: takes the next TCP connection, creates an endpoint as copyrpc_ep_create()
 * does, connects it, and closes the TCP connection. When it returns, both sides may make calls. An
 * endpoint whose attribute `name` is not set gets the address of its peer as name. If the peer had
 * an endpoint here before (see copyrpc_reconnect()), that endpoint fails with -ECONNRESET.
 *
 * -EAGAIN: a connection has not sent its greeting and result within half a second, and other
 * endpoints of the context need a poll (a message, a completion, a time limit): poll, and call
 * again soon, because the connection is kept. When the function returns -ETIMEDOUT, it has closed
 * the connections that are not complete; otherwise they are kept for the next call with this
 * listener.
 *
 * -ETIMEDOUT: no connection was completed in time. -ECONNRESET: the connection was closed,
 * for example because the other side could not create its endpoint. -EPROTO: not a greeting of
 * copyrpc. -EPROTONOSUPPORT: another version. -ECONNREFUSED: the other side could not connect its
 * endpoint. Otherwise an error of copyrpc_ep_create() or
 * copyrpc_ep_connect(). After each error the listener can be used again, and no endpoint
 * is left (one that was connected already counts in max_endpoints until the next poll).
 */
int copyrpc_accept(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, int listener,
	int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Connects an endpoint to a side that accepts. A refused connection is tried again until the time
 * limit, because the server may not have started yet.
 *
 * -EADDRNOTAVAIL: no such host. -ECONNREFUSED: no server listened there until the time limit, or
 * the other side refused (its copyrpc_accept() returns the reason). -EHOSTUNREACH, -ENETUNREACH.
 * Otherwise as copyrpc_accept().
 */
int copyrpc_connect(struct copyrpc_ctx *ctx, const struct copyrpc_ep_attr *attr, const char *host,
	uint16_t port, int timeout_ms, struct copyrpc_ep **ep_p);

/*
 * Replaces an endpoint, which need not have failed: connects a new one with the attributes of
 * `old`, and destroys `old` (its pending calls end at the next poll). The accepting side recognises
 * the owner, and fails its old endpoint, too. The context needs a place for both endpoints
 * (max_endpoints).
 *
 * Errors as copyrpc_connect(). After an error `old` is unchanged, so that the call can be repeated.
 */
int copyrpc_reconnect(struct copyrpc_ep *old, const char *host, uint16_t port, int timeout_ms,
	struct copyrpc_ep **ep_p);

/* ------------------------------------------------------------------ the parts */

/*
 * Accept or make the TCP connection itself, for programs that use it for more than one endpoint, or
 * for other data. The caller must close *fd_p. The socket is close-on-exec, without delay
 * (TCP_NODELAY), and blocking.
 */
int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p);
int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p);

/*
 * Connects an endpoint over a connected stream socket. The other side must call it too. Errors as
 * copyrpc_accept(). After an error the endpoint can only be destroyed, and the connection only
 * closed.
 */
int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
