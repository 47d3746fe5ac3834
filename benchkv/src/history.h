/* SPDX-License-Identifier: MIT */
/*
 * A client's knowledge about keys, with which it checks the values that it reads.
 *
 * The store carries out the requests for a key one after the other. It carries out the requests of
 * one client for one key in the order in which the client made them, because every path is first
 * in, first out. (With values of more than 8 bytes, the client delays requests that could overtake
 * another one, see check_crosses().) So a replaced value never comes back, and the following
 * results of a get are wrong:
 *
 *	forgotten	nothing, or the preloaded value, although the client has put the key or
 *			read a put of it before, or the key has a put on the rank's board
 *	stale		an own put that is not the last one before the get;
 *			another client's put that is older than a put of that client which was
 *			read before;
 *			a value that was read, then replaced by an own put or by another value
 *			that was read, and then read again;
 *			a put of an earlier run than an own put;
 *			a put that the board shows as replaced before the get, see board.h
 *	invented	a value that no put of this key has. A value names a client and an
 *			operation (msg.h): there is no such client, or its regenerated stream has
 *			another operation at that index, or the client does not make that many
 *			operations (if their number is known)
 *
 * The first HISTORY_KEYS keys by number, which are the most popular ones, are followed: for each of
 * them the client stores its own last put and the newest value that it has read. It stores nothing
 * about the other keys, but detects invented values of all keys. A table stores the newest put that
 * this client has read for each pair of followed key and other client; a new pair may replace an
 * older one. Memory: 2.5 MiB for the keys, .75 MiB for the pairs, 8 bytes for each client of the
 * job.
 *
 * A put that was not acknowledged may be carried out now, later or never. The checks make no use of
 * such a put; see history_doubt().
 */
#ifndef BENCHKV_HISTORY_H
#define BENCHKV_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "msg.h"
#include "workload.h"

#define HISTORY_KEYS (1u << 16)
#define HISTORY_PAIRS (1u << 15)

enum verdict {
	READ_RIGHT,
	READ_FORGOTTEN,
	READ_STALE,
	READ_INVENTED,
};

/* Times count the client's own operations: 1 + kv_stamp() of the operation; 0: never. */
struct history_key {
	uint64_t last; /* name of the newest put that the client has made or read */
	uint64_t last_at; /* time of the last operation that read or made this put */
	uint64_t changed_at; /* time of the first operation that read or made it */
	uint64_t put_at; /* time of the last own put */
	uint64_t posted; /* turn of the board at which the last own put was posted; 0: it was not */
};

/* The newest put of another client that was read under a key. */
struct history_pair {
	uint32_t who; /* key and client */
	uint64_t stamp;
	uint64_t at; /* time of the last operation that read it */
};

/* The numbers of operations of a client, which it sends to the others after the last run. */
struct history_made {
	uint64_t most; /* of the run with the most operations */
	uint64_t last; /* of the last run */
	uint64_t doubtful; /* puts of all runs that were not acknowledged */
};

struct history {
	/* Given to history_init(). */
	const struct source *source;
	struct board *board; /* the rank's board, which has history_keys() keys; NULL: none */
	uint32_t client; /* among all clients of the job */
	uint32_t writers; /* clients of the job */
	uint64_t ops; /* of all clients in each run; 0: the duration limits them */
	bool preloaded;

	struct history_key *keys; /* by number */
	struct history_pair *pairs;
	uint64_t *highest; /* by client: 1 + the highest operation of it that was read */
	const struct history_made *made; /* by client; NULL: not known */
	uint32_t n_keys; /* number of followed keys */
	uint32_t run; /* the last run with puts */
};

/* The knowledge of the client and of the board about a key when a request for it is made. */
struct history_view {
	uint64_t at, changed_at, put_at, posted;
	struct board_view board;
	uint32_t key;
	uint32_t number;
	bool followed; /* false: only at, key and number are set */
};

/*
 * Initializes *h with the first fields of *given. 0 or -ENOMEM; history_fini() must be called after
 * -ENOMEM, too. The caller owns the source and the board, which must outlive the history.
 */
int history_init(struct history *h, const struct history *given);
void history_fini(struct history *h);

/* The number of followed keys in a range of @key_range keys. */
uint32_t history_keys(uint64_t key_range);

/* The memory of a history. */
uint64_t history_bytes(uint64_t key_range, uint32_t writers);

/* Fills in the view for a request for the operation's key, which is about to be made. */
void history_look(const struct history *h, const struct op *op, uint64_t stamp,
	struct history_view *v_p);

/* Prefetches the data about the key of an operation that will follow soon. */
static inline void history_prefetch(const struct history *h, const struct op *op)
{
	if (!op || op->number >= h->n_keys)
		return;
	__builtin_prefetch(&h->keys[op->number], 1);
	if (h->board)
		__builtin_prefetch(&h->board->slots[op->number]);
}

/* Must be called when the put is sent, and when it was acknowledged. */
void history_put(struct history *h, const struct history_view *v);
void history_acknowledged(struct history *h, const struct history_view *v);

/* Must be called when a put has failed or was given up: it is unknown whether it is carried out. */
void history_doubt(struct history *h, const struct history_view *v);

/* A get has found this value, or nothing. */
enum verdict history_found(struct history *h, const struct history_view *v, uint64_t value);
enum verdict history_absent(const struct history *h, const struct history_view *v);

/*
 * Must be called after all runs. @made: the operations of each client; the caller keeps the array.
 * Returns the number of clients of which this client has read a put that they have not made.
 */
uint32_t history_end(struct history *h, const struct history_made *made);

/*
 * In the audit: a get has found a value that history_found() accepts. @op is the last put of this
 * key by client @writer in the last run. Checks that the value is this put or can have replaced it.
 */
enum verdict history_final(const struct history *h, uint32_t writer, uint64_t op, uint32_t key,
	uint64_t value);

/* The same for a get that has found no value. */
enum verdict history_final_absent(const struct history *h, uint32_t writer);

/*
 * Lists the followed keys whose last put by this client is operation @first of this run or a later
 * one. Writes these operations to @to, which must have room for n_keys, and returns their number.
 */
uint32_t history_written(const struct history *h, uint64_t first, uint64_t *to);

#endif
