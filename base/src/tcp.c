/* SPDX-License-Identifier: MIT */
#include "base/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define BACKLOG 4096 /* the kernel uses its own limit if that is less */

uint64_t tcp_limit(int timeout_ms)
{
	return timeout_ms < 0 ? TCP_FOREVER : clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
}

static int ms_between(uint64_t now, uint64_t limit)
{
	uint64_t ms;

	if (limit == TCP_FOREVER)
		return -1;
	ms = now >= limit ? 0 : (limit - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

int tcp_left_ms(uint64_t limit_ns)
{
	return ms_between(clock_ns(), limit_ns);
}

static int poll_until(struct pollfd *fds, nfds_t n, uint64_t limit)
{
	for (;;) {
		int ready = poll(fds, n, tcp_left_ms(limit));

		if (ready > 0)
			return 0;
		if (!ready && tcp_left_ms(limit) == 0)
			return -ETIMEDOUT;
		if (ready < 0 && errno != EINTR)
			return -errno;
	}
}

int tcp_wait(int fd, short events, uint64_t limit_ns)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll_until(&p, 1, limit_ns);
}

static uint64_t at_most(uint64_t limit, uint64_t other)
{
	return limit < other ? limit : other;
}

/* Sleeps for a short time, at most until the limit. */
static void rest(uint64_t limit)
{
	poll(NULL, 0, tcp_left_ms(at_most(limit, tcp_limit(TCP_AGAIN_MS))));
}

/* ---- listening ---- */

static struct addrinfo *resolve(const char *host, uint16_t port, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
	struct addrinfo *list;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	return getaddrinfo(host, service, &hints, &list) ? NULL : list;
}

static int new_socket(const struct addrinfo *a, int *fd_p)
{
	int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);

	*fd_p = fd;
	return fd < 0 ? -errno : 0;
}

/* If the kernel chooses the port, @reuse must be false: with SO_REUSEADDR another socket could get
 * the same port, and listen(2) would fail. */
static void set_options(int fd, const struct addrinfo *a, bool reuse)
{
	const int on = 1, off = 0;

	if (reuse)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
}

static int listen_at(const struct addrinfo *a, bool reuse, int *fd_p)
{
	int fd, err = new_socket(a, &fd);

	if (err)
		return err;
	set_options(fd, a, reuse);
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	*fd_p = fd;
	return 0;
}

/* Tries the addresses of @family until one works, or one is in use (-EADDRINUSE). */
static void listen_by(const struct addrinfo *list, int family, bool reuse, int *err, int *fd_p)
{
	for (const struct addrinfo *a = list; a && *err && *err != -EADDRINUSE; a = a->ai_next)
		if (a->ai_family == family)
			*err = listen_at(a, reuse, fd_p);
}

int tcp_listen(const char *host, uint16_t port, int *fd_p)
{
	struct addrinfo *list = resolve(host, port, AI_PASSIVE);
	int err = -EADDRNOTAVAIL;

	/* Without a host, tries IPv6 first: an IPv6 socket at all addresses accepts IPv4, too. */
	listen_by(list, host ? AF_INET : AF_INET6, port, &err, fd_p);
	listen_by(list, host ? AF_INET6 : AF_INET, port, &err, fd_p);
	if (list)
		freeaddrinfo(list);
	return err;
}

int tcp_port(int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char port[8];

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	if (getnameinfo((struct sockaddr *)&addr, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV))
		return -EINVAL;
	return atoi(port);
}

void tcp_peer(int fd, char *name, size_t size)
{
	static const char mapped[] = "::ffff:"; /* prefix of an IPv4 address in an IPv6 address */
	char host[48], port[8];
	struct sockaddr_storage addr = {0}; /* for an unnamed Unix socket, no path is written */
	socklen_t len = sizeof(addr);

	if (getpeername(fd, (struct sockaddr *)&addr, &len) ||
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	if (!strncmp(host, mapped, strlen(mapped)) && strchr(host, '.'))
		snprintf(name, size, "%s:%s", host + strlen(mapped), port);
	else
		snprintf(name, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* ---- connections ---- */

static void set_no_delay(int fd)
{
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void tcp_end(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

void tcp_keep_alive(int fd)
{
	const int on = 1, interval_s = 5, most = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof(most));
}

bool tcp_is_short(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

int tcp_take(int listener, int *fd_p)
{
	int fd;

	/* The caller's listener may be a blocking one, and accept4() reports a shortage of
	 * descriptors even if no connection waits. */
	if (tcp_wait(listener, POLLIN, 0) == -ETIMEDOUT)
		return -EAGAIN;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		set_no_delay(fd);
		*fd_p = fd;
		return 0;
	}
	switch (errno) {
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
	case EOPNOTSUPP:
		return -errno;
	default:
		/* The other errors are network errors of a connection that has gone. */
		return tcp_is_short(-errno) ? -errno : -EAGAIN;
	}
}

int tcp_accept(int listener, uint64_t limit_ns, int *fd_p)
{
	for (;;) {
		int err = tcp_wait(listener, POLLIN, limit_ns);

		if (!err)
			err = tcp_take(listener, fd_p);
		if (tcp_is_short(err) && tcp_left_ms(limit_ns))
			rest(limit_ns);
		else if (err != -EAGAIN)
			return err;
	}
}

struct addrinfo *tcp_resolve(const char *host, uint16_t port)
{
	return resolve(host, port, 0);
}

int tcp_connect_begin(const struct addrinfo *a, int *fd_p)
{
	int fd, err = new_socket(a, &fd);

	if (err)
		return err;
	if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS && errno != EINTR) {
		err = -errno;
		close(fd);
		return err;
	}
	*fd_p = fd;
	return 0;
}

static bool is_own_peer(int fd)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);

	return !getsockname(fd, (struct sockaddr *)&own, &own_len) && own.ss_family != AF_UNIX &&
	       !getpeername(fd, (struct sockaddr *)&peer, &peer_len) &&
	       !memcmp(&own, &peer, sizeof(own));
}

/* Resets the connection, so that it does not keep the port for a minute after close(2). */
static void reset(int fd)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	connect(fd, &none, sizeof(none));
}

int tcp_connect_end(int fd)
{
	socklen_t len = sizeof(int);
	int failed = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len))
		return -errno;
	if (failed)
		return -failed;
	/* If nobody listens at a local port, the kernel may choose it as the port of this socket,
	 * too, and connect the socket to itself. */
	if (is_own_peer(fd)) {
		reset(fd);
		return -ECONNREFUSED;
	}
	set_no_delay(fd);
	return 0;
}

static int connect_at(const struct addrinfo *a, uint64_t limit, int *fd_p)
{
	int fd, err = tcp_connect_begin(a, &fd);

	if (err)
		return err;
	err = tcp_wait(fd, POLLOUT, limit);
	if (!err)
		err = tcp_connect_end(fd);
	if (err)
		close(fd);
	else
		*fd_p = fd;
	return err;
}

static uint64_t count_of(const struct addrinfo *list)
{
	return list ? 1 + count_of(list->ai_next) : 0;
}

uint64_t tcp_connect_limit(const struct addrinfo *a, uint64_t now_ns, uint64_t limit_ns)
{
	if (limit_ns == TCP_FOREVER || now_ns >= limit_ns)
		return limit_ns;
	return now_ns + (limit_ns - now_ns) / count_of(a);
}

/* Tries the addresses in order. */
static int connect_any(const struct addrinfo *list, uint64_t limit, int *fd_p)
{
	int err = -EADDRNOTAVAIL;

	for (const struct addrinfo *a = list; a && err; a = a->ai_next)
		err = connect_at(a, tcp_connect_limit(a, clock_ns(), limit), fd_p);
	return err;
}

int tcp_connect(const char *host, uint16_t port, bool patient, uint64_t limit_ns, int *fd_p)
{
	struct addrinfo *list = tcp_resolve(host, port);
	int err = connect_any(list, limit_ns, fd_p);

	while (patient && err == -ECONNREFUSED && tcp_left_ms(limit_ns)) {
		rest(limit_ns);
		err = connect_any(list, limit_ns, fd_p);
	}
	if (list)
		freeaddrinfo(list);
	return err;
}

/* ---- bytes ---- */

/* Returns true if the system call that returned n must be repeated. Writes its error to *err_p. */
static bool moved(ssize_t n, size_t len, size_t *done_p, int *err_p)
{
	if (n > 0)
		*done_p += (size_t)n;
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0)
		*err_p = errno == EPIPE ? -ECONNRESET : -errno;
	return n > 0 && *done_p < len;
}

int tcp_read(int fd, void *to, size_t len, size_t *done_p)
{
	int err = -ECONNRESET; /* if recv() returns 0 */
	ssize_t n;

	if (*done_p == len)
		return 0;
	do
		n = recv(fd, (char *)to + *done_p, len - *done_p, MSG_DONTWAIT);
	while (moved(n, len, done_p, &err));
	return *done_p == len ? 0 : err;
}

int tcp_write(int fd, const void *from, size_t len, size_t *done_p)
{
	int err = 0;
	ssize_t n;

	if (*done_p == len)
		return 0;
	do
		n = send(fd, (const char *)from + *done_p, len - *done_p,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	while (moved(n, len, done_p, &err));
	return *done_p == len ? 0 : err;
}

int tcp_get(int fd, void *to, size_t len, uint64_t limit_ns)
{
	size_t done = 0;
	int err;

	while ((err = tcp_read(fd, to, len, &done)) == -EAGAIN) {
		err = tcp_wait(fd, POLLIN, limit_ns);
		if (err)
			return err;
	}
	return err;
}

int tcp_put(int fd, const void *from, size_t len, uint64_t limit_ns)
{
	size_t done = 0;
	int err;

	while ((err = tcp_write(fd, from, len, &done)) == -EAGAIN) {
		err = tcp_wait(fd, POLLOUT, limit_ns);
		if (err)
			return err;
	}
	return err;
}

/* ---- many connections ---- */

/* Removes a guest from the list; its descriptor belongs to the caller. */
static struct tcp_guest *leave(struct tcp_crowd *c, struct tcp_guest **link)
{
	struct tcp_guest *g = *link;

	*link = g->next;
	c->n--;
	return g;
}

static void send_away(struct tcp_crowd *c, struct tcp_guest **link)
{
	struct tcp_guest *g = leave(c, link);

	if (c->close)
		c->close(c->arg, g);
	tcp_end(g->fd);
	free(g);
}

static void enter(struct tcp_crowd *c, struct tcp_guest *g, int fd, uint64_t now)
{
	struct tcp_guest **link = &c->guests;

	while (*link)
		link = &(*link)->next;
	g->fd = fd;
	g->events = POLLIN;
	g->since_ns = now;
	*link = g;
	c->n++;
}

static int take_one(struct tcp_crowd *c, int listener, uint64_t now)
{
	int fd, err = tcp_take(listener, &fd);
	struct tcp_guest *g;

	if (err)
		return err;
	g = calloc(1, c->size);
	if (!g) {
		close(fd);
		return -ENOMEM;
	}
	enter(c, g, fd, now);
	return 0;
}

/*
 * Returns 0, or the listener's error. If no descriptor is free, closes the oldest guest, unless
 * this call has accepted a guest: step() must be called for a new guest before it is closed.
 */
static int take_some(struct tcp_crowd *c, int listener, uint32_t take, uint64_t now)
{
	uint32_t taken = 0;
	int err = 0;

	while (taken < take && !err) {
		err = take_one(c, listener, now);
		taken += !err;
		if (c->n > c->most)
			send_away(c, &c->guests);
		if (tcp_is_short(err) && c->guests && !taken) {
			send_away(c, &c->guests);
			err = 0;
		}
	}
	c->starved = tcp_is_short(err) && !taken;
	return tcp_is_short(err) || err == -EAGAIN ? 0 : err;
}

static bool too_old(const struct tcp_crowd *c, const struct tcp_guest *g, uint64_t now)
{
	return c->patience_ns && now - g->since_ns >= c->patience_ns;
}

int tcp_crowd_next(struct tcp_crowd *c, int listener, uint32_t take, uint64_t now_ns,
	struct tcp_guest **guest_p)
{
	struct tcp_guest **link = &c->guests;
	int err = take_some(c, listener, take, now_ns);

	if (err)
		return err;
	while (*link) {
		err = c->step(c->arg, *link);
		if (!err) {
			*guest_p = leave(c, link);
			return 0;
		}
		if (err != -EAGAIN) {
			send_away(c, link);
			return err;
		}
		if (too_old(c, *link, now_ns))
			send_away(c, link);
		else
			link = &(*link)->next;
	}
	return -EAGAIN;
}

int tcp_crowd_wait(const struct tcp_crowd *c, int listener, uint64_t now_ns, uint64_t limit_ns)
{
	struct pollfd *fds = calloc(c->n + 1, sizeof(*fds));
	uint64_t until = c->starved ? now_ns + TCP_AGAIN_MS * NSEC_PER_MSEC : limit_ns;
	nfds_t n = 1;
	int err;

	if (!fds)
		return -ENOMEM;
	fds[0] = (struct pollfd){.fd = c->starved ? -1 : listener, .events = POLLIN};
	for (const struct tcp_guest *g = c->guests; g; g = g->next)
		fds[n++] = (struct pollfd){.fd = g->fd, .events = g->events};
	if (c->guests && c->patience_ns)
		until = at_most(until, c->guests->since_ns + c->patience_ns);
	err = poll_until(fds, n, at_most(until, limit_ns));
	free(fds);
	return err == -ETIMEDOUT && until < limit_ns ? 0 : err;
}

void tcp_crowd_fini(struct tcp_crowd *c)
{
	while (c->guests)
		send_away(c, &c->guests);
}
