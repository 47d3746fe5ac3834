/* SPDX-License-Identifier: MIT */
/*
 * Scheduler core: gives the slices of requests to rails. It has no clock, no threads and
 * no random state but its seed: time is an argument in nanoseconds that never goes back,
 * and rails are reached through struct rail_ops. The same calls give the same decisions.
 * It allocates in sched_create() only.
 *
 *	sched_create(&attr, &s);
 *	sched_submit(s, now, &request);
 *	for (;;) {
 *		while (a completion)
 *			sched_completed(s, now, token, status);
 *		wake = sched_run(s, now);       // posts slices, ends requests
 *		wait until a completion or until wake;
 *	}
 *
 * Completions that are there are reported before sched_run() is called: otherwise a caller
 * that was late looks like a rail that has stalled.
 *
 * A slice is written exactly once as far as its memory can tell: the slices that a failed
 * rail has not completed go to other rails only after the peer has confirmed, through
 * sched_fenced(), that nothing more can arrive on that rail.
 *
 * A mark is a message without data of the request: the engine's notices are made of marks. The
 * caller chooses its rail. The ledger holds it beside the slices, so the deadline of a silent
 * rail holds for it as well, and rail_ops.marked tells its end exactly once.
 *
 * The state of a rail. The engine's pair of rails has no state of its own: it asks for this one.
 * A link exists in all states but DOWN: rail_ops.open makes it and rail_ops.close destroys it.
 *
 *	                 a slice or a mark has arrived
 *	         +---------------------------------------------+
 *	         v                                             |
 *	+-->[   UP   ]                                     [  HALF  ]<------------------+
 *	|        | error, silence, loss                        | error, silence, loss   |
 *	|        v                                             v                        |
 *	|    [FENCING]<----------------------------------------+                        |
 *	|        | the peer has confirmed, or is lost                                   |
 *	|        v               opened                    the peer has an end          |
 *	|    [  DOWN ]------------------->[CONNECTING]------------------->[PROBING]     |
 *	|        ^   error, limit, port up    |                             |   |       |
 *	|        +----------------------------+-----------------------------+   |       |
 *	|                                                                       |       |
 *	+-- the probe has arrived, the first one <------------------------------+       |
 *	                                         the probe has arrived, after an outage-+
 *
 * An error, a reported loss of the rail, or no progress until a deadline that follows from
 * the measured rate ends UP; that is one exclusion. HALF carries one slice or mark at a time until
 * one has arrived. Failures between FENCING and HALF belong to the same outage. health.c has
 * the table of these transitions, which is the only place that changes a state.
 *
 * One thread at a time.
 */
#ifndef TENT_SCHED_H
#define TENT_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define SCHED_MAX_RAILS 64
#define SCHED_MAX_LOCATIONS 1024
#define SCHED_MAX_GROUPS 16
#define SCHED_PRIORITIES 3
#define SCHED_NO_GROUP UINT32_MAX
#define SCHED_NEVER UINT64_MAX
#define SCHED_MARK 1
#define SCHED_STALL_MAX_NS 45000000ull /* a silent stall is found within this time */

struct sched;

struct sched_slice {
	uint64_t token; /* for sched_completed() */
	uint64_t user; /* of the request, or the mark's */
	uint64_t offset, length; /* within the request */
	bool again; /* a rail that had it has failed */
	bool mark; /* a message without data: length is 0 */
	uint32_t position; /* of a mark, as its caller said */
};

/* The core's calls of its user, from within calls of the core. */
struct rail_ops {
	/*
	 * Starts a slice. 0; -EAGAIN: the rail's queue is full, ask again after its next
	 * completion; another -errno: the rail has failed, the slice was not started.
	 */
	int (*post)(void *arg, uint32_t rail, const struct sched_slice *slice);
	/*
	 * Make sure that nothing posted on the rail can arrive any more: the peer moves its
	 * queue pair to the error state. Each call is answered by one sched_fenced() with the
	 * same epoch, at the latest with an error when the peer is known to be lost.
	 */
	void (*fence)(void *arg, uint32_t rail, uint32_t epoch);
	/*
	 * Makes the rail's link, and asks the peer for its end, which is answered by one
	 * sched_connected() with the same epoch. Then the caller tries the link without data, and
	 * says by sched_probed() whether that arrived. 0, or -errno: there is no link.
	 */
	int (*open)(void *arg, uint32_t rail, uint32_t epoch);
	/* Destroys the rail's link. Later answers for its epoch have no effect. */
	void (*close)(void *arg, uint32_t rail);
	/* The request has ended: nothing of it is read or written any more. */
	void (*done)(void *arg, uint64_t user, int status);
	/*
	 * The mark has ended, and is under way no more: 0, it has arrived; or what its rail said
	 * last, and -ENOTCONN if it said nothing. Comes from within sched_completed() and
	 * sched_fenced(); it may submit nothing.
	 */
	void (*marked)(void *arg, uint64_t user, uint32_t position, int status);
};

struct sched_rail_attr {
	double rate; /* bytes per ns, of the link; what is measured replaces it */
	uint64_t latency_ns; /* of an empty message and its completion; 0: 5 us */
	uint32_t depth; /* most slices posted at a time; 0: 256 */
	uint32_t group; /* which rails share a link, or SCHED_NO_GROUP */
};

struct sched_attr {
	const struct tent_config *config; /* copied */
	const struct sched_rail_attr *rails;
	uint32_t n_rails;
	/* Tier of each rail for each location of memory: tiers[location * n_rails + rail]. */
	const uint8_t *tiers;
	uint32_t n_locations;
	const double *group_rates; /* bytes per ns of each shared link; 0: not known */
	uint32_t n_groups;
	uint32_t max_requests; /* 0: 64 */
	uint32_t max_slices; /* bound to rails at a time, all requests; 0: 4096 */
	uint64_t stall_min_ns; /* a rail may be silent for so long; 0: 2 ms, at most 45 ms;
				  SCHED_NEVER: for as long as it likes */
	uint64_t probe_timeout_ns; /* until an open, its probe included, is given up; 0: 2 ms */
	uint64_t
		first_open_ns; /* the same for a rail's first one: rails begin closed, and are opened
				   by the first sched_run(). 0: rails are in use from the start */
	uint64_t
		no_rail_ns; /* how long requests wait for a rail when none is left; 0: not at all */
	uint64_t seed;
	const struct rail_ops *ops;
	void *arg;
};

struct sched_request {
	uint64_t length;
	uint64_t user;
	const uint64_t *cuts; /* see plan.h; valid until rail_ops.done */
	uint32_t n_cuts;
	uint32_t location;
	uint32_t priority; /* 0 goes first; below the configuration's number of them */
	bool write;
};

enum sched_rail_state {
	RAIL_NONE, /* of the table: no transition */
	RAIL_UP,
	RAIL_FENCING, /* the peer closes its end, what is posted waits for that */
	RAIL_DOWN, /* no link; the next one is due at some time */
	RAIL_CONNECTING, /* our end waits for the peer's */
	RAIL_PROBING, /* a message without data is under way */
	RAIL_HALF, /* on trial */
	RAIL_STATES,
};

struct sched_rail_stats {
	enum sched_rail_state state;
	uint64_t inflight; /* bytes charged */
	uint64_t bytes, slices; /* completed */
	uint64_t exclusions;
	double rate; /* bytes per ns, estimated */
};

struct sched_stats {
	uint64_t requests, failed_requests;
	uint64_t slices; /* posted, resent ones included */
	uint64_t resent, resent_bytes;
	uint64_t stale; /* completions of slices and marks that had gone elsewhere */
	uint64_t remote_bytes; /* completed on rails that are not of the request's best tier */
};

/* 0, -EINVAL (an attribute out of range), -ENOMEM. */
int sched_create(const struct sched_attr *attr, struct sched **s_p);
void sched_destroy(struct sched *s);

/*
 * 0: rail_ops.done will be called once, from sched_run(). -EINVAL: length 0 or over
 * PLAN_LENGTH_MAX, cuts out of order, no such location or priority; -EMSGSIZE: more slices than
 * max_slices; -EAGAIN: too many requests or slices, try again when one has ended;
 * -ENETUNREACH: no rail is up that this request may use, for as long as it would wait.
 */
int sched_submit(struct sched *s, uint64_t now, const struct sched_request *req);

/* 0, or -ENETUNREACH: as sched_submit() of a request of this location. */
int sched_check(const struct sched *s, uint64_t now, uint32_t location);

/* No rail will come back: requests do not wait for one any more. */
void sched_give_up(struct sched *s);

/*
 * Ends the open request of this user with this status: rail_ops.done is called when what is
 * posted has ended; nothing more is. Without effect if there is none.
 */
void sched_cancel(struct sched *s, uint64_t user, int status);

/*
 * Posts a mark on a rail. 0: rail_ops.marked will be called once. -EAGAIN: the rail, or the
 * ledger, has no room now; -ENOTCONN: the rail is not in use, or has failed by this.
 */
int sched_mark(struct sched *s, uint64_t now, uint32_t rail, uint64_t user, uint32_t position);

/*
 * A slice or a mark has ended, with 0 or an -errno. An error excludes the rail. -ECANCELED: it
 * was flushed because something else has failed. Returns 0, or SCHED_MARK if it was a mark;
 * -ESTALE: the token is of nothing that is under way; ignored and counted.
 */
int sched_completed(struct sched *s, uint64_t now, uint64_t token, int status);

/*
 * A slice has ended with an -errno that is not the rail's fault: its request fails, and the rail
 * goes on. Returns 0 or -ESTALE, as above.
 */
int sched_refused(struct sched *s, uint64_t now, uint64_t token, int status);

/* The rail's port has gone down or its device is dead. */
void sched_rail_down(struct sched *s, uint64_t now, uint32_t rail);
/* The port is back: the rail is opened at once. */
void sched_rail_up(struct sched *s, uint64_t now, uint32_t rail);

/*
 * Answers to the ops; one of another epoch, or that the rail does not wait for, has no effect. A
 * fence that failed (status not 0) ends the requests that have slices on the rail with that
 * status, because they can go nowhere else.
 */
void sched_fenced(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);
void sched_connected(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);
void sched_probed(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);

/* The state of a rail, and the epoch of what it waits for in that state. */
enum sched_rail_state sched_rail_state(const struct sched *s, uint32_t rail);
uint32_t sched_rail_epoch(const struct sched *s, uint32_t rail);
/* UP or HALF: slices and marks may be posted on it. */
bool sched_rail_in_use(const struct sched *s, uint32_t rail);

/* Does what is due; returns when to call again at the latest, or SCHED_NEVER. */
uint64_t sched_run(struct sched *s, uint64_t now);

/* No request is open, no mark under way. Asserts that no rail is charged with anything then. */
bool sched_idle(const struct sched *s);

void sched_rail_stats(const struct sched *s, uint32_t rail, struct sched_rail_stats *stats_p);
void sched_stats(const struct sched *s, struct sched_stats *stats_p);

#endif
