/* SPDX-License-Identifier: MIT */
/*
 * Strangers, for tests of listeners: connections that send nothing, or wrong bytes, and stay open.
 * The requests of honest peers must still be served while strangers are connected:
 *
 *	for (size_t i = 0; i < STRANGERS; i++) {
 *		struct strangers s = strangers_come(i, port, greeting, sizeof(greeting));
 *		...                                  // an honest exchange, without a time limit
 *		strangers_leave(&s);
 *	}
 */
#ifndef SUPPORT_STRANGER_H
#define SUPPORT_STRANGER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/test.h"

#define STRANGERS_MANY 1000

enum stranger_kind {
	STRANGER_SILENT,
	STRANGER_HALF, /* sends half of a message */
	STRANGER_SLOW, /* sends a byte of a message at each strangers_drip() */
	STRANGER_GARBAGE,
	STRANGER_MANY, /* many silent ones */
	STRANGERS, /* the number of kinds */
};

struct strangers {
	const char *message; /* the first message of an honest peer */
	size_t len, said; /* bytes of the message, and how many the slow one has sent */
	int n, fd[STRANGERS_MANY];
};

static inline int stranger_connect(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Returns a socket that keeps a port which refuses all connections: it does not listen. Another
 * socket can listen at the port, if it has SO_REUSEADDR. */
static inline int refusing_port(uint16_t *port_p)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	/* Later than bind(), or the kernel could choose a port that another socket has. */
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	*port_p = ntohs(a.sin_port);
	return fd;
}

static inline void stranger_say(int fd, const void *bytes, size_t n)
{
	CHECK_EQ(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

/* Sends another byte of the slow stranger, which never completes its message. */
static inline void strangers_drip(struct strangers *s)
{
	if (s->said && s->said + 1 < s->len)
		send(s->fd[0], s->message + s->said++, 1, MSG_NOSIGNAL);
}

static inline void strangers_need_descriptors(void)
{
	struct rlimit r;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	if (r.rlim_cur >= 4 * STRANGERS_MANY)
		return;
	r.rlim_cur = r.rlim_max < 4 * STRANGERS_MANY ? r.rlim_max : 4 * STRANGERS_MANY;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
}

static inline struct strangers strangers_come(enum stranger_kind kind, uint16_t port,
	const void *message, size_t len)
{
	struct strangers s = {.message = message, .len = len};
	char garbage[4096];

	strangers_need_descriptors();
	for (s.n = 0; s.n < (kind == STRANGER_MANY ? STRANGERS_MANY : 1); s.n++)
		s.fd[s.n] = stranger_connect(port);
	test_fill(garbage, sizeof(garbage), 0xa5);
	if (kind == STRANGER_HALF)
		stranger_say(s.fd[0], message, len / 2);
	if (kind == STRANGER_GARBAGE)
		stranger_say(s.fd[0], garbage, sizeof(garbage));
	if (kind == STRANGER_SLOW) {
		s.said = 1;
		stranger_say(s.fd[0], message, 1);
	}
	return s;
}

static inline void strangers_leave(struct strangers *s)
{
	while (s->n)
		close(s->fd[--s->n]);
}

#endif
