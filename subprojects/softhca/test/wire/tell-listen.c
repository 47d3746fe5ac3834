/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the programs of hosts.py: reports to hosts.py the TCP ports on which they listen.
 * If HOSTS_LINGER is set, a program that has listened prints "lingers" when the destructors of its
 * libraries have run, and remains until it is killed.
 */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has_listened;

static void linger(int status, void *arg)
{
	static const char said[] = "lingers\n";

	(void)status, (void)arg;
	if (!has_listened)
		return;
	(void)!write(STDOUT_FILENO, said, sizeof(said) - 1);
	for (;;)
		pause();
}

/* The destructors of all libraries run before what a constructor registers with on_exit(). */
__attribute__((constructor)) static void init(void)
{
	if (getenv("HOSTS_LINGER"))
		on_exit(linger, NULL);
}

int listen(int fd, int backlog)
{
	int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at;
	socklen_t len = sizeof(at);
	const char *pipe = getenv("HOSTS_LISTEN");
	int r = next(fd, backlog);

	has_listened = !r;
	if (r || !pipe || getsockname(fd, &at.any, &len))
		return r;
	if (at.any.sa_family == AF_INET || at.any.sa_family == AF_INET6) {
		/* The port is at the same offset in both structures. */
		uint16_t port = ntohs(at.v4.sin_port);

		/* Fails only in a program without this pipe, for which hosts.py does not wait. */
		(void)!write(atoi(pipe), &port, sizeof(port));
	}
	return r;
}
