/* SPDX-License-Identifier: MIT */
/* A build without UCX: the backend cannot be asked for, so nothing of it is ever opened. */
#include <errno.h>

#include "ucx.h"

int ucx_net_open(const char *device, struct ucx_net **net_p)
{
	return -EOPNOTSUPP;
}

void ucx_net_close(struct ucx_net *net, bool in_order)
{
}

int ucx_server_open(struct ucx_net *net, struct daemon *d, struct ucx_server **s_p)
{
	return -EOPNOTSUPP;
}

int ucx_server_address(struct ucx_server *s, void **data_p, size_t *len_p)
{
	return -EOPNOTSUPP;
}

uint32_t ucx_server_poll(struct ucx_server *s)
{
	return 0;
}

int ucx_client_open(struct ucx_net *net, struct client *c, struct ucx_client **u_p)
{
	return -EOPNOTSUPP;
}

int ucx_client_connect(struct ucx_client *u, uint32_t rank, uint32_t daemon, const void *address)
{
	return -EOPNOTSUPP;
}

int ucx_client_greet(struct ucx_client *u)
{
	return -EOPNOTSUPP;
}

int ucx_client_call(struct ucx_client *u, uint32_t daemon, const struct kv_req *req)
{
	return -EOPNOTSUPP;
}

int ucx_client_poll(struct ucx_client *u)
{
	return -EOPNOTSUPP;
}

uint32_t ucx_client_pending(const struct ucx_client *u)
{
	return 0;
}

uint64_t ucx_client_calls(const struct ucx_client *u)
{
	return 0;
}
