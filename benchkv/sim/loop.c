/* SPDX-License-Identifier: MIT */
/* A daemon's loop, and the clients that it serves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "job.h"

static double draw_unit(uint64_t *random)
{
	return (double)(draw(random) >> 11) * 0x1p-53;
}

static bool counting(const struct sim *s, uint64_t ns)
{
	return ns >= s->c->warmup_ns;
}

/*
 * A copy of the state that each message changes, so that it stays in registers while messages are
 * handled.
 */
struct work {
	uint64_t now, random;
	struct inflight inflight;
};

static inline struct work work_begin(const struct daemon *d)
{
	return (struct work){d->now, d->rank->random, d->rank->inflight};
}

static inline void work_end(struct daemon *d, const struct work *w)
{
	d->now = w->now;
	d->rank->random = w->random;
	d->rank->inflight = w->inflight;
}

/* ---- clients ---- */

/* The client of a slot makes its next request as soon as it can, but not before ns. */
ALWAYS_INLINE void make_request(struct rank *r, struct work *w, uint32_t slot, uint64_t ns)
{
	const struct sim *s = r->sim;
	uint64_t *free_at = &r->client_free[sim_client(s, slot)];
	uint32_t dest = draw_below(&w->random, s->c->ranks);
	uint64_t start = (*free_at > ns ? *free_at : ns) + s->costs.client;

	*free_at = r->start[slot] = start;
	if (calendar_put(&rank_taker(r, dest, slot)->requests, slot, dest,
		    start + s->costs.visible))
		r->part->error = -ENOMEM;
}

/* Keeps a reply that a client has seen. After client_waits replies the client makes as many new
 * requests. */
static void wait_for_more(struct rank *r, struct work *w, uint32_t slot, uint64_t ns)
{
	const struct sim *s = r->sim;
	uint32_t client = sim_client(s, slot), *n = &r->n_seen[client];
	uint32_t *seen = &r->seen[client * s->c->depth];

	if (r->client_free[client] < ns)
		r->client_free[client] = ns;
	seen[(*n)++] = slot;
	if (*n < s->c->client_waits)
		return;
	for (uint32_t i = 0; i < *n; i++)
		make_request(r, w, seen[i], ns);
	*n = 0;
}

/* The daemon replies to the client of the slot. */
ALWAYS_INLINE void reply_client(struct rank *r, struct work *w, uint32_t slot)
{
	const struct sim *s = r->sim;
	double after = s->m.reply_ns + draw_unit(&w->random) * s->m.reply_jitter_ns;
	uint64_t seen = w->now + (uint64_t)(int64_t)after;

	if (seen - s->c->warmup_ns < s->c->duration_ns)
		latrec_hist_record(r->part->latency, seen - r->start[slot]);
	if (unlikely(r->seen))
		wait_for_more(r, w, slot, seen);
	else
		make_request(r, w, slot, seen);
}

/* Passes a slot to another daemon of the rank. The delay is that of a client's request. */
static void pass(struct rank *r, const struct work *w, struct daemon *to, uint32_t slot,
	uint32_t dest)
{
	if (calendar_put(&to->requests, slot, dest, w->now + r->sim->costs.visible))
		r->part->error = -ENOMEM;
}

/*
 * The daemon replies to the client of the slot. With meta, if the client has another daemon, it
 * passes the reply to that daemon.
 */
ALWAYS_INLINE void give_reply(struct daemon *d, struct work *w, uint32_t slot)
{
	struct rank *r = d->rank;

	if (unlikely(r->answered) && rank_taker(r, 0, slot) != d) {
		r->answered[slot] = true;
		pass(r, w, rank_taker(r, 0, slot), slot, r->index);
		return;
	}
	reply_client(r, w, slot);
}

/* Adds a reply to those that are held. */
static void hold_reply(struct daemon *d, uint64_t now, uint32_t slot)
{
	if (!d->n_held)
		d->held_since = now;
	d->held[d->n_held++] = slot;
}

static void release_held(struct daemon *d)
{
	struct rank *r = d->rank;
	struct work w;

	if (d->polls.responses)
		hold_arrived(&d->control.hold, d->polls.responses, d->now);
	if (!d->n_held ||
		!hold_release(&d->control.hold, d->n_held, d->held_since, d->now, r->inflight.n))
		return;
	w = work_begin(d);
	for (uint32_t i = 0; i < d->n_held; i++)
		give_reply(d, &w, d->held[i]);
	d->n_held = 0;
	work_end(d, &w);
}

/* ---- a daemon's loop ---- */

static inline void gather(struct daemon *d, uint32_t peer, uint32_t slot, uint32_t word)
{
	struct part *part = d->rank->part;
	struct endpoint *e = &d->eps[peer];

	if (endpoint_append(e, &part->pool, slot, word)) {
		part->error = -ENOMEM;
		return;
	}
	if (!e->dirty) {
		e->dirty = true;
		d->loads[d->n_dirty++].ep = peer;
	}
}

/* Serves a call of another rank and gathers the reply. */
ALWAYS_INLINE void serve(struct daemon *d, struct work *w, uint32_t from, uint32_t slot,
	uint32_t word)
{
	w->now += d->rank->sim->costs.incoming;
	control_heard(&d->control, from, word);
	gather(d, from, slot | WIRE_RESPONSE, 0);
	d->served++;
}

/* Leaves a call to the next loop. */
static void leave_call(struct daemon *d, struct call call)
{
	struct backlog *b = &d->backlog;

	if (b->n == b->size) {
		uint32_t size = b->size ? b->size * 2 : 64;
		struct call *larger = realloc(b->calls, size * sizeof(*larger));

		if (!larger) {
			d->rank->part->error = -ENOMEM;
			return;
		}
		b->calls = larger;
		b->size = size;
	}
	b->calls[b->n++] = call;
}

/* Serves a call, or leaves it to the next loop if this loop has reached its limit. */
ALWAYS_INLINE void take_call(struct daemon *d, struct work *w, uint32_t from, uint32_t slot,
	uint32_t word)
{
	if (unlikely(d->served == d->serves))
		leave_call(d, (struct call){from, slot, word});
	else
		serve(d, w, from, slot, word);
}

/* Serves the calls that the previous loop has left. */
static void serve_backlog(struct daemon *d)
{
	struct backlog *b = &d->backlog;
	struct work w = work_begin(d);

	for (uint32_t i = 0; i < b->n; i++)
		serve(d, &w, b->calls[i].from, b->calls[i].slot, b->calls[i].word);
	b->n = 0;
	work_end(d, &w);
}

/*
 * Passes a response to its client. With a control of a kind that holds replies, adds it to those
 * that are held: release_held() passes them on.
 */
ALWAYS_INLINE void take_response(struct daemon *d, struct work *w, uint32_t slot)
{
	struct rank *r = d->rank;

	w->now += r->sim->costs.response;
	if (r->called)
		d->rtt_sum += w->now - r->called[slot];
	inflight_change(&w->inflight, w->now, -1);
	if (control_holds(&d->control))
		hold_reply(d, w->now, slot);
	else
		give_reply(d, w, slot);
}

/* @words: the values of control_word() that the calls carry, or NULL. */
static void take_messages(struct daemon *d, uint32_t from, const uint32_t *slots,
	const uint32_t *words, uint32_t n)
{
	struct work w = work_begin(d);
	uint32_t responses = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (slots[i] & WIRE_RESPONSE) {
			take_response(d, &w, slots[i] & ~WIRE_RESPONSE);
			responses++;
		} else {
			take_call(d, &w, from, slots[i], words ? words[i] : 0);
		}
	}
	d->polls.responses += responses;
	d->eps[from].pending -= responses;
	d->under_way -= responses;
	work_end(d, &w);
}

/*
 * Prefetches the next WRITE, which may be in another core's cache, while this one is handled.
 */
static inline void prefetch_next(struct daemon *d)
{
	const struct event *e = timeline_first(&d->nic.arrivals);

	if (!e)
		return;
	__builtin_prefetch(&d->eps[e->from]);
	if (e->messages > 1) {
		__builtin_prefetch(e->batch);
		__builtin_prefetch((const char *)e->batch + CACHE_LINE);
	}
}

static void take_write(struct daemon *d, const struct event *a)
{
	struct pool *pool = &d->rank->part->pool;
	struct endpoint *e = &d->eps[a->from];

	d->now += d->rank->sim->costs.cqe;
	d->polls.cqes++;
	d->polls.last += a->messages;
	e->received++;
	e->consumed = a->consumed;
	if (a->messages == 1) {
		take_messages(d, a->from, &a->one.slot, &a->one.word, 1);
		return;
	}
	prefetch_next(d);
	take_messages(d, a->from, a->batch->slots, pool->words ? batch_words(a->batch) : NULL,
		a->messages);
	pool_put(pool, a->batch);
}

/*
 * Polls until the CQ is empty, including WRITEs that arrive during the poll, as the real poll does.
 * A WRITE that is posted in the present window of the simulation arrives after its end, so a poll
 * that is not over by then continues in the next window. True: the poll has ended.
 */
static bool poll_once(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	struct event a;

	while (d->now < d->rank->part->until) {
		if (!wire_receive(&s->m, &d->nic, d->now, &a)) {
			d->polls.messages += d->polls.last;
			d->polls.polls++;
			return true;
		}
		take_write(d, &a);
	}
	return false;
}

/*
 * With backend meta: handles a slot that holds a response for a client of this daemon, or a request
 * that another daemon of the rank must send. False: this daemon must serve or send the request.
 */
static bool relay(struct daemon *d, struct work *w, uint32_t slot, uint32_t dest)
{
	struct rank *r = d->rank;
	struct daemon *owner = rank_owner(r, dest, slot);

	if (r->answered[slot]) {
		r->answered[slot] = false;
		w->now += r->sim->costs.response;
		reply_client(r, w, slot);
		return true;
	}
	if (dest == r->index || owner == d)
		return false;
	w->now += r->sim->costs.request;
	pass(r, w, owner, slot, dest);
	return true;
}

ALWAYS_INLINE void take_request(struct daemon *d, struct work *w, uint32_t slot, uint32_t dest)
{
	struct rank *r = d->rank;
	const struct sim *s = r->sim;

	if (unlikely(r->answered) && relay(d, w, slot, dest))
		return;
	if (dest == r->index) {
		w->now += s->costs.local;
		reply_client(r, w, slot);
	} else {
		w->now += s->costs.request;
		inflight_change(&w->inflight, w->now, 1);
		d->under_way++;
		if (r->called)
			r->called[slot] = w->now;
		gather(d, dest, slot, control_word(&d->control, dest));
	}
}

/*
 * Handles the clients' visible requests, at most `intake` of them. Returns true if it found any.
 * The requests that are left return to the calendar, where they are the first ones again.
 */
static bool take_requests(struct daemon *d)
{
	const struct request *requests = d->rank->requests;
	uint32_t last = calendar_take(&d->requests, d->loop_began);
	uint32_t most = d->rank->sim->c->intake, left = most ? most : UINT32_MAX;
	struct work w;

	if (last == CALENDAR_NONE)
		return false;
	w = work_begin(d);
	do {
		uint32_t slot, following = request_next(requests[last]);

		do {
			struct request request = requests[following];

			slot = following;
			following = request_next(request); /* before the slot is inserted again */
			if (likely(left)) {
				take_request(d, &w, slot, request_dest(request));
				left--;
			} else if (calendar_put(&d->requests, slot, request_dest(request), 0)) {
				d->rank->part->error = -ENOMEM;
			}
		} while (slot != last);
		last = left ? calendar_take(&d->requests, d->loop_began) : CALENDAR_NONE;
	} while (last != CALENDAR_NONE);
	work_end(d, &w);
	return true;
}

/* Adds the CPU time of a WRITE of n messages, which is posted next, and counts the WRITE. */
static void count_write(struct daemon *d, uint32_t n)
{
	d->now += d->rank->sim->costs.write;
	if (counting(d->rank->sim, d->now)) {
		d->counts.writes++;
		d->counts.messages += n;
	}
}

/*
 * Posts the messages for a peer in one WRITE. During the disturbance with which a run may begin,
 * posts each message in a WRITE of its own.
 */
static void flush_endpoint(struct daemon *d, uint32_t peer)
{
	struct rank *r = d->rank;
	struct sim *s = r->sim;
	struct endpoint *e = &d->eps[peer];
	uint32_t n = e->calls + e->replies;
	const struct route route = {.machine = &s->m,
		.nic = &d->nic,
		.pool = &r->part->pool,
		.mail = sim_mail(s, r->part->window, r->part->index, s->part_of[peer]),
		.from = r->index,
		.to = sim_owner(s, peer, r->index)};
	int err = 0;

	if (!s->c->collapsed || d->now >= s->c->collapsed_ns) {
		count_write(d, n);
		err = wire_post(&route, e, d->now);
	} else {
		for (uint32_t i = 0; i < n && !err; i++) {
			count_write(d, 1);
			err = wire_post_one(&route, e, i, d->now);
		}
		pool_put(route.pool, e->gathered);
		endpoint_posted(e);
	}
	if (err)
		r->part->error = err;
}

static uint64_t consumed_by(void *arg, uint32_t peer)
{
	const struct endpoint *e = &((struct daemon *)arg)->eps[peer];

	return control_consumed(e->pending, e->writes, e->consumed);
}

static uint64_t now_of(void *arg)
{
	return ((struct daemon *)arg)->now;
}

/* Moves the endpoints that must be flushed now to the front of loads, and returns their number. */
static size_t select_endpoints(struct daemon *d)
{
	size_t n = d->n_dirty;

	if (!control_selects(&d->control))
		return n;
	for (size_t i = 0; i < n; i++) {
		struct control_load *load = &d->loads[i];

		load->calls = d->eps[load->ep].calls;
		load->replies = d->eps[load->ep].replies;
	}
	return control_select(&d->control, d->loads, n, consumed_by, now_of, d);
}

static void flush(struct daemon *d)
{
	size_t go = select_endpoints(d);

	for (size_t i = 0; i < go; i++) {
		const struct control_load *load = &d->loads[i];
		struct endpoint *e = &d->eps[load->ep];

		flush_endpoint(d, load->ep);
		e->dirty = false;
		control_sent(&d->control, load, e->writes);
	}
	d->n_dirty -= (uint32_t)go;
	memmove(d->loads, d->loads + go, d->n_dirty * sizeof(*d->loads));
}

static bool traces(const struct daemon *d)
{
	const struct sim *s = d->rank->sim;

	return s->c->trace && d == &s->daemons[sim_owner(s, 0, 1)];
}

/* The moving averages for the trace. If the control has none, the simulator computes them. */
static struct adaptive *filtered(struct daemon *d)
{
	return control_observes(&d->control) ? &d->control.adaptive : &d->rank->sim->filtered;
}

static void trace(struct daemon *d)
{
	const struct adaptive *a = filtered(d);
	struct sim *s = d->rank->sim;
	uint32_t gathered = 0;

	if (!traces(d) || d->loop_began < s->traced)
		return;
	s->traced = d->loop_began + s->c->trace_ns;
	for (uint32_t i = 0; i < d->n_dirty; i++)
		gathered += d->eps[d->loads[i].ep].calls + d->eps[d->loads[i].ep].replies;
	fprintf(s->c->trace, "%.3f,%u,%u,%u,%u,%u,%.3f,%u,%u,%.4f,%.3f,%.4f\n",
		(double)d->loop_began / 1e3, d->rank->inflight.n, gathered, d->polls.cqes,
		d->polls.messages, d->polls.responses, (double)(d->now - d->loop_began) / 1e3,
		d->control.unconsumed, d->control.adaptive.u, a->e_ema, a->rtt_ema_us,
		adaptive_rho(a));
}

/* Filters the values of a loop, if the control or the trace needs them. */
static void observe(struct daemon *d)
{
	struct adaptive_loop seen = {.cqes = d->polls.cqes,
		.loop_us = (double)(d->now - d->loop_began) / 1e3};

	if (!control_observes(&d->control) && !traces(d))
		return;
	if (d->polls.responses)
		seen.rtt_us = (double)d->rtt_sum / 1e3 / d->polls.responses;
	if (control_observes(&d->control))
		control_loop_end(&d->control, &seen);
	else
		adaptive_step(filtered(d), &seen);
}

static void end_loop(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	double jitter = (2 * draw_unit(&d->rank->random) - 1) * s->m.loop_jitter;

	d->now += (uint64_t)(s->m.loop_ns * (1 + jitter));
	if (control_counts(&d->control))
		control_count(&d->control, d->now, d->under_way, d->polls.responses);
	observe(d);
	if (counting(s, d->loop_began)) {
		d->counts.loops++;
		d->counts.loop_ns += d->now - d->loop_began;
		d->counts.responses += d->polls.responses;
		d->counts.bucket[bucket_of(d->polls.responses)]++;
	}
	trace(d);
}

/*
 * Skips empty loops until the next message can arrive or the next request becomes visible, at most
 * to the end of the window. Messages that another rank posts in this window arrive after it.
 */
static void skip_idle_loops(struct daemon *d, bool found)
{
	struct sim *s = d->rank->sim;
	uint64_t until = d->rank->part->until;
	uint64_t next, n;

	if (found || d->n_dirty || d->n_held || d->backlog.n || s->c->daemons > 1 ||
		control_observes(&d->control))
		return;
	next = wire_next(&s->m, &d->nic);
	next = calendar_next(&d->requests, next < until ? next : until);
	if (next <= d->now)
		return;
	n = (next - d->now) / (uint64_t)s->m.loop_ns;
	if (counting(s, d->now)) {
		d->counts.loops += n;
		d->counts.loop_ns += n * (uint64_t)s->m.loop_ns;
		d->counts.bucket[0] += n;
	}
	d->now += n * (uint64_t)s->m.loop_ns;
	for (; traces(d) && n; n--)
		adaptive_step(filtered(d), &(struct adaptive_loop){.loop_us = s->m.loop_ns / 1e3});
}

static void begin_loop(struct daemon *d)
{
	d->loop_began = d->now;
	d->polls = (struct control_polls){.polls = 0};
	d->rtt_sum = 0;
	d->served = 0;
	d->serves = control_serves(&d->control, d->backlog.n);
	if (d->backlog.n)
		serve_backlog(d);
}

void daemon_step(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	bool found;

	if (d->at == AT_LOOP)
		begin_loop(d);
	if (d->at != AT_DRAIN)
		d->polls.last = 0;
	d->at = AT_DRAIN;
	if (!poll_once(d))
		return;
	if (control_poll_again(&d->control, &d->polls)) {
		d->at = AT_POLL;
		if (s->m.poll_flushes > 0 && !control_observes(&d->control) && d->n_dirty)
			flush(d);
		d->now += control_observes(&d->control) ? s->costs.repoll : s->costs.poll;
		return;
	}
	d->at = AT_LOOP;
	if (control_holds(&d->control))
		release_held(d);
	found = take_requests(d) || d->polls.messages;
	if (d->n_dirty)
		flush(d);
	end_loop(d);
	skip_idle_loops(d, found);
}
