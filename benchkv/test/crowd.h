/* SPDX-License-Identifier: MIT */
/*
 * Jobs in one thread: a store and several clients with their checks, in a random schedule. The
 * store may have a fault.
 */
#ifndef BENCHKV_CROWD_H
#define BENCHKV_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "store.h"

#define CROWD_CLIENTS 8 /* maximum number of clients of a job */
#define CROWD_DEPTH 64

enum crowd_fault {
	CROWD_RIGHT,
	CROWD_LOSE, /* a put is not stored */
	CROWD_REPLAY, /* after a put, an older value is stored again */
	CROWD_AGE, /* a get returns the value that the newest put replaced */
	CROWD_REORDER, /* a request overtakes the previous request of the client */
	CROWD_FAULTS,
};

struct crowd_shape {
	struct workload load;
	uint32_t ranks, clients, depth, runs;
	uint64_t ops; /* of each client in a run */
	uint32_t keys; /* number of keys that the clients follow (history.h); 0: all */
};

struct crowd_request {
	struct kv_req req;
	struct kv_resp resp;
};

/* A client and its open requests in order. The first `served` of them are served. */
struct crowd_client {
	struct stream stream;
	struct checker check;
	struct crowd_request request[CROWD_DEPTH];
	uint32_t open, served;
	uint64_t next;
};

struct crowd {
	const struct crowd_shape *shape;
	enum crowd_fault fault;
	/*
	 * Returns true if the fault happens now. `requests` and `puts` count what was served
	 * before.
	 */
	bool (*due)(struct crowd *c, bool put);
	uint64_t requests, puts;
	uint64_t lose; /* for due() only: which put, or what share of the puts, is lost */
	uint64_t rng;
	struct source source;
	struct store store, older; /* older: the values that the newest puts replaced */
	struct board boards[CROWD_CLIENTS];
	struct crowd_client client[CROWD_CLIENTS];
	uint32_t n;
};

/*
 * Simulates all runs and the audit. The caller must have set the fields from `shape` to `rng`.
 * Returns the number of errors that the clients found.
 */
uint64_t crowd_find(struct crowd *c);

#endif
