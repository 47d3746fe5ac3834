/* SPDX-License-Identifier: MIT */
/*
 * Control of batching. A daemon runs a loop: it polls for messages, processes them, and flushes its
 * endpoints, each of which leads to another rank. To flush an endpoint is to post in WRITEs the
 * messages that were gathered there. The control decides how long the daemon gathers messages
 * before it flushes, and which endpoints it flushes. The control gets observations and returns
 * decisions. It uses no clock, no network and no thread, so that a simulator can run the same code.
 *
 *	none		one poll per loop, every endpoint is flushed in every loop
 *	budget:N	up to N polls in a row, until N responses have come
 *	threshold:T,N	up to N polls in a row, until one brings T messages or more
 *	adaptive-budget	up to u + 1 polls in a row, until one finds a completion; u follows
 *			the load, see adaptive.h
 *	hold:US		replies to local clients are held back, at most US microseconds, and
 *			sent together, see hold.h
 *	adaptive-hold	the same; the time is computed from the arrivals
 *	auto[:K,B]	at most K WRITEs, of all endpoints together, contain calls that the peers
 *			have not consumed yet (the window). When the window is full, for example
 *			because the NIC is slow, calls are gathered, and are sent together later.
 *			The waiting endpoint with the highest score is flushed first: its number
 *			of calls + its time of waiting / 20 us. An endpoint is flushed even if
 *			the window is full
 *			- immediately, with its calls, if it has replies;
 *			- if it has B or more calls;
 *			- if it has waited for B * 20 us + 2 us * number of endpoints. This time
 *			  limit adds at most one WRITE every 2 us, which is less than a NIC can
 *			  send.
 *			A loop serves a limited number of calls of other ranks, and leaves the
 *			rest to the next loop, which serves at least that rest. The limit is two
 *			thirds of the calls that an average daemon can have under way itself, or
 *			32 if that is more. For a daemon with at least twice the average number of
 *			endpoints it is two thirds of the calls that this daemon can have under
 *			way. Without the limit, daemons that call only each other take turns: one
 *			has all messages and works, and the others wait.
 *	little		batching is switched on and off according to the average latency, see
 *			little.h. When it is on, calls to a rank wait until the earlier calls to
 *			that rank are consumed. B or more calls are sent in any case, and calls
 *			together with replies are sent immediately
 *
 * `auto` and `little` use the peer's consumer position as the acknowledgement of calls. Every batch
 * of copyrpc carries that position. It shows that the peer's daemon has processed the calls, so the
 * delay of an acknowledgement includes all queues on the path. `auto` and `little` cannot
 * dead-lock: replies to other ranks never wait, each WRITE with calls causes replies, and an
 * endpoint without calls under way counts as fully consumed.
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

#define CONTROL_NUMBER_MAX 65536 /* largest number in the text of a control; the least is 1 */
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
	uint32_t n; /* maximum number of polls of budget and threshold */
	uint32_t threshold; /* T */
	uint32_t hold_us;
	uint32_t window, full; /* K of auto, B of auto and little */
	bool derive; /* auto without numbers: derive them from the machine's times, if known */
	uint32_t filling; /* least K that keeps the NIC busy; 0: not derived */
};

/* Returns 0, or -EINVAL: @text is not one of the controls at the top of this file. */
int control_parse(const char *text, struct control_spec *spec_p);

/* A machine's times. 0: not known. */
struct control_times {
	double round_trip_ns; /* of a single call, including both daemons' polls */
	double write_ns; /* per WRITE of one message, in a sequence of WRITEs */
	double message_ns; /* CPU time per message of a large batch, without a daemon's work */
};

/*
 * Derives K and B of auto: K = 1.15 * round trip / write, limited to 2 to 12, or 0.5 * round trip /
 * write if that is more, at most 128; B = write / message, at least 8.
 */
void control_derive(struct control_spec *spec, const struct control_times *times);

/* The figures from which K and B of auto were derived. */
struct control_origin {
	const char *source; /* in words */
	struct control_times times;
	double under_way; /* the argument of control_share() */
};

/* Explains the values of K and B in a line without commas, as a field of a CSV file needs it. */
void control_explain(const struct control_spec *spec, const struct control_origin *origin,
	char *text, size_t size);

/*
 * For auto without numbers: limits K to 1.5 times the square root of @under_way, the maximum number
 * of calls that a copyrpc context can have under way, but not to less than 5 or half a round trip /
 * write. If the calls are few, a larger window would divide them among too many WRITEs.
 */
void control_share(struct control_spec *spec, double under_way);

/* Writes the name of the control with all its numbers, as control_parse() accepts it. */
void control_name(const struct control_spec *spec, char name[CONTROL_NAME_MAX]);

#define CONTROL_POSTED 128

/* A ring: the end positions of an endpoint's unconsumed WRITEs that contain calls. */
struct control_ends {
	uint64_t end[CONTROL_POSTED];
};

/* The part of an endpoint's state that every selection reads, in an array without the rings. */
struct control_posted {
	uint16_t head, count; /* of the endpoint's ring of ends */
	bool open; /* it is in control.open; control_refresh() removes it if it has no ends */
	uint64_t oldest; /* the first of the endpoint's ends */
	uint64_t since_ns; /* since when calls wait at this endpoint; 0: none waits */
};

struct control {
	struct control_spec spec;
	struct control_posted *ep;
	struct control_ends *ends; /* by endpoint */
	uint32_t *open, n_open; /* endpoints that may have ends */
	uint32_t endpoints;
	uint32_t serves; /* maximum number of calls of other ranks that a loop serves */
	uint32_t unconsumed; /* WRITEs with calls that the peers have not consumed */
	uint64_t waits; /* selections in which an endpoint had to wait */
	struct decisions *log; /* NULL: decisions are not recorded */
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
 * Returns the position up to which the control regards WRITEs as consumed by the peer. If no call
 * is under way, the peer has consumed all calls, and the position is @posted, the end of all
 * WRITEs. @consumed, the position that the peer has acknowledged, may be lower then: the peer
 * acknowledges a batch of replies that follows the calls only when it has a message to send.
 */
static inline uint64_t control_consumed(uint32_t under_way, uint64_t posted, uint64_t consumed)
{
	return under_way ? consumed : posted;
}

/* The position up to which the peer of an endpoint has consumed WRITEs, see control_consumed(). */
typedef uint64_t control_consumed_fn(void *arg, uint32_t ep);
/* The time in ns since any fixed moment. Called at most once per selection. */
typedef uint64_t control_now_fn(void *arg);

int control_init(struct control *c, const struct control_spec *spec, uint32_t endpoints);

/*
 * Limits the calls that a loop of auto serves, see the top of this file. The clients of the rank
 * can have @requests in flight. @daemons daemons share the endpoints for @others ranks; this daemon
 * has @own of the endpoints.
 */
void control_limit(struct control *c, double requests, uint32_t daemons, uint32_t own,
	uint32_t others);
void control_fini(struct control *c);

/* The results of the polls of this loop so far. */
struct control_polls {
	uint32_t polls;
	uint32_t responses; /* of all polls */
	uint32_t messages; /* responses and requests of all polls */
	uint32_t cqes; /* completions of all polls; only if control_observes() */
	uint32_t last; /* messages of the last poll */
};

/* True: the daemon must poll again before it goes on. */
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

/*
 * The number of calls of other ranks that a loop may serve, in the order of their arrival. @left:
 * the number of calls that the previous loop has left; these never wait again.
 */
static inline uint32_t control_serves(const struct control *c, uint32_t left)
{
	return left > c->serves ? left : c->serves;
}

/* True: the control needs completions, and the times of loops and round trips. */
static inline bool control_observes(const struct control *c)
{
	return c->spec.kind == CONTROL_ADAPTIVE;
}

/* Must be called at the end of each loop if control_observes(). */
static inline void control_loop_end(struct control *c, const struct adaptive_loop *seen)
{
	uint32_t u = c->adaptive.u;

	c->adaptive.why = BECAUSE_UNCHANGED;
	adaptive_step(&c->adaptive, seen);
	if (unlikely(c->log) && c->adaptive.why != BECAUSE_UNCHANGED)
		note_budget(c, u);
}

/* True: replies to local clients are held; hold_arrived() and hold_release() decide how long. */
static inline bool control_holds(const struct control *c)
{
	return c->spec.kind == CONTROL_HOLD || c->spec.kind == CONTROL_ADAPTIVE_HOLD;
}

/* True: the control selects endpoints; otherwise all of them are flushed. */
static inline bool control_selects(const struct control *c)
{
	return c->spec.kind == CONTROL_AUTO || c->spec.kind == CONTROL_LITTLE;
}

/*
 * True: the control counts requests. Then control_count() must be called after each loop, and each
 * request must carry the value of control_word().
 */
static inline bool control_counts(const struct control *c)
{
	return c->spec.kind == CONTROL_LITTLE;
}

/* @under_way: requests under way now; @ended: requests that have ended in the loop. */
static inline void control_count(struct control *c, uint64_t now_ns, uint32_t under_way,
	uint32_t ended)
{
	uint64_t epochs = c->little.n_epochs;

	little_count(&c->little, now_ns, under_way, ended);
	if (unlikely(c->log) && c->little.n_epochs != epochs)
		note_batching(c);
}

/*
 * control_word() returns the word that the next request to a rank must carry. control_heard()
 * handles the word of a request from that rank.
 */
static inline uint32_t control_word(struct control *c, uint32_t ep)
{
	return control_counts(c) ? little_word(&c->little, ep) : 0;
}

static inline void control_heard(struct control *c, uint32_t ep, uint32_t word)
{
	if (control_counts(c) && ep < c->endpoints)
		little_heard(&c->little, ep, word);
}

/* Moves the endpoints that must be flushed now to the front of @loads. Returns their number. */
size_t control_select(struct control *c, struct control_load *loads, size_t n,
	control_consumed_fn *consumed, control_now_fn *now, void *arg);

/* Updates c->unconsumed; control_select() updates it only when it needs the value. */
void control_refresh(struct control *c, control_consumed_fn *consumed, void *arg);

/* Must be called when a selected endpoint was flushed. @end: the end position of its WRITEs. */
void control_sent(struct control *c, const struct control_load *load, uint64_t end);

/* The endpoint has failed: its peer will consume nothing more. */
void control_failed(struct control *c, uint32_t ep);

#endif
