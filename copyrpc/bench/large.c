/* SPDX-License-Identifier: MIT */
/*
 * Throughput of large calls between two processes, for large.py:
 *
 *	large REQUEST RESPONSE CALLS DEPTH [DEVICE]
 *
 * The sizes are in bytes. DEPTH calls are pending at a time. Prints the MiB/s of the direction with
 * the longer messages. The first and the last byte of each request and response are checked.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/wait.h"
#include "copyrpc_bulk.h"
#include "copyrpc_tcp.h"

#define MEET_MS 10000
#define PAGE ((size_t)4096)

struct run {
	uint32_t request, response, calls, depth;
	uint32_t made, ended;
	const char *device; /* NULL: the first one */
};

static _Noreturn void fail(const char *what, int err)
{
	fprintf(stderr, "large: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void must(const char *what, int rc)
{
	if (rc < 0)
		fail(what, rc);
}

static struct copyrpc_ep *meet(const struct run *r, int fd, struct copyrpc_ctx **ctx_p)
{
	const struct copyrpc_ctx_attr attr = {.device = r->device};
	struct copyrpc_ep *ep;

	must("context", copyrpc_ctx_create(&attr, ctx_p));
	must("endpoint", copyrpc_ep_create(*ctx_p, NULL, &ep));
	must("connection", copyrpc_ep_meet(ep, fd, MEET_MS));
	return ep;
}

static void put_ends(uint8_t *at, uint32_t len, uint8_t value)
{
	at[0] = at[len - 1] = value;
}

static void check_ends(const uint8_t *at, uint32_t len, uint8_t value)
{
	if (at[0] != value || at[len - 1] != value)
		fail("wrong bytes", -EBADMSG);
}

/* Spins briefly, yields, and then sleeps until there is something to poll for. */
static void idle(struct copyrpc_ctx *ctx, struct wait *w)
{
	struct pollfd p = {.fd = copyrpc_ctx_fd(ctx), .events = POLLIN};

	if (wait_step(w) && !copyrpc_ctx_arm(ctx))
		poll(&p, 1, copyrpc_ctx_timeout(ctx));
}

static void serve(const struct run *r, int fd)
{
	uint32_t most = r->request > r->response ? r->request : r->response;
	const struct copyrpc_large_attr attr = {.message_max = most,
		.memory_max = (uint64_t)(r->depth + 1) * most + (1 << 20)};
	struct wait w = WAIT_INIT;
	struct copyrpc_req *req;
	struct copyrpc_ctx *ctx;

	meet(r, fd, &ctx);
	must("accept", copyrpc_large_accept(ctx, &attr));
	for (;;) {
		bool found = copyrpc_poll(ctx, NULL, NULL);

		for (; copyrpc_recv(ctx, &req); found = true) {
			uint8_t *at = copyrpc_req_memory(req);

			check_ends(at, r->request, 1);
			put_ends(at, r->response, 2);
			copyrpc_reply(req, at, r->response);
		}
		if (found)
			wait_reset(&w);
		else
			idle(ctx, &w);
	}
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct run *r = arg;

	must("call", status);
	if (len != r->response)
		fail("length", -EBADMSG);
	check_ends(data, len, 2);
	r->ended++;
}

/* Returns whole pages, which ib_write_bw uses, too. Memory from malloc() begins in the middle of a
 * cache line, and then the software HCA copies each page in two pieces. */
static uint8_t *buffer(size_t len, uint8_t value)
{
	size_t size = align_up(len, PAGE);
	uint8_t *at = aligned_alloc(PAGE, size);

	if (!at)
		fail("memory", -ENOMEM);
	return memset(at, value, size);
}

/* All calls send the same buffer, as ib_write_bw does. Each has its own memory for the response. */
static double measure(struct run *r, struct copyrpc_ctx *ctx, struct copyrpc_ep *ep, uint8_t *from,
	uint8_t *to)
{
	uint64_t start = clock_ns(), bytes;
	struct wait w = WAIT_INIT;

	r->made = r->ended = 0;
	while (r->ended < r->calls) {
		while (r->made < r->calls && r->made - r->ended < r->depth) {
			uint8_t *resp = to + (size_t)(r->made % r->depth) * r->response;

			int rc = copyrpc_call_large(ep, from, r->request, resp, r->response,
				r->made);

			if (rc == -EAGAIN || rc == -ENOBUFS)
				break;
			must("call", rc);
			r->made++;
		}
		if (copyrpc_poll(ctx, on_response, r))
			wait_reset(&w);
		else
			idle(ctx, &w);
	}
	bytes = (uint64_t)(r->request > r->response ? r->request : r->response) * r->calls;
	return (double)bytes / (1 << 20) / ((double)(clock_ns() - start) / NSEC_PER_SEC);
}

static void call(struct run *r, int fd)
{
	size_t resp_len = (size_t)r->depth * r->response;
	uint8_t *from = buffer(r->request, 1), *to = buffer(resp_len, 0);
	struct copyrpc_bulk *bulk;
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep = meet(r, fd, &ctx);
	uint32_t calls = r->calls;

	must("bulk", copyrpc_bulk_create(ctx, from, r->request, COPYRPC_REMOTE_READ, &bulk));
	must("bulk", copyrpc_bulk_create(ctx, to, resp_len, COPYRPC_REMOTE_WRITE, &bulk));
	r->calls = r->depth + 1; /* a warm-up, in which the server allocates its memory */
	measure(r, ctx, ep, from, to);
	r->calls = calls;
	printf("%.1f\n", measure(r, ctx, ep, from, to));
	copyrpc_ctx_destroy(ctx);
	free(from);
	free(to);
}

int main(int argc, char **argv)
{
	struct run r;
	pid_t parent, child;
	int fd[2];

	if (argc != 5 && argc != 6)
		fail("give REQUEST RESPONSE CALLS DEPTH [DEVICE]", -EINVAL);
	r = (struct run){.request = (uint32_t)atoi(argv[1]),
		.response = (uint32_t)atoi(argv[2]),
		.calls = (uint32_t)atoi(argv[3]),
		.depth = (uint32_t)atoi(argv[4]),
		.device = argv[5]};
	if (!r.request || !r.response || !r.calls || !r.depth)
		fail("REQUEST, RESPONSE, CALLS and DEPTH must be at least 1", -EINVAL);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		fail("socketpair", -errno);
	parent = getpid();
	child = fork();
	if (child < 0)
		fail("fork", -errno);
	close(fd[!child]);
	if (!child) {
		if (!child_ends_with(parent))
			return 1;
		serve(&r, fd[0]);
	}
	call(&r, fd[1]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
