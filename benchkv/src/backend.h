/* SPDX-License-Identifier: MIT */
/*
 * A backend carries the requests of a rank's clients to the daemons of other ranks, and the
 * replies back. It is a table of facts and functions in a file of backend/, and a line of
 * backend/list.c. No other file depends on which backend a job has.
 *
 * The main thread calls the functions that make and connect, in the order of this struct; then it
 * starts the threads. A job of one rank calls none of these functions. Each function may be NULL
 * unless noted. Functions that return int return 0 or -errno, unless noted. On an error, functions
 * with @why write one line to it or leave it empty.
 */
#ifndef BENCHKV_BACKEND_H
#define BENCHKV_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "msg.h"

struct client;
struct copyrpc_stats;
struct daemon;
struct node;

struct backend {
	/* For the command line. */
	const char *name;
	const char *brief; /* the backend's line in `benchkv --help` */
	const char *about; /* the first lines of `benchkv NAME --help` */
	/* The first two flags also determine which options in options.c the backend accepts. */
	bool copyrpc; /* endpoints are those of copyrpc, with two rings and statistics */
	bool owned; /* daemons own the endpoints, and the clients of a rank share them */
	bool all_own; /* if owned: by default all daemons own endpoints, not only the first one */

	/* For --dry-run and the report. */
	uint32_t (*endpoints)(const struct node *n); /* of this rank; never NULL */
	const char *why_endpoints; /* explains their number */

	/* Make the objects that the daemons share, then each daemon's part, then each client's. */
	int (*make)(struct node *n, char *why, int size);
	int (*make_daemon)(struct daemon *d); /* sets sees_ranks; never NULL */
	int (*make_client)(struct client *c);
	/* Connects the daemons and clients to those of the other ranks; all ranks call it. */
	int (*connect)(struct node *n, char *why, int size); /* never NULL */
	/*
	 * Creates a region of shared memory for a daemon that handles requests to or from other
	 * ranks, connects the clients, and removes the region's name.
	 */
	int (*open_daemon)(struct daemon *d, char *why, int size);
	/* Called after the threads have ended. @in_order: see node_free(). */
	void (*free_client)(struct client *c);
	void (*free)(struct node *n, bool in_order);

	/* Called in a client's thread. */
	int (*greet)(struct client *c); /* before its first request */
	/*
	 * Sends a request for shard @shard of the request's rank; never NULL. -EAGAIN: there is no
	 * room now; another error: the path has failed.
	 */
	int (*call)(struct client *c, uint32_t shard, const struct kv_req *req);
	/* Calls c->take() for each reply. Returns their number or -errno. NULL: all use shmipc. */
	int (*poll)(struct client *c);
	uint32_t (*pending)(const struct client *c); /* number of paths with outstanding requests */
	/* Called if pending() is 1: sleeps until a reply comes. NULL: a reply wakes no client. */
	void (*wait)(struct client *c, uint64_t timeout_ns);

	/* In a daemon's thread: serves other ranks' requests, returns their number; never NULL. */
	uint32_t (*serve)(struct daemon *d);

	/* Writes the statistics of a client's own endpoints to *s, which the caller has zeroed. */
	void (*get_stats)(const struct client *c, struct copyrpc_stats *s);
};

/* All backends of this build, terminated by NULL. The first one is the default. */
extern const struct backend *const backends[];

/* For error messages: the backends that this build lacks, or "". */
extern const char backends_lacking[];

/* Returns the backend with this name, or NULL. */
const struct backend *backend_find(const char *name);

/* The backend's index in the list. */
uint32_t backend_index(const struct backend *b);

#endif
