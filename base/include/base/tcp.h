/* SPDX-License-Identifier: MIT */
/*
 * TCP between processes that do not trust each other: each wait has a limit, and a silent peer
 * delays nobody else. Compiled into its users (base/src/tcp.c).
 *
 * All sockets are non-blocking, close-on-exec and without delay (TCP_NODELAY). Writing raises no
 * SIGPIPE, and a call that a signal interrupts is repeated. A limit is a time of clock_ns();
 * TCP_FOREVER: none; a limit in the past: only what can be done at once. Functions return 0 or
 * -errno.
 *
 * A blocking user calls tcp_accept(), tcp_connect(), tcp_get() and tcp_put(). A server of many uses
 * a crowd: it accepts connections and lets each say its first message, all at once. A blocking user
 * calls tcp_crowd_next() and tcp_crowd_wait() in turn; an event loop calls tcp_crowd_next() whenever
 * one of the descriptors is ready.
 */
#ifndef BASE_TCP_H
#define BASE_TCP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_FOREVER UINT64_MAX
#define TCP_NAME_MAX 64

/* The limit of so many milliseconds from now; below 0: none. */
uint64_t tcp_limit(int timeout_ms);
/* Milliseconds until the limit, rounded up, for poll(2); -1: none. */
int tcp_left_ms(uint64_t limit_ns);

/*
 * Listens at the host's address (NULL: at all, by IPv6 and IPv4) and port (0: a free one).
 * -EADDRNOTAVAIL: no such host, or not this one. Otherwise errno of bind(2) and others.
 */
int tcp_listen(const char *host, uint16_t port, int *fd_p);
/* The port of a socket, or -errno. */
int tcp_port(int fd);
/* Writes "address:port" of the other end; leaves `name` as it is if there is none. */
void tcp_peer(int fd, char *name, size_t size);

/* Waits for events of poll(2). -ETIMEDOUT. */
int tcp_wait(int fd, short events, uint64_t limit_ns);

/*
 * The next connection, without waiting, also where the listener is a blocking one. -EAGAIN: there is none, or it has gone already.
 * -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: it stays where it is, and the listener stays readable.
 */
int tcp_take(int listener, int *fd_p);
/* Waits for one; goes on when descriptors are short for a while. -ETIMEDOUT. */
int tcp_accept(int listener, uint64_t limit_ns, int *fd_p);

/*
 * Connects to the first address of the host that answers; each gets its part of the time. @patient:
 * tries again while the connection is refused, because the server may not have started yet.
 * -EADDRNOTAVAIL: no such host; -ECONNREFUSED; -ETIMEDOUT; -EHOSTUNREACH, ... The search for the
 * host's name has limits of its own.
 */
int tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p);

/*
 * Moves bytes until *done_p is len. 0: it is; -EAGAIN: the rest must wait; -ECONNRESET: the peer
 * has closed; -errno.
 */
int tcp_read(int fd, void *to, size_t len, size_t *done_p);
int tcp_write(int fd, const void *from, size_t len, size_t *done_p);

/* The same for all bytes, with waiting. -ETIMEDOUT. */
int tcp_get(int fd, void *to, size_t len, uint64_t limit_ns);
int tcp_put(int fd, const void *from, size_t len, uint64_t limit_ns);

/* ---- many at once ---- */

/* A connection that has not said all yet: part of a struct of the user's. */
struct tcp_guest {
	int fd;
	short events; /* of poll(2), for which it waits */
	uint64_t since_ns; /* when it was accepted */
	struct tcp_guest *next;
};

struct tcp_crowd {
	/* Makes a guest, whose other fields the crowd fills in. NULL: there is no memory. */
	struct tcp_guest *(*open)(void *arg);
	/* Reads or writes what is possible. 0: all is said; -EAGAIN; otherwise its error. */
	int (*step)(void *arg, struct tcp_guest *g);
	/* Frees the guest, whose descriptor has been closed. */
	void (*close)(void *arg, struct tcp_guest *g);
	void *arg;
	uint32_t most; /* guests; one more, and the oldest has to go */
	uint64_t patience_ns; /* a guest older than this has to go; 0: no limit */

	struct tcp_guest *guests; /* the oldest first */
	uint32_t n;
	bool starved; /* descriptors were short when the listener was looked at last */
};

/*
 * Accepts up to `take` connections (not more than `most`), and lets each guest say more. 0: this one has said all; it has
 * left the crowd, and its fd is the caller's. -EAGAIN: nobody has yet. Otherwise the error of a
 * guest, which has been closed, or of the listener. Guests that are too many or too old are closed
 * in silence. Where descriptors are short the oldest guest gives up its own.
 */
int tcp_crowd_next(struct tcp_crowd *c, int listener, uint32_t take, uint64_t now_ns,
	struct tcp_guest **guest_p);
/* Waits until tcp_crowd_next() has something to do. -ETIMEDOUT: it has not. */
int tcp_crowd_wait(const struct tcp_crowd *c, int listener, uint64_t now_ns, uint64_t limit_ns);
/* Closes all. */
void tcp_crowd_fini(struct tcp_crowd *c);

#endif
