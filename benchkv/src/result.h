/* SPDX-License-Identifier: MIT */
/* The results of a run, of one rank or of all ranks together, and their encoding for rank 0. */
#ifndef BENCHKV_RESULT_H
#define BENCHKV_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "copyrpc.h"
#include "daemon.h"
#include "latrec.h"
#include "node.h"
#include "series.h"

/*
 * There are several histograms of latencies. The index is RESULT_DUE, or a sum of the other flags.
 */
enum {
	RESULT_PUT = 1, /* a put, otherwise a get */
	RESULT_REMOTE = 2, /* for another rank, otherwise for the client's own */
	RESULT_DUE = 4, /* with --rate: all operations, from their due times */
	RESULT_LATENCIES,
};

/* Requests that came to the daemons, as counted by the libraries that carried them. */
struct result_ways {
	uint64_t ipc, ring; /* from clients, by shmipc and delegrpc */
	uint64_t flux, relay; /* from other daemons: requests of other ranks, and for other ranks */
};

struct result {
	struct check_counts counts;
	struct check_counts audit;
	struct daemon_stats daemons;
	uint64_t served[OPTIONS_MAX_DAEMONS]; /* number of requests, by daemon of the rank */
	struct copyrpc_stats net;
	struct result_ways ways;
	uint64_t keys_put; /* different keys that clients put in the audited part of the last run */
	uint64_t compared; /* number of these keys that two clients have read */
	uint64_t skipped; /* keys of keys_put that the audit did not read, or read too often */
	uint64_t unsent; /* requests for other ranks that were answered but never left their rank */
	/*
	 * With read-modify-writes: changes made, and sum of the versions that the audit has found.
	 */
	uint64_t changes, versions;
	/* The difference: changes that were lost, or carried out twice. */
	uint64_t undone, redone;
	uint64_t views; /* the sum over all clients of the job must be 0, see check_audit() */
	uint64_t unequal; /* 1: `views` is not 0; not with read-modify-writes */
	uint64_t bad_digests; /* with --ops: clients that did not make exactly their operations */
	uint64_t digest; /* of the operation streams, see result_of_clients() */
	uint64_t elapsed_ns; /* of the slowest client */
	uint64_t audit_ns;
	uint64_t cpu_ns; /* CPU time of the ranks' processes in the runs, without the audit */
	uint64_t first_errno;
	uint64_t excluded; /* operations that were not measured: those of the warm-up */
	uint64_t missed; /* operations that were due, but not made before the end of the run */
	struct latrec_hist *latency[RESULT_LATENCIES];
};

/*
 * Writes the results of this rank's clients in the last run, which must have ended. With --ops the
 * digest is that of the operations made in the run, otherwise that of the first 65,536 operations
 * of each stream.
 */
void result_of_clients(const struct node *n, struct result *r);

/* With --interval: adds the series of this rank's clients in the last run. 0 or -ENOMEM. */
int series_of_clients(const struct node *n, struct series *s);

/*
 * Writes the results of this rank's daemons since the start, and of its clients in the audit. The
 * threads must have ended. @runs: the results of the clients in the runs, which are compared with
 * the number of calls to other ranks.
 */
void result_of_all(const struct node *n, const struct result *runs, struct result *r);

/*
 * Sets r->unequal if two clients have read different values in the audit, or with
 * read-modify-writes r->undone and r->redone. @r must be the result of all ranks and runs of a
 * complete job.
 */
void result_compare_views(struct result *r);

/* Creates the histograms of a client or a result. 0; or -ENOMEM, and all pointers are NULL. */
int result_latencies_create(struct latrec_hist *latency[RESULT_LATENCIES]);
/* The pointers may be NULL. */
void result_latencies_destroy(struct latrec_hist *latency[RESULT_LATENCIES]);

/* Creates an empty result. 0 or -ENOMEM. */
int result_init(struct result *r);
/* Frees a result that result_init() created, or one of zeros. */
void result_fini(struct result *r);
/* Empties a result. */
void result_clear(struct result *r);

/* Adds the 64-bit counters at @from to those at @to. */
void result_add_words(void *to, const void *from, size_t bytes);

/*
 * Adds a result of the same run: sums all values, but keeps the longest elapsed_ns and audit_ns,
 * and the first error.
 */
void result_add(struct result *to, const struct result *from);

/* Adds the results of @n other runs, like result_add(), but sums elapsed_ns, too. */
void result_sequel_all(struct result *to, const struct result *runs, uint32_t n);
/* Adds the result of one other run. */
void result_sequel(struct result *to, const struct result *from);

uint64_t result_errors(const struct result *r);

/*
 * Returns the latency of all operations, for latrec_hist_destroy(), or NULL if there is no memory.
 */
struct latrec_hist *result_latency(const struct result *r);

/* Measured operations per second. */
double result_rate(const struct result *r);

/* CPU time per operation in ns, operations of the warm-up included; 0 without operations. */
double result_cpu_per_op(const struct result *r);

/* True: there was no error, and every operation and every key of the audit was verified. */
bool result_verified(const struct result *r);

/* A kind of errors, and the number of such errors. */
struct result_kind {
	const char *name; /* in the JSON object */
	const char *text;
	uint64_t in_runs, in_audit;
};

#define RESULT_KINDS 15
void result_kinds(const struct result *r, struct result_kind kinds[RESULT_KINDS]);

/* Describes what was wrong, in one line. */
void result_explain(const struct result *r, char *text, size_t size);

/* Encodes a series, if @s is not NULL, and a result. The caller must free *data_p. 0 or -ENOMEM. */
int result_encode(const struct series *s, const struct result *r, void **data_p, size_t *len_p);
/* Writes *r, which result_init() has created. 0; -EBADMSG: the bytes are not a result; -ENOMEM. */
int result_decode(const void *data, size_t len, struct result *r);

#endif
