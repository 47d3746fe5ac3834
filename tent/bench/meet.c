/* SPDX-License-Identifier: MIT */
#include "meet.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT_MAX (1u << 26)

static int lookup(const char *host, uint16_t port, struct addrinfo **list_p)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	return getaddrinfo(host, service, &hints, list_p) ? -EADDRNOTAVAIL : 0;
}

int meet_listen(const char *host, uint16_t port)
{
	struct addrinfo *a;
	int fd, err = lookup(host, port, &a);

	if (err)
		return err;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
		bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 4)) {
		err = -errno;
		if (fd >= 0)
			close(fd);
	}
	freeaddrinfo(a);
	return err ? err : fd;
}

static int write_all(int fd, const void *bytes, size_t n)
{
	while (n) {
		ssize_t m = send(fd, bytes, n, MSG_NOSIGNAL);

		if (m < 0)
			return -errno;
		bytes = (const char *)bytes + m;
		n -= (size_t)m;
	}
	return 0;
}

static int read_all(int fd, void *bytes, size_t n)
{
	while (n) {
		ssize_t m = read(fd, bytes, n);

		if (m <= 0)
			return m ? -errno : -ECONNRESET;
		bytes = (char *)bytes + m;
		n -= (size_t)m;
	}
	return 0;
}

int meet_serve(int listener, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);
	int fd = accept(listener, NULL, NULL), err;
	char byte;

	if (fd < 0)
		return -errno;
	err = write_all(fd, &len, sizeof(len));
	if (!err)
		err = write_all(fd, text, len);
	if (!err)
		read_all(fd, &byte, 1);
	close(fd);
	return err;
}

static int connect_to(const char *host, uint16_t port)
{
	struct addrinfo *list;
	int fd = -1, err = lookup(host, port, &list);

	if (err)
		return err;
	err = -EADDRNOTAVAIL;
	for (const struct addrinfo *a = list; a && err; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		err = fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) ? -errno : 0;
		if (err && fd >= 0)
			close(fd);
	}
	freeaddrinfo(list);
	return err ? err : fd;
}

int meet_fetch(const char *host, uint16_t port, char **text_p)
{
	int fd = connect_to(host, port), err;
	char *text = NULL;
	uint32_t len = 0;

	if (fd < 0)
		return fd;
	err = read_all(fd, &len, sizeof(len));
	if (!err && len > TEXT_MAX)
		err = -EPROTO;
	if (!err) {
		text = malloc(len + 1);
		err = text ? read_all(fd, text, len) : -ENOMEM;
	}
	if (err) {
		free(text);
		close(fd);
		return err;
	}
	text[len] = 0;
	*text_p = text;
	return fd;
}
