/* SPDX-License-Identifier: MIT */
/*
 * For cost.py, which counts instructions:
 *
 *	cost ENDPOINTS DEPTH ROUNDS
 *
 * Rounds of DEPTH calls and their replies over one endpoint, while the others are idle;
 * "step" or "poll" by SOFTHCA_MODE. With "step" the clock is stopped meanwhile: under valgrind, which
 * is slow, and on a busy machine, what is due by time would count too much.
 */
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/test.h"
#include "copyrpc.h"

static uint32_t depth;
static bool is_stopped;
static struct timespec stopped;

/* In place of libc's, for the library that is counted. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!is_stopped || id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = stopped;
	return 0;
}

static int (*step)(void);

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	uint64_t *ended = arg;

	CHECK(!status && len == 16 && token < depth);
	++*ended;
}

/* What was posted is executed; by a thread of the HCA if there is nothing to step. */
static void execute(void)
{
	if (step)
		step();
}

static void serve(struct copyrpc_ctx *ctx, uint64_t *served)
{
	struct copyrpc_req *req;

	copyrpc_poll_recv(ctx, NULL, NULL);
	while (copyrpc_recv(ctx, &req)) {
		CHECK_EQ(copyrpc_req_len(req), 32);
		CHECK_EQ(copyrpc_reply(req, copyrpc_req_data(req), 16), 0);
		++*served;
	}
	copyrpc_flush(ctx);
}

static void run(struct copyrpc_ctx *ctx[2], struct copyrpc_ep *ep, uint64_t rounds)
{
	uint64_t ended = 0, served = 0;
	char buf[32] = "thirty-two bytes of request";

	for (uint64_t r = 1; r <= rounds; r++) {
		for (uint32_t i = 0; i < depth; i++)
			CHECK_EQ(copyrpc_call(ep, buf, sizeof(buf), 16, i), 0);
		copyrpc_flush(ctx[0]);
		execute();
		while (served < r * depth)
			serve(ctx[1], &served);
		execute();
		while (ended < r * depth)
			copyrpc_poll_recv(ctx[0], on_response, &ended);
	}
}

int main(int argc, char **argv)
{
	struct copyrpc_ctx_attr attr = {.ring_size = 16384, .sq_depth = 64};
	struct copyrpc_ctx *ctx[2];
	struct copyrpc_ep *first = NULL;

	CHECK_EQ(argc, 4);
	depth = (uint32_t)atoi(argv[2]);
	attr.max_endpoints = (uint32_t)atoi(argv[1]);
	*(void **)&step = dlsym(RTLD_DEFAULT, "softhca_step");
	if (!getenv("SOFTHCA_MODE") || strcmp(getenv("SOFTHCA_MODE"), "step"))
		step = NULL;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ctx_create(&attr, &ctx[i]), 0);
	for (uint32_t n = 0; n < attr.max_endpoints; n++) {
		uint8_t blob[2][COPYRPC_INFO_SIZE];
		struct copyrpc_ep *ep[2];

		for (int i = 0; i < 2; i++) {
			CHECK_EQ(copyrpc_ep_create(ctx[i], NULL, &ep[i]), 0);
			copyrpc_ep_info(ep[i], blob[i]);
		}
		for (int i = 0; i < 2; i++)
			CHECK_EQ(copyrpc_ep_connect(ep[i], blob[!i], COPYRPC_INFO_SIZE), 0);
		if (!first)
			first = ep[0];
	}
	clock_gettime(CLOCK_MONOTONIC, &stopped);
	is_stopped = step;
	run(ctx, first, strtoull(argv[3], NULL, 10));
	is_stopped = false;
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(ctx[i]);
	return 0;
}
