/* SPDX-License-Identifier: MIT */
/*
 * Makes the same round trips of short messages with a region for CLIENTS clients, of which one is
 * connected, and for messages of at most BYTES bytes. scale.py runs it under callgrind and
 * compares the instructions in measure().
 *
 *	scale CLIENTS [BYTES]
 */
#include "common.h"

#define ROUNDS 2000

static void take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	*(uint64_t *)arg += token == ((const struct msg *)resp)->tag;
}

NOINLINE void measure(struct shmipc_server *s, struct shmipc_client *c, uint32_t depth,
	uint64_t *right_p);

void measure(struct shmipc_server *s, struct shmipc_client *c, uint32_t depth, uint64_t *right_p)
{
	struct shmipc_req r;
	struct msg m;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < depth; i++)
			call_tag(c, round);
		shmipc_client_flush(c);
		shmipc_server_poll(s);
		while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
			shmipc_server_reply(s, r.client, r.id, &m, sizeof(m));
		while (shmipc_client_pending(c))
			shmipc_client_poll(c, take, right_p);
	}
}

int main(int argc, char **argv)
{
	struct shmipc_attr attr = msg_attr;
	struct shmipc_server *s;
	struct shmipc_client *c;
	uint64_t right = 0;

	attr.max_clients = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0;
	if (argc > 2)
		attr.req_size = attr.resp_size = (uint32_t)strtoul(argv[2], NULL, 0);
	s = server_with(&attr);
	c = client_new();
	shmipc_server_poll(s);
	measure(s, c, 1, &right);
	measure(s, c, 8, &right);
	CHECK_EQ(right, ROUNDS * 9);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
	return 0;
}
