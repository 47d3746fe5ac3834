/* SPDX-License-Identifier: MIT */
#include "ctl.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tcp.h"
#include "why.h"

static_assert(sizeof(struct ctl_msg) == CTL_LEN, "as on the wire");
static_assert(offsetof(struct ctl_msg, mark) == 32, "as on the wire");
static_assert(offsetof(struct ctl_msg, stage) == 32, "as on the wire");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");

int ctl_listen(const char *host, uint16_t port, int *fd_p, uint16_t *port_p, struct tent_why *why)
{
	int err = tcp_listen(host, port, fd_p);

	if (err)
		return why_say(why, err, "address %s, port %u: %s", host, port, strerror(-err));
	*port_p = (uint16_t)tcp_port(*fd_p);
	return 0;
}

static void prepare(struct ctl *c, int fd)
{
	/* If the peer's host fails, keep-alive ends the connection. */
	tcp_keep_alive(fd);
	*c = (struct ctl){.fd = fd};
}

int ctl_connect(const char *host, uint16_t port, int timeout_ms, struct ctl *c_p,
	struct tent_why *why)
{
	int fd, err = tcp_connect(host, port, false, tcp_limit(timeout_ms), &fd);

	if (err)
		return why_say(why, err, "peer %s, port %u: %s", host, port, strerror(-err));
	prepare(c_p, fd);
	return 0;
}

int ctl_accept(int fd, struct ctl *c_p)
{
	int conn, err = tcp_take(fd, &conn);

	if (!err)
		prepare(c_p, conn);
	return err;
}

void ctl_close(struct ctl *c)
{
	if (c->fd >= 0)
		tcp_end(c->fd);
	c->fd = -1;
}

void ctl_end(struct ctl *c)
{
	shutdown(c->fd, SHUT_WR);
}

int ctl_send_all(struct ctl *c, struct ctl_msg *msgs, uint32_t n)
{
	size_t done = 0;
	int err;

	if (c->fd < 0)
		return -ECONNRESET;
	for (uint32_t i = 0; i < n; i++)
		msgs[i].magic = CTL_MAGIC;
	err = tcp_write(c->fd, msgs, n * sizeof(*msgs), &done);
	if (err == -EAGAIN)
		return -ENOBUFS;
	return err ? -ECONNRESET : 0;
}

int ctl_send(struct ctl *c, struct ctl_msg *msg)
{
	return ctl_send_all(c, msg, 1);
}

int ctl_receive(struct ctl *c, struct ctl_msg *msg_p)
{
	int err = c->fd < 0 ? -ECONNRESET : tcp_read(c->fd, c->buf, CTL_LEN, &c->got);

	if (err)
		return err == -EAGAIN ? err : -ECONNRESET;
	c->got = 0;
	memcpy(msg_p, c->buf, CTL_LEN);
	return msg_p->magic == CTL_MAGIC ? 0 : -EPROTO;
}

int ctl_await(struct ctl *c, int timeout_ms, struct ctl_msg *msg_p)
{
	uint64_t limit = tcp_limit(timeout_ms);
	int err;

	while ((err = ctl_receive(c, msg_p)) == -EAGAIN) {
		err = tcp_wait(c->fd, POLLIN, limit);
		if (err)
			return err;
	}
	return err;
}
