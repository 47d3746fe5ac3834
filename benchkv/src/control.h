/* SPDX-License-Identifier: MIT */
/*
 * Control of batching: how long a daemon gathers before it goes on, and which endpoints
 * it flushes. One object, observations in, decisions out; it knows no clock, no network
 * and no thread, so that a simulator can run the same code.
 *
 *	none		one poll per loop, every endpoint is flushed in every loop
 *	budget:N	up to N polls in a row, until N responses have come
 *	threshold:T,N	up to N polls in a row, until one brings T messages or more
 *	adaptive-budget	up to u + 1 polls in a row, until one brings a message; u follows
 *			the load, see adaptive.h
 *	hold:US		replies to local clients wait for each other, at most that long, see hold.h
 *	adaptive-hold	the same; the time follows the arrivals
 *	auto[:K,B]	at most K WRITEs with calls in them that the peers have not consumed
 *			yet, over all endpoints: when the NIC is behind, calls are kept and
 *			leave together. The waiting endpoint with the largest sum
 *			of calls and age in units of 20 us goes first. An endpoint with
 *			replies goes at once, and its calls with it. One with B or more calls,
 *			or one that has waited for B units and 2 us for each endpoint, goes
 *			regardless; so the window is exceeded by at most one WRITE every 2 us,
 *			less than a NIC sends.
 *	little		batching is switched on and off by the average latency, see little.h. While
 *			it is on, calls to a rank wait until those sent there before are
 *			consumed; B or more calls go regardless, and calls beside replies at once
 *
 * The acknowledgement of `auto` and `little` is the peer's consumer position, which every batch of
 * copyrpc carries: it says that the peer's daemon has worked on the calls, wherever in
 * between they had queued. It cannot dead-lock: replies never wait, each WRITE with calls
 * brings replies, and an endpoint whose calls are all answered counts as caught up.
 */
#ifndef BENCHKV_CONTROL_H
#define BENCHKV_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptive.h"
#include "base/compiler.h"
#include "hold.h"
#include "little.h"
#include "note.h"

#define CONTROL_NAME_MAX 40

enum control_kind {
	CONTROL_AUTO,
	CONTROL_NONE,
	CONTROL_BUDGET,
	CONTROL_THRESHOLD,
	CONTROL_ADAPTIVE,
	CONTROL_HOLD,
	CONTROL_ADAPTIVE_HOLD,
	CONTROL_LITTLE,
};

struct control_spec {
	enum control_kind kind;
	uint32_t n; /* most polls of budget and threshold */
	uint32_t threshold; /* T */
	uint32_t hold_us;
	uint32_t window, full; /* K of auto, B of auto and little; 0: the defaults */
	bool derive; /* auto without numbers: take them from what the machine needs, if known */
};

/* 0, or -EINVAL: not one of the above. */
int control_parse(const char *text, struct control_spec *spec_p);
/*
 * K and B of auto from what a machine needs: for the round trip of a lone call, for a WRITE, and of
 * CPU time for a message, in any unit. K = 1.15 round trips in WRITEs, 2 to 12; B = the messages
 * of a WRITE's time, at least 8.
 */
void control_derive(struct control_spec *spec, double round_trip, double write, double message);

/* The figures from which K and B of auto were derived. */
struct control_origin {
	const char *source; /* in words */
	double round_trip_ns, write_ns, message_ns; /* 0: nothing was known */
	double under_way; /* calls that a context can have, see control_share() */
};

/* Why K and B are what they are, in a line without commas. */
void control_explain(const struct control_spec *spec, const struct control_origin *origin,
	char *text, size_t size);

/*
 * auto without numbers: a context that can have few calls under way fills fewer WRITEs. K is at
 * most 1.5 times the square root of their number, but not less than 5 for that.
 */
void control_share(struct control_spec *spec, double under_way);

/* The text with every number in it. */
void control_name(const struct control_spec *spec, char name[CONTROL_NAME_MAX]);

#define CONTROL_POSTED 64

/* Positions after the WRITEs of an endpoint that have calls in them, a ring. */
struct control_ends {
	uint64_t end[CONTROL_POSTED];
};

/* The state of each endpoint that every selection reads, in one place. */
struct control_posted {
	uint16_t head, count; /* of its ends */
	bool open; /* in the list of those with ends; stays there until it is looked at */
	uint64_t oldest; /* the first of its ends */
	uint64_t since_ns; /* when calls had to wait here first; 0: none waits */
};

struct control {
	struct control_spec spec;
	struct control_posted *ep;
	struct control_ends *ends; /* by endpoint */
	uint32_t *open, n_open; /* endpoints that may have ends */
	uint32_t endpoints;
	uint32_t unconsumed; /* WRITEs with calls that the peers have not consumed */
	uint64_t waits; /* selections in which an endpoint had to wait */
	struct decisions *log; /* NULL: nobody asks for the reasons */
	struct adaptive adaptive;
	struct hold hold;
	struct little little;
};

/* An endpoint that has something to send. */
struct control_load {
	uint32_t ep; /* 0 .. endpoints - 1 */
	uint32_t calls, replies; /* gathered */
};

/*
 * The position up to which the peer is taken to have consumed WRITEs. With no call under way it has
 * consumed all calls, even if nothing has come back that says so: a batch of replies behind them is
 * acknowledged only when the peer has something to send.
 */
static inline uint64_t control_consumed(uint32_t under_way, uint64_t posted, uint64_t consumed)
{
	return under_way ? consumed : posted;
}

/* The position up to which the peer of an endpoint has consumed WRITEs, see control_consumed(). */
typedef uint64_t control_consumed_fn(void *arg, uint32_t ep);
/* The time in ns since any moment. Asked at most once in a selection. */
typedef uint64_t control_now_fn(void *arg);

int control_init(struct control *c, const struct control_spec *spec, uint32_t endpoints);
void control_fini(struct control *c);

/* The results of the polls of this loop so far. */
struct control_polls {
	uint32_t polls;
	uint32_t responses; /* of all of them */
	uint32_t messages; /* responses and requests, of all of them */
	uint32_t cqes; /* completions of all of them; for those that observe only */
	uint32_t last; /* messages of the last one */
};

/* Poll again before going on? */
static inline bool control_poll_again(const struct control *c, const struct control_polls *p)
{
	switch (c->spec.kind) {
	case CONTROL_BUDGET:
		return p->polls < c->spec.n && p->responses < c->spec.n;
	case CONTROL_THRESHOLD:
		return p->polls < c->spec.n && p->last < c->spec.threshold;
	case CONTROL_ADAPTIVE:
		return adaptive_poll_again(&c->adaptive, p->polls, p->cqes);
	default:
		return false;
	}
}

/* Does it want to know of completions, and how long loops and round trips take? */
static inline bool control_observes(const struct control *c)
{
	return c->spec.kind == CONTROL_ADAPTIVE;
}

/* The end of a loop, for those that do. */
static inline void control_loop_end(struct control *c, const struct adaptive_loop *seen)
{
	uint32_t u = c->adaptive.u;

	c->adaptive.why = ADAPTIVE_LEFT;
	adaptive_step(&c->adaptive, seen);
	if (unlikely(c->log) && c->adaptive.why != ADAPTIVE_LEFT)
		note_budget(c, u);
}

/* Are replies to local clients held? Then hold_arrived() and hold_release() decide. */
static inline bool control_holds(const struct control *c)
{
	return c->spec.kind == CONTROL_HOLD || c->spec.kind == CONTROL_ADAPTIVE_HOLD;
}

/* Does control_select() ever leave an endpoint out? */
static inline bool control_selects(const struct control *c)
{
	return c->spec.kind == CONTROL_AUTO || c->spec.kind == CONTROL_LITTLE;
}

/*
 * Does it count requests? Then it is told with control_count() after each loop, and its word travels
 * with each request.
 */
static inline bool control_counts(const struct control *c)
{
	return c->spec.kind == CONTROL_LITTLE;
}

/* After a loop: what time it is, how many requests are under way, how many have ended in it. */
static inline void control_count(struct control *c, uint64_t now_ns, uint32_t under_way,
	uint32_t ended)
{
	uint64_t epochs = c->little.n_epochs;

	little_count(&c->little, now_ns, under_way, ended);
	if (unlikely(c->log) && c->little.n_epochs != epochs)
		note_batching(c);
}

/* The reserved word of the next request to a rank, and that of one that says it is of this rank. */
static inline uint32_t control_word(struct control *c, uint32_t ep)
{
	return control_counts(c) ? little_word(&c->little, ep) : 0;
}

static inline void control_heard(struct control *c, uint32_t ep, uint32_t word)
{
	if (control_counts(c) && ep < c->endpoints)
		little_heard(&c->little, ep, word);
}

/* Sorts the endpoints to flush now to the front of the n loads, and returns their number. */
size_t control_select(struct control *c, struct control_load *loads, size_t n,
	control_consumed_fn *consumed, control_now_fn *now, void *arg);

/* Brings c->unconsumed up to date; control_select() does so only when it matters to it. */
void control_refresh(struct control *c, control_consumed_fn *consumed, void *arg);

/* An endpoint that control_select() selected was flushed, and its WRITEs end at this position. */
void control_sent(struct control *c, const struct control_load *load, uint64_t end);

/* The endpoint has failed: nothing of it will be consumed any more. */
void control_failed(struct control *c, uint32_t ep);

#endif
