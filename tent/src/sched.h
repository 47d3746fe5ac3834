/* SPDX-License-Identifier: MIT */
/*
 * Scheduler core: gives the slices of requests to rails. It has no clock, no threads and
 * no random state except its seed. Time is an argument in nanoseconds that never goes back,
 * and rails are used through struct rail_ops. The same calls result in the same decisions.
 * The core allocates in sched_create() and sched_add_locations() only.
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
 * The caller must report all available completions before it calls sched_run(). Otherwise a rail
 * may seem to have stalled although only the caller was late.
 *
 * No slice arrives after its request has ended, because the slices that a failed rail has not
 * completed go to other rails only after sched_fenced(), which the caller must call when the peer
 * has confirmed that nothing more can arrive on the failed rail. Only a failed fence is an
 * exception.
 *
 * A mark is a message with no bytes of a request that follows the slices of a request. Marks tell the receiver
 * that all bytes are in place, see notice.h. The caller chooses the rail of a mark. Marks are in
 * the rail's list of posted slices, so the deadline of a silent rail applies to marks too, and
 * rail_ops.marked reports the end of each mark exactly once.
 *
 * The diagram shows the states of a rail. A rail of this file is a pair of a local and a remote
 * rail in engine.h (struct pair), which keeps no second state for it. A link exists in all states except DOWN: rail_ops.open makes it and
 * rail_ops.close destroys it.
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
 * UP ends with an error, with a reported loss of the rail, or when a deadline passes without
 * progress (silence). The deadline is computed from the measured rate. Each end of UP is one
 * exclusion. CONNECTING and PROBING end in DOWN after an error, at their time limit, and when the
 * caller reports that the port is up, because the open then begins anew. In HALF the rail carries
 * one slice or mark at a time until one has arrived. Failures in the states from FENCING to HALF
 * belong to the same outage. The table of transitions is in health.c; no other file changes a
 * state.
 *
 * Only one thread may use a scheduler at a time.
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
#define SCHED_NO_RAIL UINT32_MAX
#define SCHED_NEVER UINT64_MAX
#define SCHED_MARK 1 /* result of sched_completed() for a mark */
#define SCHED_STALL_MAX_NS 45000000ull /* a stalled rail is detected within this time */

struct rail;
struct sched;

struct sched_slice {
	uint64_t token; /* for sched_completed() */
	uint64_t user; /* of the request, or of the mark */
	uint64_t offset, length; /* within the request */
	bool again; /* a rail that had the slice has failed */
	bool alone; /* the request wakes only one rail; see sched_attr.wake_ns */
	bool mark; /* length is 0 */
	uint32_t position; /* of a mark, from sched_mark() */
};

/* Callbacks. The core calls them from within its own functions. */
struct rail_ops {
	/*
	 * Starts a slice or a mark. 0; -EAGAIN: the rail's queue is full: the core tries a slice
	 * again after the rail's next completion, and sched_mark() returns -EAGAIN; another -errno:
	 * the rail has failed, nothing was started.
	 */
	int (*post)(void *arg, uint32_t rail, const struct sched_slice *slice);
	/*
	 * Must begin a fence, after which nothing posted on the rail can arrive any more: the peer
	 * closes its end of the link. The caller must call sched_fenced() once with the same epoch,
	 * with an error if the peer is lost.
	 */
	void (*fence)(void *arg, uint32_t rail, uint32_t epoch);
	/*
	 * Makes the rail's link, and requests the other end from the peer. The caller must call
	 * sched_connected() once with the same epoch, then send a message without data over the
	 * link, and call sched_probed() with the result. 0, or -errno: there is no link.
	 */
	int (*open)(void *arg, uint32_t rail, uint32_t epoch);
	/* Destroys the rail's link. Later replies for its epoch have no effect. */
	void (*close)(void *arg, uint32_t rail);
	/* The request has ended: its memory is not read or written any more, unless a fence failed. */
	void (*done)(void *arg, uint64_t user, int status);
	/*
	 * The mark has ended. @status is 0 if the mark has arrived, else its last error, or
	 * -ENOTCONN if there was no error. The core calls this from sched_completed() and
	 * sched_fenced(). The callback must not call sched_submit(); it may call sched_mark().
	 */
	void (*marked)(void *arg, uint64_t user, uint32_t position, int status);
};

struct sched_rail_attr {
	double rate; /* initial estimate: bytes per ns of the link */
	uint64_t latency_ns; /* of an empty message and its completion; 0: 5 us */
	uint32_t depth; /* maximum number of slices posted at a time; 0: 256 */
	uint32_t group; /* index in group_rates: of the link that rails share; or SCHED_NO_GROUP */
	uint64_t stall_min_ns; /* the shortest silence that excludes the rail, at most
				  SCHED_STALL_MAX_NS. 0: 2 ms; SCHED_NEVER: silence never excludes
				  the rail */
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
	/*
	 * Used in mode pull (TENT_PULL of config.h): the time to wake the thread that serves an idle
	 * rail, and the maximum number of such threads that work at the same time. A request wakes
	 * only as many threads as get work for at least wake_ns each. wake_ns 0: idle rails need no
	 * waking.
	 */
	uint64_t wake_ns;
	uint32_t most_awake;
	uint32_t max_requests; /* maximum number of open requests; 0: 64 */
	uint32_t max_slices; /* maximum number of slices and marks that have not ended; 0: 4096 */
	uint64_t probe_timeout_ns; /* time limit of an open, including its probe; 0: 2 ms */
	uint64_t first_open_ns; /* the same for a rail's opens until one has succeeded: rails begin
				  closed, and the first sched_run() opens them. 0: rails begin in
				  use */
	uint64_t no_rail_ns; /* how long requests wait for a rail when none is up; 0: not at all */
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
	uint32_t priority; /* 0: the most urgent class; less than `priorities` of the
			      configuration */
	bool write;
};

enum sched_rail_state {
	RAIL_NONE, /* no state: an entry without a transition in the table of health.c */
	RAIL_UP,
	RAIL_FENCING, /* the peer closes its end; the posted slices wait for that */
	RAIL_DOWN, /* no link; the next open is due at some time */
	RAIL_CONNECTING, /* our end waits for the peer's end */
	RAIL_PROBING, /* a message without data is under way */
	RAIL_HALF, /* on trial: one slice or mark may be under way */
	RAIL_STATES,
};

struct sched_rail_stats {
	enum sched_rail_state state;
	uint64_t inflight; /* bytes of slices that the rail was given and that have not ended */
	uint64_t bytes, slices; /* completed */
	uint64_t exclusions;
	double rate; /* bytes per ns, estimated */
};

struct sched_stats {
	uint64_t requests, failed_requests;
	uint64_t slices; /* posted, resent ones included */
	uint64_t resent;
	uint64_t stale; /* completions of slices and marks that were not under way any more, because
			   their rail had been fenced */
	uint64_t remote_bytes; /* completed on rails that are not in the best tier of the request's
				  location */
};

/* 0, -EINVAL (an attribute out of range), -ENOMEM. */
int sched_create(const struct sched_attr *attr, struct sched **s_p);
void sched_destroy(struct sched *s);
/*
 * Adds @n locations after the present ones. tiers[i * n_rails + rail] is for the new location
 * number i, from 0. Returns 0; -EINVAL: there would be too many; -ENOMEM.
 */
int sched_add_locations(struct sched *s, const uint8_t *tiers, uint32_t n);

/*
 * Submits a request. 0: sched_run() will call rail_ops.done once for it. Errors:
 *
 *	-EINVAL		length 0 or above PLAN_LENGTH_MAX, cuts out of order, no such location or
 *			priority
 *	-EMSGSIZE	more slices than max_slices
 *	-EAGAIN		too many requests or slices, try again when one has ended
 *	-ENETUNREACH	no rail that the request may use has been up in the last no_rail_ns
 */
int sched_submit(struct sched *s, uint64_t now, const struct sched_request *req);

/*
 * In mode pull, returns a rail of the best tier on which the caller may move a request of this
 * location by itself, without sched_submit(): no request waits, and nothing is posted on the rail.
 * SCHED_NO_RAIL: there is no such rail.
 */
uint32_t sched_idle_rail(const struct sched *s, uint32_t location);

/* A request that the caller has moved, and the time of the move. */
struct sched_moved {
	uint64_t from, to;
	uint64_t length, user;
	uint32_t rail, location, priority;
};

void sched_moved(struct sched *s, const struct sched_moved *m);

/* Returns 0 or -ENETUNREACH, as sched_submit() would for a request of this location. */
int sched_check(const struct sched *s, uint64_t now, uint32_t location);

/* The caller knows that no rail will come back: requests do not wait for a rail any more. */
void sched_give_up(struct sched *s);

/*
 * Ends the open request whose field user is @user, with @status. No more of its slices are posted,
 * and rail_ops.done is called when the posted slices have ended. No effect if there is no such
 * request.
 */
void sched_cancel(struct sched *s, uint64_t user, int status);

/*
 * Posts a mark on a rail. 0: rail_ops.marked will be called once. -EAGAIN: the rail has no room
 * now, or slices and marks use all entries (max_slices); -ENOTCONN: the rail is not in use, or the
 * post has failed.
 */
int sched_mark(struct sched *s, uint64_t now, uint32_t rail, uint64_t user, uint32_t position);

/*
 * A slice or a mark has ended, with 0 or an -errno. An error excludes the rail. -ECANCELED: it was
 * flushed because another slice or mark, or the rail, has failed. Returns 0 for a slice, SCHED_MARK
 * for a mark, and -ESTALE if nothing with this token is under way; then the completion is only
 * counted.
 */
int sched_completed(struct sched *s, uint64_t now, uint64_t token, int status);

/*
 * A slice has ended with an -errno that the rail has not caused: the slice's request fails, and the
 * rail stays in use. With the token of a mark, which has no request, does the same as
 * sched_completed(). Returns the same as that function.
 */
int sched_refused(struct sched *s, uint64_t now, uint64_t token, int status);

/* The rail's port has gone down or its device is dead. */
void sched_rail_down(struct sched *s, uint64_t now, uint32_t rail);
/* The port is up again: sched_run() opens the rail if it is not in use, when it is fenced. */
void sched_rail_up(struct sched *s, uint64_t now, uint32_t rail);

/*
 * Replies to the callbacks fence and open. A reply with another epoch, or in another state of the
 * rail, has no effect. If a fence failed (@status is not 0), the requests that have slices on the
 * rail end with that status, because their slices must not go to another rail.
 */
void sched_fenced(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);
void sched_connected(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);
void sched_probed(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status);

/* True: all rails are UP. */
bool sched_all_up(const struct sched *s);
/* The state of a rail, and the epoch of its last fence or open. */
enum sched_rail_state sched_rail_state(const struct sched *s, uint32_t rail);
uint32_t sched_rail_epoch(const struct sched *s, uint32_t rail);
/* UP or HALF: slices and marks may be posted on it. */
bool sched_rail_in_use(const struct sched *s, uint32_t rail);

/* Does all work that is due. Returns when it must be called again at the latest, or SCHED_NEVER. */
uint64_t sched_run(struct sched *s, uint64_t now);

/*
 * True: no request is open, and no mark is under way. Asserts that no rail is charged with bytes
 * if this is true.
 */
bool sched_idle(const struct sched *s);

/* The rail itself, for records of base/live.h. */
const struct rail *sched_rail(const struct sched *s, uint32_t rail);
void sched_rail_stats(const struct sched *s, uint32_t rail, struct sched_rail_stats *stats_p);
void sched_stats(const struct sched *s, struct sched_stats *stats_p);

#endif
