/* SPDX-License-Identifier: MIT */
/* Transfers and large calls over endpoints that are connected again. */
#include "back.h"
#include "copyrpc_bulk.h"

#define LARGE (5u << 20) /* more than a transfer posts at a time */

static void on_pulled(void *arg, struct copyrpc_ep *ep, int status)
{
	CHECK_EQ(status, 0);
	++*(int *)arg;
}

/* Transfers continue, whether the loss comes before or after some of their parts have arrived. */
TEST(transfers)
{
	static uint8_t there[8 << 20], here[8 << 20];
	struct copyrpc_bulk *remote, *local;
	uint8_t desc[COPYRPC_BULK_SIZE];
	struct copyrpc_remote r;
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	CHECK_EQ(copyrpc_bulk_create(n[1].ctx, there, sizeof(there), COPYRPC_REMOTE_READ, &remote),
		0);
	CHECK_EQ(copyrpc_bulk_create(n[0].ctx, here, sizeof(here), 0, &local), 0);
	CHECK_EQ(copyrpc_bulk_export(remote, n[1].ep, 0, sizeof(there), desc), 0);
	CHECK_EQ(copyrpc_bulk_import(n[0].ep, desc, sizeof(desc), &r), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		int ends = 0;

		memset(there, (int)i, sizeof(there));
		if (i == 1)
			lose(n, 1);
		CHECK_EQ(copyrpc_bulk_pull(n[0].ep, &r, 0, local, 0, sizeof(here), on_pulled,
				 &ends),
			0);
		if (i == 2)
			copyrpc_poll(n[0].ctx, on_response, &n[0]);
		if (i > 1)
			lose(n, (int)i % 2);
		UNTIL(ends);
		CHECK(!memcmp(here, there, sizeof(here)));
		UNTIL(n[0].backs >= i && n[1].backs >= i);
		CHECK_EQ(ends, 1);
	}
}

struct larges {
	uint32_t ok, failed;
};

static void on_large(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct larges *l = arg;

	l->ok += !status && len == LARGE && *(const uint8_t *)data == (uint8_t)(token + 1) &&
		 ((const uint8_t *)data)[LARGE - 1] == (uint8_t)(token + 1);
	l->failed += !!status;
}

/* The connection is lost before the server has the request, while the server holds the request, or
 * while the response is pushed. Each call is executed once. */
TEST(large_calls)
{
	static uint8_t data[LARGE], resp[LARGE];
	const struct copyrpc_large_attr large = {.message_max = LARGE};
	struct larges l = {0};
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	CHECK_EQ(copyrpc_large_accept(n[1].ctx, &large), 0);
	for (uint32_t i = 0, taken = 0; i < 12; i++) {
		struct copyrpc_req *req = NULL;
		uint32_t loss = i % 4;

		memset(data, (int)i, sizeof(data));
		CHECK_EQ(copyrpc_call_large(n[0].ep, data, LARGE, resp, LARGE, i), 0);
		for (uint32_t k = 0; l.ok <= i; k++) {
			now += NSEC_PER_MSEC;
			if (k == loss && i < 9)
				lose(n, (int)i % 2);
			copyrpc_poll(n[0].ctx, on_large, &l);
			copyrpc_poll(n[1].ctx, on_large, &l);
			take_events(&n[0]);
			take_events(&n[1]);
			if (!req && copyrpc_recv(n[1].ctx, &req)) {
				taken++;
				CHECK(*(const uint8_t *)copyrpc_req_data(req) == (uint8_t)i);
			} else if (req && copyrpc_req_memory(req)) {
				memset(copyrpc_req_memory(req), (int)i + 1, LARGE);
				CHECK_EQ(copyrpc_reply(req, copyrpc_req_memory(req), LARGE), 0);
				req = NULL;
			}
			CHECK_EQ(l.failed, 0);
		}
		CHECK_EQ(taken, i + 1);
		UNTIL(n[0].backs == n[0].downs && n[1].backs == n[1].downs);
	}
	CHECK(n[0].backs >= 9);
}
