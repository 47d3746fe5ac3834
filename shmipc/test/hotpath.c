/* SPDX-License-Identifier: MIT */
/* Compiles the inline functions as separate functions, which hotpath.py inspects. */
#include "common.h"

int hot_call(struct shmipc_client *c, const struct msg *m, uint64_t token);
int hot_poll(struct shmipc_client *c, shmipc_response_fn *fn, void *arg);
int hot_recv(struct shmipc_server *s, struct shmipc_req *r, struct msg *m);
int hot_reply(struct shmipc_server *s, const struct shmipc_req *r, const struct msg *m);

int hot_call(struct shmipc_client *c, const struct msg *m, uint64_t token)
{
	return shmipc_client_call(c, m, sizeof(*m), token);
}

int hot_poll(struct shmipc_client *c, shmipc_response_fn *fn, void *arg)
{
	return shmipc_client_poll(c, fn, arg);
}

int hot_recv(struct shmipc_server *s, struct shmipc_req *r, struct msg *m)
{
	return shmipc_server_recv(s, r, m, sizeof(*m));
}

int hot_reply(struct shmipc_server *s, const struct shmipc_req *r, const struct msg *m)
{
	return shmipc_server_reply(s, r->client, r->id, m, sizeof(*m));
}
