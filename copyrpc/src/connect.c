/* SPDX-License-Identifier: MIT */
/* Opens TCP connections that belong to the program, and connects endpoints over them. */
#include <fcntl.h>
#include <unistd.h>

#include "base/tcp.h"
#include "copyrpc_tcp.h"
#include "meet.h"

int copyrpc_ep_meet(struct copyrpc_ep *ep, int fd, int timeout_ms)
{
	uint64_t limit = tcp_limit(timeout_ms);
	struct meeting m = {.fd = fd};
	int err;

	if (ep->ch.status != -ENOTCONN)
		return -EISCONN;
	err = meet_begin(&m, ep);
	if (err)
		return err;
	while ((err = meet_step(&m, NULL, NULL)) == -EAGAIN) {
		err = tcp_wait(fd, m.events, limit);
		if (err)
			break;
	}
	ep->held = NULL;
	return err;
}

int copyrpc_tcp_listen(const char *host, uint16_t port, int *fd_p)
{
	return tcp_listen(host, port, fd_p);
}

int copyrpc_tcp_port(int fd)
{
	return tcp_port(fd);
}

/* Makes the socket blocking and stores it in *fd_p; closes it after an error. */
static int make_blocking(int fd, int *fd_p)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK)) {
		int err = -errno;

		close(fd);
		return err;
	}
	*fd_p = fd;
	return 0;
}

int copyrpc_tcp_accept(int listener, int timeout_ms, int *fd_p)
{
	int fd, err = tcp_accept(listener, tcp_limit(timeout_ms), &fd);

	return err ? err : make_blocking(fd, fd_p);
}

int copyrpc_tcp_connect(const char *host, uint16_t port, int timeout_ms, int *fd_p)
{
	int fd, err = tcp_connect(host, port, true, tcp_limit(timeout_ms), &fd);

	return err ? err : make_blocking(fd, fd_p);
}
