/* SPDX-License-Identifier: MIT */
/*
 * A log of the decisions of a control, with their observations and reasons. It is in memory while a
 * daemon runs, and is written as CSV when the daemon has ended. If a decision differs from the
 * previous one only in its time, the count of the previous row is increased. When the log is full,
 * further decisions are only counted.
 */
#ifndef BENCHKV_DECISION_H
#define BENCHKV_DECISION_H

#include <stdint.h>
#include <stdio.h>

#define DECISIONS_MAX (1u << 18) /* rows of a daemon */
#define DECISION_VALUES 7
#define DECISION_NO_RANK UINT32_MAX

enum decision_what {
	DECISION_POLL, /* how often a loop has polled */
	DECISION_FLUSH, /* whether an endpoint with messages is flushed now */
	DECISION_HOLD, /* whether held replies are sent now */
	DECISION_BUDGET, /* u of adaptive-budget */
	DECISION_IDENTIFY, /* the identification of adaptive-budget */
	DECISION_BATCHING, /* batching on or off, of little */
};

enum decision_reason {
	BECAUSE_RESPONSES,
	BECAUSE_POLLS,
	BECAUSE_THRESHOLD,
	BECAUSE_COMPLETION,
	BECAUSE_REPLIES,
	BECAUSE_FULL,
	BECAUSE_ROOM,
	BECAUSE_OVERDUE,
	BECAUSE_URGENT,
	BECAUSE_WINDOW,
	BECAUSE_OFF,
	BECAUSE_CONSUMED,
	BECAUSE_UNCONSUMED,
	BECAUSE_RANKS,
	BECAUSE_TIME,
	BECAUSE_LAST,
	BECAUSE_HEALTHY,
	BECAUSE_MORE,
	BECAUSE_SHORT,
	BECAUSE_EMPTY,
	BECAUSE_LONG,
	BECAUSE_COLLAPSED,
	BECAUSE_PROBE_OFF,
	BECAUSE_PROBE_ON,
	BECAUSE_IDENTIFIED,
	BECAUSE_LOWER,
	BECAUSE_UNKNOWN,
	BECAUSE_OLD,
	BECAUSES,
	BECAUSE_UNCHANGED = BECAUSES, /* nothing was decided */
};

struct decision {
	uint32_t what, reason;
	uint32_t rank; /* the rank of the endpoint, or DECISION_NO_RANK */
	uint32_t decided; /* 0 or 1, or a number */
	double seen[DECISION_VALUES]; /* the observations, in the order of the names for `what` */
};

struct decision_row {
	struct decision decision;
	uint64_t time_ns, times;
};

struct decisions {
	struct decision_row *rows;
	uint32_t n;
	uint64_t left_out;
	uint64_t start_ns, now_ns; /* beginning of the log; beginning of the current loop */
};

/* 0 or -ENOMEM. */
int decisions_init(struct decisions *d, uint64_t now_ns);
void decisions_fini(struct decisions *d);

void decisions_add(struct decisions *d, const struct decision *x);

/* decisions_write_names() writes the header line, decisions_write() the rows of a daemon. */
void decisions_write_names(FILE *out);
void decisions_write(const struct decisions *d, uint32_t daemon, FILE *out);

#endif
