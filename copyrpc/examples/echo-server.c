/* SPDX-License-Identifier: MIT */
/*
 * echo-server [PORT]: answers each request with its own bytes, the shorter ones of a round
 * first, until the client hangs up. Prints the port that it listens on.
 */
#include <arpa/inet.h>
#include <sched.h>

#include "echo.h"

#define ROUND 256

static int shorter(const void *a, const void *b)
{
	uint32_t x = copyrpc_req_len(*(struct copyrpc_req *const *)a);
	uint32_t y = copyrpc_req_len(*(struct copyrpc_req *const *)b);

	return (x > y) - (x < y);
}

/* Replies may be in any order. */
static int serve(struct copyrpc_ctx *ctx)
{
	struct copyrpc_req *req[ROUND];
	size_t n = 0;

	copyrpc_poll(ctx, NULL, NULL); /* it makes no calls, so there are no responses */
	while (n < ROUND && copyrpc_recv(ctx, &req[n]) == 1)
		n++;
	qsort(req, n, sizeof(req[0]), shorter);
	for (size_t i = 0; i < n; i++) {
		const void *data = copyrpc_req_data(req[i]);
		uint32_t len = copyrpc_req_len(req[i]);

		if (copyrpc_reply(req[i], data, len) == -EMSGSIZE)
			copyrpc_reply(req[i], NULL, 0); /* every request gets a reply */
	}
	return (int)n;
}

static int listen_on(int port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	socklen_t len = sizeof(addr);
	int sock = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_addr.s_addr = htonl(INADDR_ANY);
	if (sock < 0 || bind(sock, (struct sockaddr *)&addr, sizeof(addr)) || listen(sock, 1) ||
		getsockname(sock, (struct sockaddr *)&addr, &len)) {
		perror("listen");
		exit(1);
	}
	printf("%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	return sock;
}

int main(int argc, char **argv)
{
	int sock = listen_on(argc > 1 ? atoi(argv[1]) : 0);
	int client = accept(sock, NULL, NULL);
	struct copyrpc_ctx *ctx;
	char c;

	if (client < 0) {
		perror("accept");
		return 1;
	}
	check(copyrpc_ctx_create(NULL, &ctx), "context");
	introduce(ctx, client);
	while (recv(client, &c, 1, MSG_DONTWAIT) != 0)
		if (!serve(ctx))
			sched_yield();
	copyrpc_ctx_destroy(ctx);
	return 0;
}
