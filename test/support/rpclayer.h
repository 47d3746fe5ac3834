/* SPDX-License-Identifier: MIT */
/*
 * Names of the layer under test, for cases that delegrpc and shmipc share. A program defines
 * RPC_LAYER, includes the layer's header, and then a header of cases: RPC(client_poll) is
 * delegrpc_client_poll() if RPC_LAYER is delegrpc.
 */
#ifndef SUPPORT_RPCLAYER_H
#define SUPPORT_RPCLAYER_H

#define RPC_JOIN(layer, name) layer##_##name
#define RPC_OF(layer, name) RPC_JOIN(layer, name)
#define RPC(name) RPC_OF(RPC_LAYER, name)

/* The layer's structs: struct rpc_server is struct delegrpc_server, and so on. */
#define rpc_server RPC(server)
#define rpc_client RPC(client)
#define rpc_attr RPC(attr)
#define rpc_server_stats RPC(server_stats)
#define rpc_look_client RPC(look_client)

/* SERVER *s = ...; CLIENT *c = ...; ends both where their block ends. */
static inline void rpc_server_end(struct rpc_server **s)
{
	RPC(server_destroy)(*s);
}

static inline void rpc_client_end(struct rpc_client **c)
{
	RPC(client_disconnect)(*c);
}

#define SERVER __attribute__((cleanup(rpc_server_end))) struct rpc_server
#define CLIENT __attribute__((cleanup(rpc_client_end))) struct rpc_client

#define RPC_QUOTE(layer) #layer
#define RPC_TEXT(layer) RPC_QUOTE(layer)
#define RPC_PREFIX RPC_TEXT(RPC_LAYER)

#endif
