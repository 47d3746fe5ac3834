/* SPDX-License-Identifier: MIT */
/*
 * test-cost.py counts the instructions of this program, and inspects the code of send() and
 * answer().
 *
 *	test-cost NODES COUNT	COUNT calls, 32 at a time, from node 0 to the last node
 */
#include "flux.h"

#include "support/test.h"

#define BURST 32

int send(struct flux_node *n, uint32_t to, const uint64_t *req);
int answer(struct flux_node *n, uint64_t call, const uint64_t *resp);

NOINLINE int send(struct flux_node *n, uint32_t to, const uint64_t *req)
{
	return flux_call(n, to, req, 32, req[0]);
}

NOINLINE int answer(struct flux_node *n, uint64_t call, const uint64_t *resp)
{
	return flux_reply(n, call, resp, 16);
}

static void on_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	uint64_t *next = arg;

	CHECK(payload && token == *next && *(const uint64_t *)payload == token);
	++*next;
}

static void burst(struct flux_node *a, struct flux_node *b, uint64_t *sent, uint64_t *ended)
{
	uint64_t req[4] = {0}, call = 0;
	uint32_t from;

	for (uint32_t i = 0; i < BURST; i++) {
		req[0] = (*sent)++;
		CHECK_EQ(send(a, b->index, req), 0);
	}
	flux_flush(a);
	while (flux_try_recv_raw(b, &from, &call, req, 32, NULL) == 1)
		CHECK_EQ(answer(b, call, req), 0);
	while (flux_poll(a, on_response, ended))
		;
}

int main(int argc, char **argv)
{
	struct flux_attr attr = {.payload_size = 32};
	uint64_t count, sent = 0, ended = 0;
	struct flux *f;

	CHECK_EQ(argc, 3);
	attr.nodes = (uint32_t)strtoul(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	CHECK_EQ(flux_create(&attr, &f), 0);
	while (sent < count)
		burst(flux_get_node(f, 0), flux_get_node(f, attr.nodes - 1), &sent, &ended);
	CHECK_EQ(sent, ended);
	flux_destroy(f);
	return 0;
}
