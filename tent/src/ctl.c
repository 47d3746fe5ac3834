/* SPDX-License-Identifier: MIT */
#include "ctl.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "why.h"

static_assert(sizeof(struct ctl_msg) == CTL_LEN, "as on the wire");
static_assert(sizeof(((struct ctl_msg *)0)->bytes) == NOTICE_LEN, "a message has room for a mark");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");

static int lookup(const char *host, uint16_t port, bool listen, struct addrinfo **list_p,
	struct tent_why *why)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (listen ? AI_PASSIVE : 0),
	};
	char service[8];
	int err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, list_p);
	if (err)
		return why_say(why, -EADDRNOTAVAIL, "address %s: %s", host, gai_strerror(err));
	return 0;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len))
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port :
					       ((struct sockaddr_in *)&a)->sin_port);
}

int ctl_listen(const char *host, uint16_t port, int *fd_p, uint16_t *port_p, struct tent_why *why)
{
	struct addrinfo *a = NULL;
	int fd, err = lookup(host, port, true, &a, why);

	if (err)
		return err;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || (port && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int))) ||
		bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 64))
		err = -errno;
	freeaddrinfo(a);
	if (err) {
		if (fd >= 0)
			close(fd);
		return why_say(why, err, "address %s, port %u: %s", host, port, strerror(-err));
	}
	*fd_p = fd;
	*port_p = port_of(fd);
	return 0;
}

static int wait_for(int fd, short events, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n;

	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n ? 0 : -ETIMEDOUT;
}

static int connect_to(const struct addrinfo *a, int timeout_ms, int *fd_p)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err = 0;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen)) {
		err = -errno;
		if (err == -EINPROGRESS)
			err = wait_for(fd, POLLOUT, timeout_ms);
		if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
			err = errno;
		err = err > 0 ? -err : err;
	}
	if (err) {
		close(fd);
		return err;
	}
	*fd_p = fd;
	return 0;
}

static void prepare(struct ctl *c, int fd)
{
	/* Messages are answers that somebody waits for. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	*c = (struct ctl){.fd = fd};
}

int ctl_connect(const char *host, uint16_t port, int timeout_ms, struct ctl *c_p,
	struct tent_why *why)
{
	struct addrinfo *list = NULL;
	int fd = -1, err = lookup(host, port, false, &list, why);

	if (err)
		return err;
	err = -EADDRNOTAVAIL;
	for (const struct addrinfo *a = list; a && err; a = a->ai_next)
		err = connect_to(a, timeout_ms, &fd);
	freeaddrinfo(list);
	if (err)
		return why_say(why, err, "peer %s, port %u: %s", host, port, strerror(-err));
	prepare(c_p, fd);
	return 0;
}

int ctl_accept(int fd, struct ctl *c_p)
{
	int conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (conn < 0)
		return -EAGAIN;
	prepare(c_p, conn);
	return 0;
}

void ctl_close(struct ctl *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int ctl_send(struct ctl *c, struct ctl_msg *msg)
{
	ssize_t n;

	if (c->fd < 0)
		return -ECONNRESET;
	msg->magic = CTL_MAGIC;
	do
		n = send(c->fd, msg, sizeof(*msg), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	/* A peer that leaves so much unread that the socket is full has stopped. */
	return n == sizeof(*msg) ? 0 : -ECONNRESET;
}

int ctl_receive(struct ctl *c, struct ctl_msg *msg_p)
{
	ssize_t n;

	if (c->fd < 0)
		return -ECONNRESET;
	do
		n = recv(c->fd, c->buf + c->got, CTL_LEN - c->got, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -ECONNRESET;
	if (!n)
		return -ECONNRESET;
	c->got += (size_t)n;
	if (c->got < CTL_LEN)
		return -EAGAIN;
	c->got = 0;
	memcpy(msg_p, c->buf, CTL_LEN);
	return msg_p->magic == CTL_MAGIC ? 0 : -EPROTO;
}

int ctl_await(struct ctl *c, int timeout_ms, struct ctl_msg *msg_p)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;

	for (;;) {
		uint64_t now = clock_ns();
		int err = ctl_receive(c, msg_p);

		if (err != -EAGAIN)
			return err;
		if (now >= end)
			return -ETIMEDOUT;
		err = wait_for(c->fd, POLLIN, (int)((end - now) / NSEC_PER_MSEC) + 1);
		if (err)
			return err;
	}
}

void ctl_put_mark(struct ctl_msg *msg, const struct notice_mark *mark)
{
	memcpy(msg->bytes, mark, sizeof(msg->bytes));
}

void ctl_get_mark(const struct ctl_msg *msg, struct notice_mark *mark_p)
{
	memcpy(mark_p, msg->bytes, sizeof(*mark_p));
}

void ctl_put_end(struct ctl_msg *msg, const struct mlx5dvl_qp_info *end)
{
	msg->qpn = end->qpn;
	msg->psn = end->psn;
	msg->lid = end->lid;
	msg->mtu = end->mtu;
	msg->rd_atomic = end->rd_atomic;
	memcpy(msg->bytes, end->gid, sizeof(msg->bytes));
}

void ctl_get_end(const struct ctl_msg *msg, struct mlx5dvl_qp_info *end_p)
{
	*end_p = (struct mlx5dvl_qp_info){
		.qpn = msg->qpn,
		.psn = msg->psn,
		.lid = msg->lid,
		.mtu = msg->mtu,
		.rd_atomic = msg->rd_atomic,
	};
	memcpy(end_p->gid, msg->bytes, sizeof(end_p->gid));
}
