/* SPDX-License-Identifier: MIT */
/*
 * Nested calls: each request that is not nested is answered only after its handler has called the
 * other side and got an answer. Both sides do so at the same time, with as many calls as possible,
 * in the smallest ring: without the reserve (credit.h) they would deadlock.
 */
#include <errno.h>
#include <sched.h>

#include "support/test.h"
#include "copyrpc.h"

#define RING COPYRPC_RING_MIN
#define MAX COPYRPC_NESTED_PAYLOAD_MAX(RING)
#define CALLS 2000
#define HANDLERS 64
#define NESTED (1ull << 63)

/* The first byte of a payload. */
enum { FROM_OUTSIDE = 'o', FROM_HANDLER = 'h' };

struct side {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct copyrpc_req *handler[HANDLERS]; /* requests that are being handled; NULL: free */
	bool calling[HANDLERS];
	uint64_t sent, ended, nested;
	uint64_t seed;
	bool largest;
};

static void open_side(struct side *s, bool nested, uint64_t seed, bool largest)
{
	struct copyrpc_ctx_attr attr = {.ring_size = RING, .nested = nested};

	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->largest = largest;
	CHECK_EQ(copyrpc_ctx_create(&attr, &s->ctx), 0);
	CHECK_EQ(copyrpc_ep_create(s->ctx, NULL, &s->ep), 0);
}

static int connect_side(struct side *s, const struct side *to)
{
	uint8_t blob[COPYRPC_INFO_SIZE];

	copyrpc_ep_info(to->ep, blob);
	return copyrpc_ep_connect(s->ep, blob, sizeof(blob));
}

static uint32_t size(struct side *s)
{
	return s->largest ? MAX : 1 + (uint32_t)(test_rand(&s->seed) % MAX);
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct side *s = arg;
	uint32_t i = (uint32_t)token;

	CHECK_EQ(status, 0);
	CHECK(len == 1 && *(const char *)data == (token & NESTED ? FROM_HANDLER : FROM_OUTSIDE));
	if (!(token & NESTED)) {
		s->ended++;
		return;
	}
	CHECK(s->handler[i] && s->calling[i]);
	CHECK_EQ(*(const char *)copyrpc_req_data(s->handler[i]), FROM_OUTSIDE);
	CHECK_EQ(copyrpc_reply(s->handler[i], copyrpc_req_data(s->handler[i]), 1), 0);
	s->handler[i] = NULL;
	s->calling[i] = false;
	s->nested++;
}

/* A request from a handler is answered at once, others are detached and wait. */
static void take(struct side *s, struct copyrpc_req *req)
{
	uint32_t i = 0;

	if (*(const char *)copyrpc_req_data(req) == FROM_HANDLER) {
		CHECK_EQ(copyrpc_reply(req, copyrpc_req_data(req), 1), 0);
		return;
	}
	CHECK_EQ(copyrpc_req_detach(req), 0);
	while (i < HANDLERS && s->handler[i])
		i++;
	CHECK(i < HANDLERS);
	s->handler[i] = req;
}

static void step(struct side *s)
{
	static char buf[MAX];
	struct copyrpc_req *req;
	int rc = 0;

	buf[0] = FROM_OUTSIDE;
	while (s->sent < CALLS && !(rc = copyrpc_call(s->ep, buf, size(s), size(s), s->sent)))
		s->sent++;
	CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
	buf[0] = FROM_HANDLER;
	for (uint32_t i = 0; i < HANDLERS; i++) {
		if (!s->handler[i] || s->calling[i])
			continue;
		rc = copyrpc_call_nested(s->ep, buf, size(s), size(s), NESTED | i);
		CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
		s->calling[i] = !rc;
	}
	if (!copyrpc_poll(s->ctx, on_response, s))
		sched_yield();
	while (copyrpc_recv(s->ctx, &req))
		take(s, req);
}

static void run(bool largest)
{
	static struct side side[2];
	uint64_t seed = test_seed();

	for (int i = 0; i < 2; i++)
		open_side(&side[i], true, seed + (uint64_t)i, largest);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(connect_side(&side[i], &side[!i]), 0);
	while (side[0].ended < CALLS || side[1].ended < CALLS)
		step(&side[test_rand(&seed) % 2]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(side[i].nested, CALLS);
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(side[i].ctx);
}

TEST_WITH(both_sides_nest, run, false);
TEST_WITH(both_sides_nest_with_the_largest, run, true);

TEST(limits)
{
	static struct side with[2], without;
	static char buf[RING];

	open_side(&with[0], true, 0, false);
	open_side(&with[1], true, 0, false);
	open_side(&without, false, 0, false);
	CHECK_EQ(connect_side(&with[0], &without), -EMSGSIZE);
	CHECK_EQ(connect_side(&without, &with[0]), -EMSGSIZE);
	CHECK_EQ(copyrpc_call_nested(without.ep, buf, 1, 1, 0), -EOPNOTSUPP);
	CHECK_EQ(connect_side(&with[0], &with[1]), 0);
	CHECK_EQ(connect_side(&with[1], &with[0]), 0);
	CHECK_EQ(copyrpc_call(with[0].ep, buf, MAX + 1, 1, 0), -EMSGSIZE);
	CHECK_EQ(copyrpc_call(with[0].ep, buf, 1, MAX + 1, 0), -EMSGSIZE);
	/* Calls that are not nested leave enough credit for the largest nested call. */
	while (!copyrpc_call(with[0].ep, buf, 1, 1, 0))
		;
	CHECK_EQ(copyrpc_call(with[0].ep, buf, 1, 1, 0), -ENOBUFS);
	CHECK_EQ(copyrpc_call_nested(with[0].ep, buf, 1, MAX, 0), 0);
	copyrpc_ctx_destroy(with[0].ctx);
	copyrpc_ctx_destroy(with[1].ctx);
	copyrpc_ctx_destroy(without.ctx);
}
