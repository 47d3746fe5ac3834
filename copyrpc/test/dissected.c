/* SPDX-License-Identifier: MIT */
/*
 * Makes traffic for dissector.py: batches of one packet and of several, wrap markers, and batches
 * with credit alone.
 * Prints the endpoints' counters: "messages batches wraps credit-only bytes".
 */
#include "traffic.h"

static struct node nodes[2];

int main(void)
{
	struct copyrpc_ctx_attr attr = {.ring_size = 65536};
	struct copyrpc_stats sum = {0}, s;
	uint64_t seed = 5;

	for (int i = 0; i < 2; i++)
		node_open(&nodes[i], &attr, 2, 6000, 60, seed + (uint64_t)i);
	nodes_run(nodes, seed);
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
