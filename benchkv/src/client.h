/* SPDX-License-Identifier: MIT */
/*
 * A client thread: keeps queue_depth requests in flight, each sent where its key lives,
 * and checks every reply. Closed loop: an answer makes room for the next request.
 */
#ifndef BENCHKV_CLIENT_H
#define BENCHKV_CLIENT_H

#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "direct.h"
#include "latrec.h"
#include "node.h"
#include "ucx.h"

struct client {
	struct node *node;
	uint32_t index; /* in this rank */
	pthread_t thread;
	struct shmipc_client **ipc; /* by daemon */
	struct delegrpc_client **rings; /* by daemon; NULL where it has none */
	struct direct direct;
	struct ucx_client *ucx; /* NULL: another backend */
	struct stream stream;
	struct checker check;
	struct latrec_hist latency; /* of one run */
	uint64_t now_ns; /* when this turn's replies were taken */
	uint64_t elapsed_ns; /* of the last run, or of the audit */
	uint64_t made; /* operations of the run with the most */
	int error; /* -errno: cannot go on */
};

/* Everything but the connections: 0 or -ENOMEM. */
int client_init(struct client *c, struct node *node, uint32_t index);
void client_fini(struct client *c);

/*
 * Before the thread starts: connects to that daemon, or to its ring, by the name of its
 * region. 0 or -errno.
 */
int client_connect(struct client *c, uint32_t daemon, const char *name);
int client_connect_ring(struct client *c, uint32_t daemon, const char *name);

/* A reply from another rank: token is that of the request. */
void client_take(struct client *c, uint64_t token, const struct kv_resp *resp);

/* The body of the thread; arg is the client. */
void *client_main(void *arg);

/* What the client is to do in a run with --ops. */
uint64_t client_ops(const struct client *c);

#endif
