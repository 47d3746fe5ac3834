/* SPDX-License-Identifier: MIT */
/* A user of delegrpc and of nothing else: client and server in one thread. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <delegrpc.h>

static void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	*(uint64_t *)arg = token + *(const uint64_t *)resp;
}

int main(void)
{
	struct delegrpc_attr attr = {};
	struct delegrpc_server *s;
	struct delegrpc_client *c;
	struct delegrpc_req req;
	uint64_t n = 20, got = 0;
	char name[64];

	attr.max_clients = 2;
	attr.req_size = attr.resp_size = sizeof(n);
	snprintf(name, sizeof(name), "consumer.%ld", (long)getpid());
	if (delegrpc_server_create(name, &attr, &s) < 0)
		return 1;
	if (delegrpc_client_connect(name, &attr, &c) < 0)
		return 1;
	if (delegrpc_client_call(c, &n, sizeof(n), 1) < 0 || delegrpc_client_flush(c) < 0)
		return 1;
	while (!delegrpc_server_poll(s))
		;
	if (delegrpc_server_recv(s, &req) != 1)
		return 1;
	n = 2 * *(const uint64_t *)req.payload;
	if (delegrpc_server_reply(s, req.client, req.id, &n, sizeof(n)) < 0)
		return 1;
	delegrpc_server_advance_tail(s);
	if (delegrpc_client_poll(c, on_response, &got) != 1)
		return 1;
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
	printf("%d\n", (int)got);
	return got == 41 ? 0 : 1;
}
