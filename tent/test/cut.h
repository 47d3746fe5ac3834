/* SPDX-License-Identifier: MIT */
/* Disconnects connections of rails over TCP. */
#ifndef TENT_TEST_CUT_H
#define TENT_TEST_CUT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CUT_FDS 256

/* The port at which an engine accepts control connections; @text is its description. */
static inline int cut_control_port(const char *text)
{
	const char *port = strstr(text, "\"port\":");

	return port ? atoi(port + 7) : -1;
}

/*
 * Disconnects @fd if it is a connection of this process that carries data. @is_control returns
 * whether an engine listens for control connections at a port.
 */
static inline bool cut_fd(int fd, bool (*is_control)(void *arg, int port), void *arg)
{
	/* Uses a copy, because the engine may close @fd meanwhile, which TSan would report. */
	int copy = (int)syscall(SYS_dup, fd);
	struct sockaddr_in own = {0}, peer = {0};
	socklen_t a = sizeof(own), b = sizeof(peer);
	bool data = copy >= 0 && !getsockname(copy, (struct sockaddr *)&own, &a) &&
		    !getpeername(copy, (struct sockaddr *)&peer, &b) && own.sin_family == AF_INET &&
		    !is_control(arg, ntohs(own.sin_port)) && !is_control(arg, ntohs(peer.sin_port));

	if (data)
		shutdown(copy, SHUT_RDWR);
	if (copy >= 0)
		close(copy);
	return data;
}

#endif
