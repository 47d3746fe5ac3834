/* SPDX-License-Identifier: MIT */
/*
 * echo-server [PORT]: answers each request with its own bytes, the shorter ones of a round
 * first, until the client hangs up. Prints the port that it listens on.
 */
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

int main(int argc, char **argv)
{
	struct copyrpc_ctx *ctx = open_device(argv);
	int listener, line;
	char c;

	check(copyrpc_tcp_listen(NULL, (uint16_t)(argc > 1 ? atoi(argv[1]) : 0), &listener),
		"listen");
	printf("%d\n", copyrpc_tcp_port(listener));
	fflush(stdout);
	check(copyrpc_tcp_accept(listener, -1, &line), "accept");
	introduce(ctx, line);
	/* An endpoint that only receives is not told that its peer has left; the line is. */
	while (recv(line, &c, 1, MSG_DONTWAIT) != 0)
		if (!serve(ctx))
			sched_yield();
	copyrpc_ctx_destroy(ctx);
	close(line);
	close(listener);
	return 0;
}
