/* SPDX-License-Identifier: MIT */
/*
 * TCP between processes that do not trust each other: each wait has a time limit, and a silent peer
 * does not delay other connections. base/src/tcp.c is compiled into each program that uses it.
 *
 * All sockets are non-blocking and close-on-exec; connections have TCP_NODELAY. Writing raises no
 * SIGPIPE, and a signal does not end a wait. A limit is a time of clock_ns(). TCP_FOREVER
 * means no limit; with a limit in the past a function does not wait. Functions return 0 or -errno;
 * the comments name the errors that callers may want to handle.
 *
 * A blocking user calls tcp_accept(), tcp_connect(), tcp_get() and tcp_put(). A server with many
 * clients uses a crowd, which accepts connections and exchanges the first messages with all of them
 * concurrently. A blocking server calls tcp_crowd_next() and tcp_crowd_wait() alternately; an event
 * loop calls tcp_crowd_next() whenever the descriptor of the listener or of a guest is ready.
 */
#ifndef BASE_TCP_H
#define BASE_TCP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_FOREVER UINT64_MAX
#define TCP_NAME_MAX 64
#define TCP_AGAIN_MS 20 /* pause after a refused connection, and while no descriptor is free */

/* Returns the time in timeout_ms milliseconds, or TCP_FOREVER if timeout_ms is negative. */
uint64_t tcp_limit(int timeout_ms);
/* Returns the milliseconds until the limit, rounded up, for poll(2); -1 if there is no limit. */
int tcp_left_ms(uint64_t limit_ns);

/*
 * Listens at the host's address (NULL: at all addresses, by IPv6 and IPv4) and port (0: a free
 * one). Returns 0, -EADDRNOTAVAIL if the host does not exist or has no address of this machine, or
 * an error of socket(2), bind(2) or listen(2).
 */
int tcp_listen(const char *host, uint16_t port, int *fd_p);
/* Returns the port of a socket, or -errno. */
int tcp_port(int fd);
/* Writes "address:port" of the peer; `name` stays as it is if the socket has no peer. */
void tcp_peer(int fd, char *name, size_t size);

/* Waits for events of poll(2). Returns 0 or -ETIMEDOUT. */
int tcp_wait(int fd, short events, uint64_t limit_ns);

/*
 * Accepts the next connection without waiting, even from a blocking listener. Returns 0, -EAGAIN if
 * there is no connection, or -EMFILE, -ENFILE, -ENOBUFS or -ENOMEM. After one of the last four
 * errors the connection is still in the listener's queue, and the listener stays readable.
 */
int tcp_take(int listener, int *fd_p);
/*
 * Returns true if this error of tcp_take() means that there was no descriptor or memory for a
 * connection.
 */
bool tcp_is_short(int err);
/*
 * Waits for a connection, also while no descriptor is free. Returns 0, or at the limit -ETIMEDOUT
 * or the shortage (tcp_is_short()).
 */
int tcp_accept(int listener, uint64_t limit_ns, int *fd_p);
/*
 * Ends the connection and closes the socket. The peer notices it even if a forked child has the
 * socket, too.
 */
void tcp_end(int fd);

/* Makes the kernel detect, within 20 s of silence, that the host of the peer has failed. */
void tcp_keep_alive(int fd);

/*
 * Connects to the first address of the host that answers; each address gets a part of the time. If
 * @patient is true, it tries again while the connection is refused, because the server may not have
 * started yet. Returns 0, -EADDRNOTAVAIL if there is no such host, -ECONNREFUSED, -ETIMEDOUT,
 * -EHOSTUNREACH, ... Name resolution has its own time limits.
 */
int tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p);

/*
 * The parts of tcp_connect(), for callers that do not wait. tcp_resolve() returns the addresses of
 * the host, or NULL; the caller frees them with freeaddrinfo(). When the socket of
 * tcp_connect_begin() is writable, tcp_connect_end() returns the result; a socket that is connected
 * to itself counts as refused. tcp_connect_limit() returns the end of the part of the time that
 * belongs to the first address of the list.
 */
struct addrinfo;
struct addrinfo *tcp_resolve(const char *host, uint16_t port);
int tcp_connect_begin(const struct addrinfo *a, int *fd_p);
int tcp_connect_end(int fd);
uint64_t tcp_connect_limit(const struct addrinfo *a, uint64_t now_ns, uint64_t limit_ns);

/*
 * Read or write until *done_p, the number of bytes done, is len. Return 0 then; -EAGAIN if the
 * socket is not ready for the rest; -ECONNRESET if the peer has closed the connection; or another
 * -errno.
 */
int tcp_read(int fd, void *to, size_t len, size_t *done_p);
int tcp_write(int fd, const void *from, size_t len, size_t *done_p);

/* Read or write all bytes. Return 0, -ECONNRESET, -ETIMEDOUT or another -errno. */
int tcp_get(int fd, void *to, size_t len, uint64_t limit_ns);
int tcp_put(int fd, const void *from, size_t len, uint64_t limit_ns);

/* ---- many connections ---- */

/* A connection whose first messages are not complete. The user's struct for it begins with this. */
struct tcp_guest {
	int fd;
	short events; /* the events of poll(2) that it waits for */
	uint64_t since_ns; /* when it was accepted */
	struct tcp_guest *next;
};

struct tcp_crowd {
	size_t size; /* of the user's struct for a guest, which begins with struct tcp_guest */
	/*
	 * Reads or writes as far as possible. Returns 0 if the messages are complete, -EAGAIN if not
	 * yet, or an error.
	 */
	int (*step)(void *arg, struct tcp_guest *g);
	/* NULL, or releases what the guest owns. The crowd then closes the fd and frees the guest. */
	void (*close)(void *arg, struct tcp_guest *g);
	void *arg;
	uint32_t most; /* guests at a time; if there is one more, the oldest is closed */
	uint64_t patience_ns; /* a guest older than this is closed; 0: no limit */

	struct tcp_guest *guests; /* the oldest first */
	uint32_t n;
	bool starved; /* the last call accepted none, for lack of a descriptor or memory */
};

/*
 * Accepts up to `take` connections (`take` must not exceed `most`), and calls step() for the
 * guests, the oldest first, until one is complete or fails. Returns
 *	0		the messages of *guest_p are complete; it has left the crowd, and the
 *			caller closes its fd and frees it
 *	-EAGAIN		no guest is complete
 *	other errors	of a guest, which has been closed, or of the listener
 * If there are more than `most` guests, or no descriptor is free, the oldest guest is closed. That,
 * and closing a guest older than patience_ns, is no error.
 */
int tcp_crowd_next(struct tcp_crowd *c, int listener, uint32_t take, uint64_t now_ns,
	struct tcp_guest **guest_p);
/* Waits until tcp_crowd_next() can make progress. Returns 0 or -ETIMEDOUT. */
int tcp_crowd_wait(const struct tcp_crowd *c, int listener, uint64_t now_ns, uint64_t limit_ns);
/* Closes all guests. */
void tcp_crowd_fini(struct tcp_crowd *c);

#endif
