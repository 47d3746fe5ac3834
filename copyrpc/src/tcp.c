/* SPDX-License-Identifier: MIT */
/* TCP connections: listening, accepting, connecting, within a time limit. */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "copyrpc_tcp.h"

#define BACKLOG 128
#define TRY_AGAIN_MS 20 /* after a refused connection */

uint64_t limit_of(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
}

/* Milliseconds until the limit, at most `most`; for poll(2). */
static int left_ms(uint64_t limit, int most)
{
	uint64_t now, ms;

	if (limit == UINT64_MAX)
		return most;
	now = clock_ns();
	ms = now >= limit ? 0 : (limit - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return most < 0 || ms < (uint64_t)most ? (int)(ms < INT32_MAX ? ms : INT32_MAX) : most;
}

int wait_for(int fd, short events, uint64_t limit)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int n = poll(&p, 1, left_ms(limit, -1));

		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static struct addrinfo *resolve(const char *host, uint16_t port, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *list;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	return getaddrinfo(host, service, &hints, &list) ? NULL : list;
}

static int listen_at(const struct addrinfo *a, int *fd_p)
{
	int type = a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one = 1, err;
	int fd = socket(a->ai_family, type, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG)) {
		*fd_p = fd;
		return 0;
	}
	err = -errno;
	close(fd);
	return err;
}

int copyrpc_tcp_listen(const char *host, uint16_t port, int *fd_p)
{
	struct addrinfo *list = resolve(host, port, AI_PASSIVE);
	int err = -EADDRNOTAVAIL;

	for (const struct addrinfo *a = list; a && err; a = a->ai_next)
		err = listen_at(a, fd_p);
	if (list)
		freeaddrinfo(list);
	return err;
}

int copyrpc_tcp_port(int fd)
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

void peer_name(int fd, char *name, size_t size)
{
	char host[64], port[8];
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getpeername(fd, (struct sockaddr *)&addr, &len) ||
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	snprintf(name, size, "%s:%s", host, port);
}

/* The socket of a connection as the program gets it. */
static int finish(int fd, int *fd_p)
{
	int one = 1, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK)) {
		int err = -errno;

		close(fd);
		return err;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*fd_p = fd;
	return 0;
}

int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p)
{
	uint64_t limit = limit_of(timeout_ms);

	for (;;) {
		int fd, err = wait_for(listener, POLLIN, limit);

		if (err)
			return err;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			return finish(fd, fd_p);
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			return -errno;
	}
}

static int connect_at(const struct addrinfo *a, uint64_t limit, int *fd_p)
{
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen)) {
		err = -errno;
		if (err == -EINPROGRESS) {
			err = wait_for(fd, POLLOUT, limit);
			if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
				err = errno;
			err = err > 0 ? -err : err;
		}
	}
	if (!err)
		return finish(fd, fd_p);
	close(fd);
	return err;
}

int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p)
{
	uint64_t limit = limit_of(timeout_ms);
	struct addrinfo *list = resolve(host, port, 0);
	int err = -EADDRNOTAVAIL, ms;

	for (;;) {
		for (const struct addrinfo *a = list; a && err; a = a->ai_next)
			err = connect_at(a, limit, fd_p);
		ms = left_ms(limit, TRY_AGAIN_MS);
		if (err != -ECONNREFUSED || !ms)
			break;
		poll(NULL, 0, ms);
	}
	if (list)
		freeaddrinfo(list);
	return err;
}
