/* SPDX-License-Identifier: MIT */
/* A user of flux and of nothing else: node 0 calls node 1, in one thread. */
#include <stdint.h>
#include <stdio.h>

#include <flux.h>

static void on_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	if (payload)
		*(uint64_t *)arg = token + *(const uint64_t *)payload;
}

int main(void)
{
	struct flux_attr attr = {};
	struct flux *f;
	uint64_t n = 20, got = 0, call;
	uint32_t from;

	attr.nodes = 2;
	attr.payload_size = sizeof(n);
	if (flux_create(&attr, &f) < 0)
		return 1;
	if (flux_call(flux_get_node(f, 0), 1, &n, sizeof(n), 1) < 0)
		return 1;
	if (flux_try_recv_raw(flux_get_node(f, 1), &from, &call, &n, sizeof(n), NULL) != 1)
		return 1;
	n *= 2;
	if (flux_reply(flux_get_node(f, 1), call, &n, sizeof(n)) < 0)
		return 1;
	if (flux_poll(flux_get_node(f, 0), on_response, &got) != 1)
		return 1;
	flux_destroy(f);
	printf("%d\n", (int)got);
	return got == 41 ? 0 : 1;
}
