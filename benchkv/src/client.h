/* SPDX-License-Identifier: MIT */
/*
 * A client thread: keeps queue_depth requests in flight, each sent where its key lives,
 * and checks every reply. Closed loop: an answer makes room for the next request. Open loop
 * (--rate): a request is made when it is due, or as soon after as there is room.
 */
#ifndef BENCHKV_CLIENT_H
#define BENCHKV_CLIENT_H

#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "latrec.h"
#include "node.h"
#include "result.h"

/* A request in flight, beside what the check keeps of it. */
struct mark {
	uint64_t due_ns; /* when it should have been made */
	uint8_t kind; /* which latency it belongs to, see result.h */
};

struct client {
	struct node *node;
	uint32_t index; /* in this rank */
	pthread_t thread;
	struct shmipc_client **ipc; /* by daemon */
	const struct backend *remote; /* carries requests for other ranks; NULL: there are none */
	void *way; /* the backend's part of this client */
	/* Takes a reply: token is that of the request. */
	void (*take)(struct client *c, uint64_t token, const struct kv_resp *resp);
	struct stream stream;
	struct checker check;
	struct mark *marks; /* by slot of check: of requests in flight */
	struct latrec_hist latency[RESULT_LATENCIES]; /* of one run */
	uint64_t excluded, missed; /* operations, see result.h */
	uint64_t now_ns; /* when this turn's replies were taken */
	uint64_t start_ns, measured_ns; /* of the run, and of what is measured */
	uint64_t elapsed_ns; /* of the last run, without the warm-up, or of the audit */
	_Atomic uint64_t done; /* verified in this run so far, for the progress line */
	struct history_made made;
	uint32_t keys_put; /* those that the audit should have read of the next client */
	int error; /* -errno: cannot go on */
};

/* Everything but the connections: 0 or -ENOMEM. */
int client_init(struct client *c, struct node *node, uint32_t index);
void client_fini(struct client *c);

/* Before the thread starts: connects to that daemon by the name of its region. 0 or -errno. */
int client_connect(struct client *c, uint32_t daemon, const char *name);

/* The body of the thread; arg is the client. */
void *client_main(void *arg);

/* The number of operations of the client in a run with --ops. */
uint64_t client_ops(const struct client *c);

#endif
