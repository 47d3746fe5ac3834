/* SPDX-License-Identifier: MIT */
/*
 * TCP between processes that do not trust each other: each wait has a limit, and a silent peer
 * delays nobody else. Compiled into its users (base/src/tcp.c).
 *
 * All sockets are non-blocking, close-on-exec and without delay (TCP_NODELAY). Writing raises no
 * SIGPIPE, and a call that a signal interrupts is repeated. A limit is a time of clock_ns().
 * TCP_FOREVER means no limit; with a limit in the past a function does not wait. Functions return 0
 * or -errno.
 *
 * A blocking user calls tcp_accept(), tcp_connect(), tcp_get() and tcp_put(). A server with many
 * clients uses a crowd, which accepts connections and exchanges the first messages with all of them
 * at once. A blocking user calls tcp_crowd_next() and tcp_crowd_wait() in turn; an event loop calls
 * tcp_crowd_next() whenever one of the descriptors is ready.
 */
#ifndef BASE_TCP_H
#define BASE_TCP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_FOREVER UINT64_MAX
#define TCP_NAME_MAX 64

/* Returns the time in timeout_ms milliseconds, or TCP_FOREVER if timeout_ms is negative. */
uint64_t tcp_limit(int timeout_ms);
/* Milliseconds until the limit, rounded up, for poll(2); -1: none. */
int tcp_left_ms(uint64_t limit_ns);

/*
 * Listens at the host's address (NULL: at all addresses, by IPv6 and IPv4) and port (0: a free
 * one). -EADDRNOTAVAIL: the host does not exist or is another one; or an error of bind(2) and
 * others.
 */
int tcp_listen(const char *host, uint16_t port, int *fd_p);
/* The port of a socket, or -errno. */
int tcp_port(int fd);
/* Writes "address:port" of the other end; `name` stays as it is if the socket has none. */
void tcp_peer(int fd, char *name, size_t size);

/* Waits for events of poll(2). -ETIMEDOUT. */
int tcp_wait(int fd, short events, uint64_t limit_ns);

/*
 * Accepts the next connection without waiting, even from a blocking listener. -EAGAIN: no
 * connection waits. -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: the connection goes on waiting, and the
 * listener stays readable.
 */
int tcp_take(int listener, int *fd_p);
/* Waits for a connection, also while descriptors are short. -ETIMEDOUT. */
int tcp_accept(int listener, uint64_t limit_ns, int *fd_p);

/*
 * Connects to the first address of the host that answers; each gets its part of the time. @patient:
 * tries again while the connection is refused, because the server may not have started yet.
 * -EADDRNOTAVAIL: no such host; -ECONNREFUSED; -ETIMEDOUT; -EHOSTUNREACH, ... The search for the
 * host's name has limits of its own.
 */
int tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p);

/*
 * Moves bytes until *done_p is len, and returns 0 then. -EAGAIN: the rest must wait; -ECONNRESET:
 * the peer has closed; -errno.
 */
int tcp_read(int fd, void *to, size_t len, size_t *done_p);
int tcp_write(int fd, const void *from, size_t len, size_t *done_p);

/* The same for all bytes, with waiting. -ETIMEDOUT. */
int tcp_get(int fd, void *to, size_t len, uint64_t limit_ns);
int tcp_put(int fd, const void *from, size_t len, uint64_t limit_ns);

/* ---- many at once ---- */

/* A connection whose first messages are not complete: part of a struct of the user. */
struct tcp_guest {
	int fd;
	short events; /* of poll(2), for which it waits */
	uint64_t since_ns; /* when it was accepted */
	struct tcp_guest *next;
};

struct tcp_crowd {
	/* Allocates a guest; the crowd fills in the fields of this struct. NULL: no memory. */
	struct tcp_guest *(*open)(void *arg);
	/*
	 * Reads or writes as far as possible. 0: the messages are complete; -EAGAIN; or an error.
	 */
	int (*step)(void *arg, struct tcp_guest *g);
	/* Frees the guest, whose descriptor has been closed. */
	void (*close)(void *arg, struct tcp_guest *g);
	void *arg;
	uint32_t most; /* guests at a time; for one more the oldest is closed */
	uint64_t patience_ns; /* a guest older than this is closed; 0: no limit */

	struct tcp_guest *guests; /* the oldest first */
	uint32_t n;
	bool starved; /* the last accept found no free descriptor */
};

/*
 * Accepts up to `take` connections (at most `most`), and calls step() for each guest. 0: the
 * messages of *guest_p are complete; it has left the crowd, and its fd belongs to the caller.
 * -EAGAIN: no guest is complete. Otherwise the error of a guest, which has been closed, or of the
 * listener. Guests over `most` or older than patience_ns are closed without an error. If
 * descriptors are short, the oldest guest is closed.
 */
int tcp_crowd_next(struct tcp_crowd *c, int listener, uint32_t take, uint64_t now_ns,
	struct tcp_guest **guest_p);
/* Waits until tcp_crowd_next() can make progress. -ETIMEDOUT. */
int tcp_crowd_wait(const struct tcp_crowd *c, int listener, uint64_t now_ns, uint64_t limit_ns);
/* Closes all guests. */
void tcp_crowd_fini(struct tcp_crowd *c);

#endif
