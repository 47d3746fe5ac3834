/* SPDX-License-Identifier: MIT */
/*
 * A client thread keeps queue_depth requests in flight, sends each one to the daemon of its key,
 * and checks every reply. Closed loop: after each reply the client makes the next request. Open
 * loop (--rate): the client makes a request when it is due, or as soon after that as there is room.
 */
#ifndef BENCHKV_CLIENT_H
#define BENCHKV_CLIENT_H

#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "latrec.h"
#include "node.h"
#include "result.h"
#include "rmw.h"
#include "series.h"

/* Data of a request in flight, in addition to struct check_slot. */
struct mark {
	uint64_t due_ns; /* when the operation was due */
	uint8_t kind; /* the index of its latency, see result.h */
};

struct client {
	struct node *node;
	uint32_t index; /* in this rank */
	pthread_t thread;
	struct shmipc_client **ipc; /* by daemon */
	const struct backend *remote; /* carries requests for other ranks; NULL: there are none */
	void *way; /* the backend's part of this client */
	/* Checks the reply to the request with this token, and records its latency. */
	void (*take)(struct client *c, uint64_t token, const struct kv_resp *resp);
	struct stream stream;
	struct checker check;
	struct rmw rmw; /* of a job of read-modify-writes */
	struct mark *marks; /* of the requests in flight, by slot of `check` */
	struct latrec_hist *latency[RESULT_LATENCIES]; /* of one run */
	struct series_recorder series; /* of one run, with --interval */
	uint64_t excluded, missed; /* operations, see result.h */
	uint64_t now_ns; /* when the current replies were taken */
	uint64_t start_ns, measured_ns; /* when the run began, and when its measurement began */
	uint64_t elapsed_ns; /* of the last run, without the warm-up, or of the audit */
	_Atomic uint64_t done; /* verified in this run so far, for the progress line */
	struct history_made *made; /* in the node's list */
	uint32_t keys_put; /* number of keys of the next client that the audit must read */
	int error; /* 0, or -errno: the client cannot continue */
};

/* Makes a client without connections. 0 or -ENOMEM. */
int client_init(struct client *c, struct node *node, uint32_t index);
void client_fini(struct client *c);

/* The body of the thread; arg is the client. */
void *client_main(void *arg);

/* The number of operations of the client in a run with --ops. */
uint64_t client_ops(const struct client *c);

#endif
