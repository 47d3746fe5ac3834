/* SPDX-License-Identifier: MIT */
/* What the echo server and client share: one TCP connection to introduce themselves. */
#ifndef ECHO_H
#define ECHO_H

#include <copyrpc.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

/* An endpoint that is connected to the one at the other end of the socket. */
static inline struct copyrpc_ep *introduce(struct copyrpc_ctx *ctx, int sock)
{
	char mine[COPYRPC_INFO_SIZE], theirs[COPYRPC_INFO_SIZE];
	struct copyrpc_ep *ep;

	check(copyrpc_ep_create(ctx, NULL, &ep), "endpoint");
	copyrpc_ep_info(ep, mine);
	if (send(sock, mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
		recv(sock, theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs)) {
		fprintf(stderr, "the peer hung up\n");
		exit(1);
	}
	check(copyrpc_ep_connect(ep, theirs, sizeof(theirs)), "connect");
	return ep;
}

#endif
