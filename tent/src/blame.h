/* SPDX-License-Identifier: MIT */
/*
 * Finds the cause of an outage. A port that has gone down, here or there, and a peer whose adapter
 * has refused an access, report that themselves. Else two messages without data are sent, over
 * queue pairs made for them, when the failed pair has been fenced:
 *
 *	own rail    -> another rail of the peer
 *	another own -> the peer's rail
 *
 * over rails of the same subnet that are in use, so that each message has one suspect. One
 * that arrives clears its suspect. A suspect is blamed only if its message was lost while the other
 * one arrived: if rails do not reach across, or there is no other rail, the cause stays unknown.
 *
 * One pair is examined at a time.
 */
#ifndef TENT_BLAME_H
#define TENT_BLAME_H

#include "ctl.h"

#define BLAME_ENDS 2 /* suspects: ours, the peer's */
#define BLAME_NONE UINT32_MAX

struct tent_segment;

enum blame_message {
	MESSAGE_NONE, /* no rail to send it over */
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
	uint32_t pair; /* under examination, or BLAME_NONE */
	uint32_t epoch;
	uint64_t until; /* then a message that has not arrived counts as lost */
	struct blame_end ends[BLAME_ENDS];
};

/* The pair is being fenced. It will be examined unless blame_known() names the cause. */
void blame_suspect(struct tent_segment *s, uint32_t pair);
void blame_known(struct tent_segment *s, uint32_t pair, enum tent_fault fault);

/* Begins an examination, takes completions, ends it. True: one of these happened. */
bool blame_progress(struct tent_segment *s, uint64_t now);
/* The peer's answer; its pair is TENT_MAX_RAILS or more. */
void blame_answer(struct tent_segment *s, const struct ctl_msg *msg);
uint64_t blame_due(const struct tent_segment *s);
void blame_fini(struct tent_segment *s);

/* The conclusion from two messages about two suspects. */
enum tent_fault blame_verdict(enum blame_message ours, enum blame_message theirs);

#endif
