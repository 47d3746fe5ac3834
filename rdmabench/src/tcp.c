/* SPDX-License-Identifier: MIT */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define BACKLOG 64
#define RETRY_MS 50

static int bind_and_listen(int fd, uint32_t port, int local, uint32_t *port_p)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	socklen_t len = sizeof(a);
	int on = 1, off = 0;

	a.sin6_addr = local ? in6addr_loopback : in6addr_any;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG) ||
		getsockname(fd, (struct sockaddr *)&a, &len))
		return -errno;
	*port_p = ntohs(a.sin6_port);
	return 0;
}

/* Machines without IPv6. */
static int bind_ipv4(int fd, uint32_t port, int local, uint32_t *port_p)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	socklen_t len = sizeof(a);
	int on = 1;

	a.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG) ||
		getsockname(fd, (struct sockaddr *)&a, &len))
		return -errno;
	*port_p = ntohs(a.sin_port);
	return 0;
}

int tcp_listen(uint32_t port, int local, uint32_t *port_p)
{
	int fd = local ? -1 : socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), err = -EAFNOSUPPORT;

	if (fd >= 0) {
		err = bind_and_listen(fd, port, local, port_p);
		if (!err)
			return fd;
		close(fd);
		if (err == -EADDRINUSE)
			return err;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = bind_ipv4(fd, port, local, port_p);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static void set_no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int tcp_accept(int fd, int timeout_ms, char *peer, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	int conn;

	if (poll(&p, 1, timeout_ms) <= 0)
		return -EAGAIN;
	conn = accept4(fd, (struct sockaddr *)&a, &len, SOCK_CLOEXEC);
	if (conn < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	set_no_delay(conn);
	if (getnameinfo((struct sockaddr *)&a, len, peer, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
		snprintf(peer, size, "unknown");
	return conn;
}

/* connect(2) with a time limit: a host that swallows packets would hold us for minutes. */
static int connect_within(int fd, const struct addrinfo *a, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	uint64_t now = clock_ns();
	int err = 0;

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	if (!connect(fd, a->ai_addr, a->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	if (now >= deadline_ns || poll(&p, 1, (int)((deadline_ns - now) / NSEC_PER_MSEC) + 1) <= 0)
		return -ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

static int try_all(const struct addrinfo *list, uint64_t deadline_ns)
{
	int err = -ECONNREFUSED;

	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

		if (fd < 0)
			continue;
		err = connect_within(fd, a, deadline_ns);
		if (!err) {
			set_no_delay(fd);
			return fd;
		}
		close(fd);
	}
	return err;
}

int tcp_connect(const char *host, uint32_t port, uint64_t timeout_ns)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
	uint64_t deadline = clock_ns() + timeout_ns;
	char service[16];
	int fd;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &list))
		return -ENOENT;
	do {
		fd = try_all(list, deadline);
		if (fd == -ECONNREFUSED)
			poll(NULL, 0, RETRY_MS);
	} while (fd == -ECONNREFUSED && clock_ns() < deadline);
	freeaddrinfo(list);
	return fd;
}
