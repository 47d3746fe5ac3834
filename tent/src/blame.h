/* SPDX-License-Identifier: MIT */
/*
 * Finds the cause of an outage. A port that has gone down on either side, and a peer's adapter that
 * has refused an access, report that themselves. If there is no such report, two messages without
 * data are sent after the failed pair of rails has been fenced (can receive nothing more), over
 * queue pairs that are made for them:
 *
 *	rail of the pair here -> another rail of the peer
 *	another rail here     -> rail of the pair at the peer
 *
 * The suspects are the two ports of the failed pair. The other rails are in use and in the same
 * subnet, so each message tests one suspect. If the message arrives, its suspect is not the cause.
 * A suspect is blamed only if its message was lost and the other message arrived. If both messages
 * are lost, or there is no other rail, the cause stays unknown.
 *
 * One pair is examined at a time.
 */
#ifndef TENT_BLAME_H
#define TENT_BLAME_H

#include "ctl.h"

#define BLAME_ENDS 2 /* end 0 tests our port, end 1 the peer's */
#define BLAME_NONE UINT32_MAX

struct tent_segment;

enum blame_message {
	MESSAGE_NONE, /* it cannot be sent */
	MESSAGE_LOST,
	MESSAGE_ARRIVED,
};

struct blame_end {
	struct link *link; /* NULL: not tried */
	bool connected, answered;
	enum blame_message message;
};

struct blame {
	uint32_t todo; /* a bit per pair */
	uint32_t pair; /* under examination, or BLAME_NONE */
	uint32_t epoch;
	uint64_t until; /* deadline: after it a message that has not arrived counts as lost */
	struct blame_end ends[BLAME_ENDS];
};

/*
 * Must be called when the pair is being fenced. If its transport has `blames` and the peer is not
 * lost, the pair is examined after the fence, unless blame_known() sets the cause before.
 */
void blame_suspect(struct tent_segment *s, uint32_t pair);
void blame_known(struct tent_segment *s, uint32_t pair, enum tent_fault fault);

/* Begins, continues and ends examinations. True: a message or an examination has ended. */
bool blame_progress(struct tent_segment *s, uint64_t now);
/* Handles the peer's CTL_CONNECTED with msg->pair of TENT_MAX_RAILS or more. */
void blame_answer(struct tent_segment *s, const struct ctl_msg *msg);
uint64_t blame_due(const struct tent_segment *s);
void blame_fini(struct tent_segment *s);

/* The cause that follows from the messages that tested our rail and the peer's rail. */
enum tent_fault blame_verdict(enum blame_message ours, enum blame_message theirs);

#endif
