/* SPDX-License-Identifier: MIT */
/*
 * Two endpoints with the smallest rings call as fast as possible and serve each other: a million
 * calls, none of which waits for ever, and no reply is refused.
 */
#include "pair.h"

#define CALLS (500000u / SCALE) /* of each side */
#define LONG_TIME 100000 /* rounds in which at least one side must make progress */

struct side {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	uint32_t sent, answered, served;
	uint64_t seed;
};

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct side *s = arg;

	CHECK_EQ(status, 0);
	CHECK(len >= 4 && memcmp(data, &token, 4) == 0);
	s->answered++;
}

static uint32_t draw(struct side *s, uint32_t max)
{
	return 4 + (uint32_t)(test_rand(&s->seed) % (max - 3));
}

static void turn(struct side *s)
{
	static uint8_t buf[COPYRPC_PAYLOAD_MAX(COPYRPC_RING_MIN)];
	uint32_t max = s->sent % 16 ? 60 : sizeof(buf); /* mostly small calls */
	struct copyrpc_req *req;
	int rc = 0;

	while (s->sent < CALLS && !rc) {
		memcpy(buf, &s->sent, 4);
		rc = copyrpc_call(s->ep, buf, draw(s, max), draw(s, max), s->sent);
		CHECK(rc == 0 || rc == -EAGAIN || rc == -ENOBUFS);
		s->sent += !rc;
	}
	copyrpc_poll(s->ctx, on_response, s);
	while (copyrpc_recv(s->ctx, &req)) {
		memcpy(buf, copyrpc_req_data(req), 4);
		CHECK_EQ(copyrpc_reply(req, buf, copyrpc_req_allowance(req)), 0);
		s->served++;
	}
}

TEST(a_million_calls)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN, .sq_depth = 16};
	uint64_t seed = test_seed(), last = 0;
	struct side s[2];
	PAIR p = pair_open(&attr);
	int idle = 0;

	for (int i = 0; i < 2; i++)
		s[i] = (struct side){p.ctx[i], p.ep[i], 0, 0, 0, seed + (uint64_t)i};
	while (s[0].answered < CALLS || s[1].answered < CALLS) {
		uint64_t sum = (uint64_t)s[0].answered + s[1].answered;

		CHECK(idle++ < LONG_TIME);
		if (sum != last)
			idle = 0;
		last = sum;
		turn(&s[test_rand(&seed) % 2]);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(s[i].sent, CALLS);
		CHECK_EQ(s[i].served, CALLS);
	}
}
