/* SPDX-License-Identifier: MIT */
/*
 * What a client knows about the keys of its stream, and whether what it reads can be so.
 *
 * The store carries out the requests for a key one after the other, and those of one client
 * for one key in the order in which the client made them: every way that they take is first
 * in, first out. So a value that replaces another one does so for good, and of what a client
 * reads the following is wrong:
 *
 *	forgotten	nothing, or the preloaded value, of a key that the client has put, or
 *			has read a put of, before
 *	stale		an own put that is not the last one before the get; another client's
 *			put that is older than one of that client which was read before; a
 *			value that was read, then found replaced (by an own put, or by another
 *			value read), and is back; a put of an earlier run than an own put
 *	invented	a value that no put of this key has: the named client does not exist, its
 *			regenerated stream has another operation there, or it has not made it
 *			yet, as far as that is known
 *
 * A client's stream repeats, so it has at most STREAM_PERIOD keys. What it knows of each is
 * kept exactly; what it has read of each of the other clients is kept for as many pairs of
 * key and client as the table has places, and a new pair takes the place of an older one.
 * Memory: 2.3 MiB for the keys, .75 MiB for the pairs, 8 bytes for each client of the job.
 */
#ifndef BENCHKV_HISTORY_H
#define BENCHKV_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "msg.h"
#include "workload.h"

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
};

/* Of another client under a key: the newest put that was read. */
struct history_pair {
	uint32_t who; /* key and client */
	uint64_t stamp;
	uint64_t at; /* the last operation that saw it */
};

struct history {
	const struct source *source;
	const struct stream *stream;
	struct history_key *keys;
	struct history_pair *pairs;
	uint16_t *id; /* of the key of each operation of the stream */
	uint16_t *first; /* operation of the stream that is the first one with this key */
	uint64_t *highest; /* by client: 1 + the highest operation that was read of it */
	const uint64_t *made; /* by client: its operations; NULL: not known */
	uint64_t ops; /* of all clients in each run; 0: not known */
	uint32_t n_keys;
	uint32_t writers; /* clients of the job */
	uint32_t run; /* the last one in which there were puts */
	bool preloaded;
};

/* A get: what was known when it was made. */
struct history_get {
	uint64_t at, changed_at, put_at;
	uint32_t key;
	uint16_t id;
};

struct history_attr {
	const struct source *source;
	const struct stream *stream;
	uint32_t writers;
	uint64_t ops; /* of all clients in a run; 0: as many as there is time for */
	bool preloaded;
};

/* 0 or -ENOMEM. Source and stream are the caller's, and outlive the history. */
int history_init(struct history *h, const struct history_attr *attr);
void history_fini(struct history *h);

/* The memory of one. */
uint64_t history_bytes(uint32_t writers);

/* Operation i, a put, is on its way. */
void history_put(struct history *h, uint64_t i);

/* A get of the key of operation i of the stream, made at the time of stamp. */
void history_get(const struct history *h, uint64_t i, uint64_t stamp, struct history_get *get_p);

/* It has found this value, or nothing. */
enum verdict history_found(struct history *h, const struct history_get *get, uint64_t value);
enum verdict history_absent(const struct history *h, const struct history_get *get);

/*
 * The end of all runs. made says how many operations each client has made, at most, in a
 * run; the array is the caller's. Returns the number of clients of which a later one was read.
 */
uint32_t history_end(struct history *h, const uint64_t *made);

/*
 * The keys that the client has put, each once, as operations of the stream that have them:
 * fills in to[], which has room for STREAM_PERIOD, and returns their number.
 */
uint32_t history_written(const struct history *h, uint16_t *to);

#endif
