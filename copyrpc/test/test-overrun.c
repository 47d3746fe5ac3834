/* SPDX-License-Identifier: MIT */
/*
 * A context has max_endpoints endpoints, each with a full send queue. All fail at the same time,
 * and the test polls only afterwards: each request has a completion, and the send CQ has room for
 * all.
 */
#include <poll.h>

#include "support/hcacall.h"
#include "pair.h"

#define ENDPOINTS 1024

static struct copyrpc_ep *ep[ENDPOINTS];
static uint32_t started[ENDPOINTS], ended[ENDPOINTS];

static uint64_t fill(struct copyrpc_ep *e, struct copyrpc_mr *mr)
{
	uint64_t n = 0;
	int rc;

	do {
		rc = copyrpc_write(e, mr->addr, mr->lkey, (uintptr_t)mr->addr, mr->rkey, 8, n);
		n += !rc;
	} while (!rc);
	CHECK_EQ(rc, -EAGAIN);
	return n;
}

/* Connects endpoints to a peer that never connects, so that no request is acknowledged. */
static uint64_t open_all(struct copyrpc_ctx *ctx, const void *blob, struct copyrpc_mr *mr)
{
	uint64_t total = 0;

	for (intptr_t i = 0; i < ENDPOINTS; i++) {
		struct copyrpc_ep_attr attr = {.user = (void *)i};

		CHECK_EQ(copyrpc_ep_create(ctx, &attr, &ep[i]), 0);
		CHECK_EQ(copyrpc_ep_connect(ep[i], blob, COPYRPC_INFO_SIZE), 0);
	}
	for (int i = 0; i < ENDPOINTS; i++) {
		started[i] = (uint32_t)fill(ep[i], mr);
		total += started[i];
	}
	return total;
}

TEST(all_endpoints_fail_at_once)
{
	struct copyrpc_ctx_attr attr = {.ring_size = 4096,
		.max_endpoints = ENDPOINTS,
		.sq_depth = 256};
	struct softhca_counters before, now;
	struct copyrpc_ctx *ctx, *other;
	uint8_t blob[COPYRPC_INFO_SIZE];
	struct copyrpc_raw_done done;
	struct heard h = {0};
	struct copyrpc_ep *peer;
	struct copyrpc_mr mr;
	static uint64_t word;
	uint64_t total;

	CHECK(getenv("SOFTHCA_STRICT")); /* otherwise an overrun would not be detected */
	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
	CHECK_EQ(copyrpc_ctx_create(&attr, &other), 0);
	CHECK_EQ(copyrpc_ep_create(other, NULL, &peer), 0);
	copyrpc_ep_info(peer, blob);
	CHECK_EQ(copyrpc_mr_reg(ctx, &word, sizeof(word), COPYRPC_REMOTE_WRITE, &mr), 0);
	before = hca_counters();
	total = open_all(ctx, blob, &mr);
	do {
		poll(NULL, 0, 1); /* the HCA's timers end the messages */
		now = hca_counters();
	} while (now.errors + now.flushes - before.errors - before.flushes < total);
	CHECK_EQ(now.errors - before.errors, ENDPOINTS);
	CHECK_EQ(now.violations, 0);
	CHECK(total > ENDPOINTS * 200);

	copyrpc_poll(ctx, hear, &h);
	while (copyrpc_raw_recv(ctx, &done)) {
		intptr_t i = (intptr_t)copyrpc_ep_user(done.ep);

		CHECK_EQ(done.status, -ECONNRESET);
		CHECK_EQ(done.token, ended[i]);
		ended[i]++;
	}
	for (int i = 0; i < ENDPOINTS; i++) {
		CHECK_EQ(copyrpc_ep_status(ep[i]), -ECONNRESET);
		CHECK_EQ(ended[i], started[i]);
	}
	CHECK_EQ(hca_counters().violations, 0);
	copyrpc_mr_dereg(&mr);
	copyrpc_ctx_destroy(ctx);
	copyrpc_ctx_destroy(other);
}
