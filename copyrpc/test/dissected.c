/* SPDX-License-Identifier: MIT */
/*
 * Makes traffic for dissector.py: small batches and batches of several packets, markers and credit.
 * Prints the endpoints' counters: "messages batches wraps credit-only bytes".
 */
#include "traffic.h"

static struct node nodes[2];

int main(void)
{
	struct copyrpc_ctx_attr attr = {.ring_size = 65536};
	uint8_t blob[2][COPYRPC_INFO_SIZE];
	struct copyrpc_stats sum = {0}, s;
	uint64_t seed = 5;

	for (int i = 0; i < 2; i++)
		node_open(&nodes[i], &attr, 2, 6000, 60, seed + (uint64_t)i);
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_info(nodes[0].ep[i], blob[0]);
		copyrpc_ep_info(nodes[1].ep[i], blob[1]);
		CHECK_EQ(copyrpc_ep_connect(nodes[0].ep[i], blob[1], COPYRPC_INFO_SIZE), 0);
		CHECK_EQ(copyrpc_ep_connect(nodes[1].ep[i], blob[0], COPYRPC_INFO_SIZE), 0);
	}
	while (!node_done(&nodes[0]) || !node_done(&nodes[1]))
		node_step(&nodes[test_rand(&seed) % 2]);
	for (int i = 0; i < 2; i++) {
		s = node_balance(&nodes[i]);
		sum.calls += s.calls + s.replies;
		sum.batches += s.batches;
		sum.wraps += s.wraps;
		sum.credit_only += s.credit_only;
		sum.bytes += s.bytes;
	}
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", sum.calls,
		sum.batches, sum.wraps, sum.credit_only, sum.bytes);
	for (int i = 0; i < 2; i++)
		copyrpc_ctx_destroy(nodes[i].ctx);
	return 0;
}
