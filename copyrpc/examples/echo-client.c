/* SPDX-License-Identifier: MIT */
/*
 * copyrpc-echo-client PORT [ADDRESS]: makes 10,000 calls of different lengths, up to 64 at a time,
 * and checks that each response equals its request.
 */
#include <sched.h>

#include "echo.h"

#define TIMEOUT_MS 10000
#define CALLS 10000
#define DEPTH 64
#define LONGEST 200

static uint32_t fill(char *buf, uint64_t token)
{
	uint32_t len = (uint32_t)(token * 7919 % (LONGEST + 1));

	memset(buf, (int)('a' + token % 26), len);
	return len;
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	uint64_t *done = arg;
	char want[LONGEST], line[200];

	if (status) {
		copyrpc_ep_describe(ep, line, sizeof(line));
		fprintf(stderr, "%s\n", line);
		exit(1);
	}
	if (len != fill(want, token) || memcmp(data, want, len)) {
		fprintf(stderr, "call %llu: not an echo\n", (unsigned long long)token);
		exit(1);
	}
	++*done;
}

/* Holds the server's request without an answer, because the server's call must end only when this
 * side ends. Detaches the request at once, because otherwise it would use room in the ring. */
static void keep_requests(struct copyrpc_ctx *ctx)
{
	struct copyrpc_req *req;

	while (copyrpc_recv(ctx, &req) == 1)
		check(copyrpc_req_detach(req), "detach");
}

int main(int argc, char **argv)
{
	uint64_t sent = 0, done = 0;
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	if (argc < 2) {
		fprintf(stderr, "usage: copyrpc-echo-client PORT [ADDRESS]\n");
		return 2;
	}
	ctx = open_device(argv);
	check_connect(ctx, copyrpc_connect(ctx, NULL, argc > 2 ? argv[2] : "127.0.0.1",
				   (uint16_t)atoi(argv[1]), TIMEOUT_MS, &ep));
	while (done < CALLS) {
		char buf[LONGEST];
		uint32_t len;
		int rc = 0;

		for (; sent < CALLS && sent - done < DEPTH && !rc; sent += !rc) {
			len = fill(buf, sent);
			rc = copyrpc_call(ep, buf, len, LONGEST, sent);
			if (rc != -EAGAIN && rc != -ENOBUFS) /* after these errors: poll, then try
								again */
				check(rc, "call");
		}
		if (!copyrpc_poll(ctx, on_response, &done))
			sched_yield();
		keep_requests(ctx);
	}
	printf("%llu echoes\n", (unsigned long long)done);
	copyrpc_ctx_destroy(ctx); /* the server detects this and ends */
	return 0;
}
