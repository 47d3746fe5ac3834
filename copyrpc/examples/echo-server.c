/* SPDX-License-Identifier: MIT */
/*
 * copyrpc-echo-server [PORT]: answers each request with the request's own bytes, until the client
 * has left. Among the requests of one poll, the shorter ones are answered first. Prints the port on
 * which it listens.
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

/* Called when the call that main() makes to the client has ended. The client never answers that
 * call, so the call ends when the client has left. */
static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	*(int *)arg = status;
}

/* Serves requests; replies may be in any order. */
static int serve(struct copyrpc_ctx *ctx, int *ended_p)
{
	struct copyrpc_req *req[ROUND];
	size_t n = 0;

	copyrpc_poll(ctx, on_end, ended_p);
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

/* Returns the next client's endpoint. An error of a connection is reported and ignored, an error of
 * this side ends the program. */
static struct copyrpc_ep *next_client(struct copyrpc_ctx *ctx, int listener)
{
	struct copyrpc_ep *ep;
	int rc;

	while ((rc = copyrpc_accept(ctx, NULL, listener, -1, &ep))) {
		if (rc == -EIO || rc == -ENOMEM || rc == -EMFILE)
			check(rc, "accept");
		fprintf(stderr, "not a client: %s\n", reason(ctx, rc));
	}
	return ep;
}

int main(int argc, char **argv)
{
	struct copyrpc_ctx *ctx = open_device(argv);
	struct copyrpc_ep *ep;
	int listener, ended = 0;

	check(copyrpc_tcp_listen(NULL, (uint16_t)(argc > 1 ? atoi(argv[1]) : 0), &listener),
		"listen");
	printf("%d\n", copyrpc_tcp_port(listener));
	fflush(stdout);
	ep = next_client(ctx, listener);
	/* A client that ends says goodbye, but a client that is killed does not. The library
	 * detects the death of a client only while something is pending, so the server makes a
	 * call. */
	check(copyrpc_call(ep, NULL, 0, 0, 0), "call");
	while (!ended)
		if (!serve(ctx, &ended))
			sched_yield();
	copyrpc_ctx_destroy(ctx);
	close(listener);
	return 0;
}
