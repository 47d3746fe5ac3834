/* SPDX-License-Identifier: MIT */
/*
 * A backend carries the requests of a rank's clients to the daemons of other ranks, and the
 * replies back. It is a table of facts and functions in a file of backend/, and a line of
 * backend/list.c. No other file asks which backend a job has.
 *
 * The main thread calls the functions that make and connect, in the order of this struct; threads
 * run from then on. A job of one rank calls none of them. Each function may be NULL unless noted.
 * Those that return int return 0 or -errno; those with why[] say in one line there what failed, or leave
 * it empty.
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
	const char *brief; /* its line in `benchkv --help` */
	const char *about; /* the head of `benchkv NAME --help` */
	/* Options that do not fit are those of rows in options.c that need what is false here. */
	bool copyrpc; /* endpoints are copyrpc's: each has two rings, and they are counted */
	bool owned; /* daemons own the endpoints, and the clients of a rank share them */
	bool all_own; /* if owned: all daemons own some by default, not the first one only */

	/* For --dry-run and the report. */
	uint32_t (*endpoints)(const struct node *n); /* of this rank; never NULL */
	const char *why_endpoints; /* how many these are */

	/* Making: what the daemons need between them, then each daemon's part, then each client's. */
	int (*make)(struct node *n, char *why, int size);
	int (*make_daemon)(struct daemon *d); /* sets sees_ranks; never NULL */
	int (*make_client)(struct client *c);
	/* Connects the daemons and clients to those of the other ranks; all ranks call it. */
	int (*connect)(struct node *n, char *why, int size); /* never NULL */
	/*
	 * Makes a region of shared memory for a daemon that sees other ranks, connects the clients,
	 * and removes the region's name.
	 */
	int (*open_daemon)(struct daemon *d, char *why, int size);
	/* After the threads have ended. in_order: no connection was being made. */
	void (*free_client)(struct client *c);
	void (*free)(struct node *n, bool in_order);

	/* A client, in its thread. */
	int (*greet)(struct client *c); /* before its first request */
	/*
	 * Sends a request for that shard of the request's rank; never NULL. -EAGAIN: there is no room
	 * now; another error: the way has failed.
	 */
	int (*call)(struct client *c, uint32_t shard, const struct kv_req *req);
	/* Gives replies to c->take(): their number, or -errno. NULL: they come through shmipc. */
	int (*poll)(struct client *c);
	uint32_t (*pending)(const struct client *c); /* ways on which replies are awaited */
	/* Sleeps until there is a reply, if one way is awaited. NULL: nothing wakes it. */
	void (*wait)(struct client *c, uint64_t timeout_ns);

	/* A daemon, in its thread: serves what other ranks sent, and returns its number; never NULL. */
	uint32_t (*serve)(struct daemon *d);

	/* Adds what a client's own endpoints have counted. */
	void (*get_stats)(const struct client *c, struct copyrpc_stats *s);
};

/* All backends of this build, up to a NULL; the first one is the default. */
extern const struct backend *const backends[];

/* For the list in an error text: which backend this build lacks, or "". */
extern const char backends_lacking[];

/* NULL: there is none of that name. */
const struct backend *backend_find(const char *name);

/* Its place in the list. */
uint32_t backend_index(const struct backend *b);

#endif
