/* SPDX-License-Identifier: MIT */
/*
 * The benchmark of the shared-memory layers: closed loops of small calls with a layer and with
 * other rings (called peers), on the same pinned threads in the same run.
 *
 * For each queue depth, one server thread and up to 64 client threads are started. Short windows
 * (2 ms; 10 ms if threads share cores) of each combination of implementation, loop and number of
 * clients alternate, so that disturbances by the machine affect all of them. A round is one window
 * of each combination; ratios are computed within a round. Each round also measures the round trip
 * of two cache lines between the cores of the server and of client 0: no single call can be faster.
 * Every response is checked; a wrong, lost or repeated one ends the program with status 1.
 *
 * If each thread has a core of its own, and a client got no response for 100 us in a window, the
 * window is assumed to be disturbed: another program had the core. Such windows of the layer and of
 * the peers are left out. Their number is printed; on a quiet machine it is 0.
 *
 * The same work is done in five kinds of loop that programs use:
 *
 *	callback	the client makes the next call in the response function
 *	refill		the client polls until nothing comes, then makes calls up to its depth
 *	single		the server takes one request, answers it, and polls again
 *	many		the server takes up to 32 requests, then answers them
 *	blocking	client and server use the blocking waits
 *
 * In single, many and blocking the client makes its calls as in callback. In callback, refill and
 * blocking the server takes and answers requests one by one until none is left; the peers dpdk and
 * dpdk-burst take bursts (see serve). A turn is one pass of such a loop. After an empty turn a side
 * executes a pause instruction; from the 64th successive empty turn on, and always in blocking, it
 * calls its blocking wait instead. Peers have no blocking waits: they always pause, so for them the
 * loop blocking is the same as the loop callback.
 *
 * With --mesh there is no server: N threads call each other. rpcbench_mesh.h describes that loop
 * and the least work that a call needs in it.
 *
 * With --step one thread steps all sides: each client, or node, runs one turn, then the server runs
 * turns until it finds nothing. So the order of the turns is the same in each run. A blocking wait
 * is called with a time of 0.
 *
 * A layer defines the functions of struct rpcbench_client_ops and struct rpcbench_server_ops. They
 * are inlined into the loops:
 *
 *	static int x_call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
 *	{ return x_client_call(c->handle, req, len, token); }           // 0, else retry later
 *	static void x_response(void *arg, uint64_t token, const void *resp, uint32_t len)
 *	{ rpcbench_response(arg, token, resp, len); rpcbench_again(arg, x_call); }
 *	static int x_poll(struct rpcbench_client *c)                    // number of responses
 *	{ return x_client_poll(c->handle, x_response, c); }
 *	...
 *	RPCBENCH_CLIENT(x_client, x_call, x_poll, ...)
 *	RPCBENCH_SERVER(x_server, ...)
 *
 *	int main(int argc, char **argv)
 *	{
 *		static const struct rpcbench_impl x = { "x", x_setup, x_teardown,
 *			x_client, x_server };
 *		return rpcbench_main(&x, NULL, argc, argv);
 *	}
 *
 * setup() creates everything for cfg->clients clients with cfg->queue_depth calls each, and fills
 * in server->handle and clients[i].handle for the threads to use.
 */
#ifndef RPCBENCH_H
#define RPCBENCH_H

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/wait.h"
#include "latrec.h"

#define RPCBENCH_CLIENTS 64
#define RPCBENCH_WORDS 7 /* 56 bytes: a message is one cache line with its header */
#define RPCBENCH_REQ 32
#define RPCBENCH_RESP 16
#define RPCBENCH_IDLE_NS (40 * NSEC_PER_USEC)
#define RPCBENCH_STALL_NS (100 * NSEC_PER_USEC) /* without a response: the window is disturbed */
#define RPCBENCH_LOST_NS (120 * NSEC_PER_SEC) /* after this time a response counts as lost */
#define RPCBENCH_LOOK 16 /* turns per reading of the clock */
#define RPCBENCH_TAKE 32 /* requests that the server takes together in the loop many */
#define RPCBENCH_SPINS 64 /* empty turns before a wait */

/* The order in which a node of a mesh calls the others. */
enum rpcbench_pattern {
	RPCBENCH_PATTERN_TURN, /* each other node in turn */
	RPCBENCH_PATTERN_RANDOM,
	RPCBENCH_PATTERN_HOT, /* half of the calls go to a few nodes */
	RPCBENCH_PATTERN_SERVERS, /* a few nodes only serve, and the others call them in turn */
	RPCBENCH_PATTERNS,
};

struct rpcbench_config {
	uint32_t clients;
	uint32_t queue_depth;
	uint32_t req_size; /* bytes, 16 to 56, a multiple of 8 */
	uint32_t resp_size;
	bool shared_ring; /* the peers use one request ring for all clients */
	uint32_t peer_slots; /* minimum slots of the peers' rings; 0: see --peer-slots */
	enum rpcbench_pattern pattern; /* of a mesh */
	uint32_t pattern_nodes; /* number of hot nodes, or of servers */
};

/* The purpose of a window. */
enum rpcbench_kind {
	RPCBENCH_LOAD, /* closed loop until the deadline */
	RPCBENCH_STEP, /* one turn; one thread steps all sides */
	RPCBENCH_WAKE, /* one call after each gap: measures the cost of waking up */
	RPCBENCH_REST, /* no calls: measures the cost of a server that waits */
	RPCBENCH_HOLD, /* one call, answered at the end: measures the cost of a client that waits */
	RPCBENCH_PROBE, /* round trips of two cache lines */
	RPCBENCH_QUIT,
};

enum rpcbench_loop {
	RPCBENCH_LOOP_CALLBACK,
	RPCBENCH_LOOP_REFILL,
	RPCBENCH_LOOP_SINGLE,
	RPCBENCH_LOOP_MANY,
	RPCBENCH_LOOP_BLOCKING,
	RPCBENCH_LOOPS,
};

struct rpcbench_run;

struct rpcbench_client {
	CACHE_ALIGNED void *handle;
	const struct rpcbench_config *cfg;
	struct rpcbench_run *run;
	uint32_t index;
	uint32_t to; /* the node of a mesh that gets the current call, or got the last one */
	uint64_t rng;
	uint32_t again; /* bytes of the call that follows a response; 0: no call follows */
	uint64_t sent; /* calls since setup; their tokens are 0, 1, ... */
	uint64_t wrong;
	/* Calls that have ended. Not adjacent to done_sum, so that no vector store writes both. */
	uint64_t done;
	/* Results of the last window. */
	uint64_t window_done;
	uint64_t window_ns;
	uint64_t stall_ns; /* longest time without a response */
	uint64_t done_sum; /* sum of the tokens that came back, to find repeated ones */
};

struct rpcbench_server {
	CACHE_ALIGNED void *handle;
	const struct rpcbench_config *cfg;
	struct rpcbench_run *run;
};

struct rpcbench_impl {
	const char *name;
	/* Returns 0 or -errno; *state_p is passed to teardown(). */
	int (*setup)(const struct rpcbench_config *cfg, struct rpcbench_server *server,
		struct rpcbench_client *clients, void **state_p);
	void (*teardown)(void *state);
	void (*client)(struct rpcbench_client *c);
	void (*server)(struct rpcbench_server *s);
	bool shared_ring; /* for a layer: all clients send into one ring */
	const struct rpcbench_impl *mesh; /* the layer's implementation of --mesh, or NULL */
	/*
	 * Only for a mesh, whose nodes are clients: runs a turn of a node (see rpcbench_mesh.h),
	 * and returns how many messages came.
	 */
	int (*turn)(struct rpcbench_client *c, bool calls);
	/* Returns the number of bursts that all sides have published. NULL: it is not known. */
	uint64_t (*bursts)(void *state);
};

/* A request that a server has taken. */
struct rpcbench_req {
	uint64_t client, id;
};

/* The functions of which a client's loops consist. */
struct rpcbench_client_ops {
	/* Returns 0, or not 0 if there is no room. */
	int (*call)(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len);
	/* Calls the layer's response function for each response, and returns their number. */
	int (*poll)(struct rpcbench_client *c);
	/* Called after a burst of calls. NULL: the next poll publishes them. */
	void (*flush)(struct rpcbench_client *c);
	/* Waits for a response. Returns false if none came in ns. NULL: the loop pauses instead. */
	bool (*wait)(struct rpcbench_client *c, uint64_t ns);
};

/* The functions of which a server's loops consist. */
struct rpcbench_server_ops {
	/* NULL, or called before requests are taken. */
	void (*poll)(struct rpcbench_server *s);
	/* Takes the next request, with its payload in req. Returns 1, or 0 if there is none. */
	int (*recv)(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req, uint32_t len);
	void (*reply)(struct rpcbench_server *s, const struct rpcbench_req *r, const uint64_t *resp,
		uint32_t len);
	/* NULL, or called after requests have been answered. */
	void (*end)(struct rpcbench_server *s);
	/* Polls until there are requests or ns have passed. NULL: the loop pauses instead. */
	void (*wait)(struct rpcbench_server *s, uint64_t ns);
	/*
	 * NULL, or takes a burst of requests, answers them, and returns their number. The loop
	 * single does not use it.
	 */
	int (*serve)(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size);
};

/* State that the threads share. During a window only *wake and the fields after it are written. */
struct rpcbench_run {
	enum rpcbench_kind kind;
	enum rpcbench_loop loop;
	uint32_t active; /* clients in this window */
	uint64_t window_ns;
	uint32_t wakes; /* calls of a RPCBENCH_WAKE window */
	bool last_calls; /* in a RPCBENCH_STEP window: no further calls are made */
	struct latrec_hist *wake; /* latencies of the calls of a RPCBENCH_WAKE window, ns */
	CACHE_ALIGNED uint32_t ready; /* threads that are ready to start */
	CACHE_ALIGNED uint32_t finished; /* clients that have no call in flight any more */
	CACHE_ALIGNED uint64_t ping;
	CACHE_ALIGNED uint64_t pong;
};

/* Writes the request for a token. Its last word depends on the token as well. */
ALWAYS_INLINE void rpcbench_request(uint64_t *req, uint32_t size, uint64_t token, uint32_t client)
{
	uint32_t words = size / 8;

	req[0] = token;
	for (uint32_t i = 1; i + 1 < words; i++)
		req[i] = client;
	req[words - 1] = ~token ^ client;
}

/* Writes a server's answer to a request. */
ALWAYS_INLINE void rpcbench_answer(const uint64_t *req, uint32_t req_size, uint64_t *resp,
	uint32_t resp_size)
{
	uint64_t first = req[0], last = req[req_size / 8 - 1];

	resp[0] = first + last;
	for (uint32_t i = 1; i < resp_size / 8; i++)
		resp[i] = first ^ last;
}

ALWAYS_INLINE uint32_t rpcbench_inflight(const struct rpcbench_client *c)
{
	return (uint32_t)(c->sent - c->done);
}

/* Accepts the response to a token and checks it. Has the type of the layers' response functions. */
ALWAYS_INLINE void rpcbench_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct rpcbench_client *c = (struct rpcbench_client *)arg;
	const uint64_t *resp = (const uint64_t *)payload;
	uint64_t last = ~token ^ c->index;

	if (unlikely(len < RPCBENCH_RESP || resp[0] != token + last || resp[1] != (token ^ last)))
		c->wrong++;
	c->done++;
	c->done_sum += token;
}

/*
 * Runs the benchmark; --help lists the options. The layer is compared with another layer, unless
 * `other` is NULL, and with the peers that the user chooses. Returns the exit status.
 */
int rpcbench_main(const struct rpcbench_impl *layer, const struct rpcbench_impl *other, int argc,
	char **argv);

#include "rpcbench_loops.h"
#include "rpcbench_mesh.h"

#endif
