/* SPDX-License-Identifier: MIT */
/* A run of an engine: what both roles do, from the options to the report. */
#ifndef RDMABENCH_SESSION_H
#define RDMABENCH_SESSION_H

#include "engine.h"

struct session {
	const struct engine_options *o;
	struct side side;
	char run[WIRE_RUN_MAX];
	char why[WIRE_TEXT_MAX];
	uint64_t deadline_ns; /* time limit for the next run to begin; 0: none */
	struct counters before, after;
	struct wire_side ours; /* kept here because it and `body` are too large for the stack */
	uint8_t body[WIRE_BODY_MAX];
};

/* Returns NULL if there is no memory. */
struct session *session_new(const struct engine_options *o);
void session_free(struct session *e);

/* Writes the text of an error into why, after @who. Returns err. */
int session_say(struct session *e, const char *who, int err);
/* Names the peer in the text of an error, unless the peer gave the reason. Returns err. */
int session_of_peer(struct session *e, const struct peer *p, int err);

/*
 * Returns a peer that owns the connection, or NULL if there is no memory. The caller must free it
 * or pass it to session_keep_peer().
 */
struct peer *session_new_peer(struct session *e, int fd, const char *address);
void session_keep_peer(struct session *e, struct peer *p);

/* Sends our QPs and memory as WELCOME or JOIN. Returns 0 or -errno. */
int session_send_side(struct session *e, struct peer *p, enum wire_kind kind);
/*
 * Reads the other side's QPs and memory from WELCOME or JOIN, and connects our QPs to them. Returns
 * 0 or -errno.
 */
int session_take_side(struct session *e, struct peer *p, enum wire_kind kind);

/* Opens the statistics file if the side sends and the options request one. Returns 0 or -errno. */
int session_open_stats(struct session *e);
/* Reads the counters of the port. */
void session_count(const struct session *e, struct counters *c_p);

/*
 * Reports a run that ended before there was any result. Returns @status, which the program ends
 * with.
 */
int session_fail(const struct session *e, int status);
/*
 * Runs the traffic after the set-up, which may have failed (err), reports it, and closes the side.
 * Returns the status of the program.
 */
int session_run(struct session *e, int err);

#endif
