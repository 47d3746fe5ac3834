/* SPDX-License-Identifier: MIT */
/*
 * Names of the layer under test, for cases that delegrpc and shmipc share. The test/rpc.h of a
 * layer includes the layer's header, defines RPC_LAYER and RPC_CONSTANT() and includes this one:
 * RPC(client_poll) is delegrpc_client_poll() if RPC_LAYER is delegrpc, and RPC_CONSTANT(POST) is
 * DELEGRPC_POST. test/rpc.h also defines rpc_depth as the name of the attribute that limits a
 * client's calls in flight, and two functions: rpc_recv(s, &r) receives a request and returns 1, or
 * returns 0; rpc_taken(s) lets the requests that were received be overwritten.
 */
#ifndef SUPPORT_RPCLAYER_H
#define SUPPORT_RPCLAYER_H

#define RPC_JOIN(layer, name) layer##_##name
#define RPC_OF(layer, name) RPC_JOIN(layer, name)
#define RPC(name) RPC_OF(RPC_LAYER, name)
#define RPC_EVENT(kind) RPC_CONSTANT(EVENT_##kind)

/* The layer's structs: struct rpc_server is struct delegrpc_server, and so on. */
#define rpc_server RPC(server)
#define rpc_client RPC(client)
#define rpc_attr RPC(attr)
#define rpc_server_stats RPC(server_stats)
#define rpc_look_client RPC(look_client)

/* A request that was received. */
struct rpc_req {
	uint64_t client, id;
	uint32_t len;
	const void *payload; /* valid until the next rpc_recv() or rpc_taken() */
};

/*
 * SERVER *s = ...; CLIENT *c = ...; declares objects that are destroyed at the end of their block.
 */
static inline void rpc_server_end(struct rpc_server **s)
{
	RPC(server_destroy)(*s);
	*s = NULL;
}

static inline void rpc_client_end(struct rpc_client **c)
{
	RPC(client_disconnect)(*c);
}

static inline struct rpc_server_stats server_stats_of(const struct rpc_server *s)
{
	struct rpc_server_stats st;

	RPC(server_get_stats)(s, &st, sizeof(st));
	return st;
}

static inline struct RPC(client_stats) client_stats_of(const struct rpc_client *c)
{
	struct RPC(client_stats) st;

	RPC(client_get_stats)(c, &st, sizeof(st));
	return st;
}

#define SERVER __attribute__((cleanup(rpc_server_end), unused)) struct rpc_server
#define CLIENT __attribute__((cleanup(rpc_client_end), unused)) struct rpc_client

#define RPC_QUOTE(layer) #layer
#define RPC_TEXT(layer) RPC_QUOTE(layer)
#define RPC_PREFIX RPC_TEXT(RPC_LAYER)

#endif
