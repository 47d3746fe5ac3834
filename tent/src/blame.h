/* SPDX-License-Identifier: MIT */
/*
 * Whose fault an outage is. A port that has gone down, here or there, and a peer whose adapter
 * has refused an access say so themselves. Else two messages without data are sent, over
 * queue pairs made for them, when the failed pair has been fenced:
 *
 *	own rail    -> another rail of the peer
 *	another own -> the peer's rail
 *
 * over rails of the same subnet that are in use, so that each message has one suspect. One
 * that arrives clears its suspect. Who is accused has had a message lost while the other's
 * arrived: where rails do not reach across, or there is no other, nothing is said.
 *
 * One pair is looked into at a time.
 */
#ifndef TENT_BLAME_H
#define TENT_BLAME_H

#include "ctl.h"

#define BLAME_ENDS 2 /* suspects: ours, the peer's */
#define BLAME_NONE UINT32_MAX

struct tent_segment;

enum blame_message {
	MESSAGE_NONE, /* there was no rail to send it over */
	MESSAGE_LOST,
	MESSAGE_ARRIVED,
};

struct blame_end {
	struct link *link; /* NULL: not tried */
	uint32_t local, remote;
	bool connected, answered;
	enum blame_message message;
};

struct blame {
	uint32_t todo; /* a bit per pair */
	uint32_t pair; /* that is looked into, or BLAME_NONE */
	uint32_t epoch;
	uint64_t until; /* when what has not arrived counts as lost */
	struct blame_end ends[BLAME_ENDS];
};

/* The pair is being fenced; it is looked into unless blame_known() says whose fault it is. */
void blame_suspect(struct tent_segment *s, uint32_t pair);
void blame_known(struct tent_segment *s, uint32_t pair, enum tent_fault fault);

/* Begins, takes what has arrived, ends; true if it was something. */
bool blame_progress(struct tent_segment *s, uint64_t now);
/* The peer's answer; its pair is TENT_MAX_RAILS or more. */
void blame_answer(struct tent_segment *s, const struct ctl_msg *msg);
uint64_t blame_due(const struct tent_segment *s);
void blame_fini(struct tent_segment *s);

/* What two messages say of two suspects. */
enum tent_fault blame_verdict(enum blame_message ours, enum blame_message theirs);

#endif
