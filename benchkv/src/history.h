/* SPDX-License-Identifier: MIT */
/*
 * A client's knowledge about keys, from which it judges what it reads.
 *
 * The store carries out the requests for a key one after the other, and those of one client
 * for one key in the order in which the client made them: every way that they take is first
 * in, first out. So a value that replaces another one does so for good, and of what a client
 * reads the following is wrong:
 *
 *	forgotten	nothing, or the preloaded value, of a key that the client has put, or
 *			has read a put of, before; or that is on the rank's board
 *	stale		an own put that is not the last one before the get; another client's
 *			put that is older than one of that client which was read before; a
 *			value that was read, then found replaced (by an own put, or by another
 *			value read), and is back; a put of an earlier run than an own put; one
 *			that the board shows to be replaced before the get was made, see board.h
 *	invented	a value that no put of this key has: the named client does not exist, its
 *			regenerated stream has another operation there, or it has not made it
 *			yet, as far as that is known
 *
 * The first HISTORY_KEYS keys by number, which are the most popular ones, are followed: the client
 * knows exactly what it has put and read of them. It keeps nothing of the other keys, but
 * recognises invented values of all keys. The puts of other clients that it has read are kept for
 * as many pairs of key and client as the table has places, and a new pair takes the place of an
 * older one. Memory: 2.5 MiB for the keys, .75 MiB for the pairs, 8 bytes for each client of the
 * job.
 *
 * A put that was not acknowledged may be carried out, at once or later, or not at all. Nothing is
 * concluded from it when that is known; see history_doubt().
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

/* Times are those of the client itself: 1 + kv_stamp() of the operation; 0 is never. */
struct history_key {
	uint64_t last; /* name of the newest put that is known */
	uint64_t last_at; /* the last operation that saw it, or made it */
	uint64_t changed_at; /* the first one */
	uint64_t put_at; /* the last own put */
	uint64_t posted; /* the turn of the board at which that put was posted; 0: it was not */
};

/* The newest put of another client that was read under a key. */
struct history_pair {
	uint32_t who; /* key and client */
	uint64_t stamp;
	uint64_t at; /* the last operation that saw it */
};

/* The operations of a client, as it tells the others after the last run. */
struct history_made {
	uint64_t most; /* operations of the run with the most */
	uint64_t last; /* of the last run */
	uint64_t doubtful; /* puts of all runs that were not acknowledged */
};

struct history {
	const struct source *source;
	struct board *board; /* NULL: none */
	struct history_key *keys; /* by number */
	struct history_pair *pairs;
	uint64_t *highest; /* by client: 1 + the highest operation that was read of it */
	const struct history_made *made; /* by client; NULL: not known */
	uint64_t ops; /* of all clients in each run; 0: not known */
	uint32_t client; /* among all clients of the job */
	uint32_t n_keys; /* that are followed */
	uint32_t writers; /* clients of the job */
	uint32_t run; /* the last one in which there were puts */
	bool preloaded;
};

/* A request: what was known when it was made. */
struct history_view {
	uint64_t at, changed_at, put_at, posted;
	struct board_view board;
	uint32_t key;
	uint32_t number;
	bool followed; /* else only at, key and number are set */
};

struct history_attr {
	const struct source *source;
	struct board *board; /* of the rank, for history_keys(); NULL: none */
	uint32_t client, writers;
	uint64_t ops; /* of all clients in a run; 0: as many as there is time for */
	bool preloaded;
};

/* 0 or -ENOMEM. Source and board are the caller's, and outlive the history. */
int history_init(struct history *h, const struct history_attr *attr);
void history_fini(struct history *h);

/* The keys that are followed, of so many. */
uint32_t history_keys(uint64_t key_range);

/* The memory of one. */
uint64_t history_bytes(uint64_t key_range, uint32_t writers);

/* A request for the key of this operation is about to be made, at the time of stamp. */
void history_look(const struct history *h, const struct op *op, uint64_t stamp,
	struct history_view *v_p);

/* That operation will follow soon: loads what is known of its key. */
static inline void history_prefetch(const struct history *h, const struct op *op)
{
	if (!op || op->number >= h->n_keys)
		return;
	__builtin_prefetch(&h->keys[op->number], 1);
	if (h->board)
		__builtin_prefetch(&h->board->slots[op->number]);
}

/* The put is on its way, then it was acknowledged. */
void history_put(struct history *h, const struct history_view *v);
void history_acknowledged(struct history *h, const struct history_view *v);

/* The put failed or was given up: nobody knows whether it is in the store, or will be. */
void history_doubt(struct history *h, const struct history_view *v);

/* A get has found this value, or nothing. */
enum verdict history_found(struct history *h, const struct history_view *v, uint64_t value);
enum verdict history_absent(const struct history *h, const struct history_view *v);

/*
 * The end of all runs. made says what each client has done; the array is the caller's. Returns
 * the number of clients of which an operation was read that they have not made.
 */
uint32_t history_end(struct history *h, const struct history_made *made);

/*
 * After the last run: a get has found a value that is right so far, of a key whose last put by
 * that writer, in the last run, was this operation. Is it a put that was there after that one, or
 * itself?
 */
enum verdict history_final(const struct history *h, uint32_t writer, uint64_t op, uint32_t key,
	uint64_t value);

/* The same, if nothing was found, or the preloaded value. */
enum verdict history_final_absent(const struct history *h, uint32_t writer);

/*
 * The followed keys that the client has put last in this run, at operation `first` or after it:
 * fills in to[] with these operations, which has room for n_keys, and returns their number.
 */
uint32_t history_written(const struct history *h, uint64_t first, uint64_t *to);

#endif
