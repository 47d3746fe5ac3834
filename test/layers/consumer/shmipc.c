/* SPDX-License-Identifier: MIT */
/* A user of shmipc and of nothing else: client and server in one thread. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <shmipc.h>

static void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	if (resp)
		*(uint64_t *)arg = token + *(const uint64_t *)resp;
}

int main(void)
{
	struct shmipc_attr attr = {};
	struct shmipc_server *s;
	struct shmipc_client *c;
	struct shmipc_req req;
	uint64_t n = 20, got = 0;
	char name[64];

	attr.max_clients = 2;
	attr.req_size = attr.resp_size = sizeof(n);
	snprintf(name, sizeof(name), "consumer.%ld", (long)getpid());
	if (shmipc_server_create(name, &attr, &s) < 0 || shmipc_client_connect(name, &attr, &c) < 0)
		return 1;
	if (shmipc_client_call(c, &n, sizeof(n), 1) < 0)
		return 1;
	while (!shmipc_server_poll(s))
		;
	if (shmipc_server_recv(s, &req, &n, sizeof(n)) != 1)
		return 1;
	n *= 2;
	if (shmipc_server_reply(s, req.client, req.id, &n, sizeof(n)) < 0)
		return 1;
	if (shmipc_client_poll(c, on_response, &got) != 1)
		return 1;
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
	printf("%d\n", (int)got);
	return got == 41 ? 0 : 1;
}
