/* SPDX-License-Identifier: MIT */
/*
 * For cost.py, which counts instructions:
 *
 *	cost ENDPOINTS RING PENDING [DEPTH ROUNDS]
 *
 * The program makes calls and their replies in phases, and prints the name of each: "depth 32" and
 * "depth 1" (calls per flush) over one endpoint while the others are idle; "in turn" over all
 * endpoints, one call per flush; and "pending", like "depth 1" while PENDING other calls have no
 * reply. With DEPTH and ROUNDS it makes ROUNDS rounds of DEPTH calls instead, for the tests of the
 * trace points. It needs SOFTHCA_MODE=step. The clock is stopped during the phases: valgrind is
 * slow and the machine may be busy, so timed actions such as probes would otherwise be too large a
 * part of the count.
 */
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "../test/pair.h"

static uint32_t depth;
static bool is_stopped;
static struct timespec stopped;

/* Replaces libc's function for the library under test. */
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

#define CALLS 2720 /* per phase: whole laps of a ring of 16 KiB at depth 1 */
#define WARM_UP 1280 /* calls before a phase, which are not counted */

static struct copyrpc_ctx *ctx[2];
static struct copyrpc_ep **eps;

/* Makes @calls round trips, `depth` in each flush, over the first @n endpoints in turn. */
static void run(uint32_t n, uint32_t calls)
{
	uint64_t ended = 0, served = 0;
	char buf[32] = "thirty-two bytes of request";

	for (uint64_t r = 1; r <= calls / depth; r++) {
		for (uint32_t i = 0; i < depth; i++)
			CHECK_EQ(copyrpc_call(eps[r % n], buf, sizeof(buf), 16, i), 0);
		copyrpc_flush(ctx[0]);
		step();
		while (served < r * depth)
			serve(ctx[1], &served);
		step();
		while (ended < r * depth)
			copyrpc_poll_recv(ctx[0], on_response, &ended);
	}
}

/* Lets the rings of an endpoint grow to their largest size. */
static void grow(struct copyrpc_ep *ep, uint32_t most)
{
	static char buf[1 << 17];
	struct copyrpc_req *req;
	uint64_t ended = 0;
	bool called = false;

	depth = 1;
	while (!ended) {
		if (!called)
			called = !copyrpc_call(ep, buf, most, most, 0);
		for (int i = 0; i < 2; i++) {
			copyrpc_poll(ctx[i], on_response, &ended);
			while (copyrpc_recv(ctx[i], &req))
				CHECK_EQ(copyrpc_reply(req, buf, 16), 0);
			copyrpc_flush(ctx[i]);
			step();
		}
	}
}

static void phase(const char *name, uint32_t n, uint32_t calls_per_flush)
{
	printf("%s\n", name);
	depth = calls_per_flush;
	run(n, WARM_UP);
	CALLGRIND_START_INSTRUMENTATION;
	run(n, CALLS);
	CALLGRIND_DUMP_STATS;
	CALLGRIND_STOP_INSTRUMENTATION;
}

/* Makes calls to which the server does not reply: it holds the requests. */
static void leave_pending(uint32_t calls)
{
	struct copyrpc_req *req;

	for (uint32_t i = 0; i < calls; i++) {
		CHECK_EQ(copyrpc_call(eps[0], NULL, 0, 16, 0), 0);
		do {
			copyrpc_poll(ctx[0], NULL, NULL);
			step();
			copyrpc_poll(ctx[1], NULL, NULL);
		} while (!copyrpc_recv(ctx[1], &req));
		CHECK_EQ(copyrpc_req_detach(req), 0);
	}
}

static void all_phases(uint32_t endpoints, uint32_t pending)
{
	phase("depth 32", 1, 32);
	phase("depth 1", 1, 1);
	phase("in turn", endpoints, 1);
	leave_pending(pending);
	phase("pending", 1, 1);
}

int main(int argc, char **argv)
{
	struct copyrpc_ctx_attr attr = {0};

	CHECK(argc == 4 || argc == 6);
	attr.max_endpoints = (uint32_t)atoi(argv[1]);
	attr.ring_size = (uint32_t)atoi(argv[2]);
	*(void **)&step = dlsym(RTLD_DEFAULT, "softhca_step");
	CHECK(step);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ctx_create(&attr, &ctx[i]), 0);
	eps = calloc(attr.max_endpoints, sizeof(*eps));
	CHECK(eps);
	for (uint32_t n = 0; n < attr.max_endpoints; n++) {
		struct copyrpc_ep *ep[2];

		join(ctx[0], ctx[1], ep);
		eps[n] = ep[0];
		grow(ep[0], COPYRPC_PAYLOAD_MAX(attr.ring_size));
	}
	clock_gettime(CLOCK_MONOTONIC, &stopped);
	is_stopped = true;
	if (argc == 6) {
		depth = (uint32_t)atoi(argv[4]);
		run(1, depth * (uint32_t)atoi(argv[5]));
	} else {
		all_phases(attr.max_endpoints, (uint32_t)atoi(argv[3]));
	}
	is_stopped = false;
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(ctx[i]);
	free(eps);
	return 0;
}
