/* SPDX-License-Identifier: MIT */
/* Connects the two ends of a test over TCP. */
#ifndef SOFTHCA_TEST_MEET_H
#define SOFTHCA_TEST_MEET_H

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

/* Connects a client to the server on @host; if @host is NULL, accepts one client. */
static inline int meet_at(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *a;
	int fd, on = 1, s;

	CHECK(!getaddrinfo(host ? host : "0.0.0.0", port, &hints, &a));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	if (host) {
		CHECK(!connect(fd, a->ai_addr, a->ai_addrlen));
	} else {
		CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
		CHECK(!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1));
		s = fd;
		fd = accept(s, NULL, NULL);
		CHECK(fd >= 0);
		close(s);
	}
	freeaddrinfo(a);
	return fd;
}

static inline void meet_exchange(int fd, const void *own, void *theirs, size_t len)
{
	CHECK_EQ(write(fd, own, len), (ssize_t)len);
	CHECK_EQ(recv(fd, theirs, len, MSG_WAITALL), (ssize_t)len);
}

/* Waits until the other side has called this, too, or has ended. */
static inline void meet_part(int fd)
{
	char byte;

	shutdown(fd, SHUT_WR);
	while (read(fd, &byte, 1) > 0)
		;
}

#endif
