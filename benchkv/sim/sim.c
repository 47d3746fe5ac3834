/* SPDX-License-Identifier: MIT */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "calendar.h"
#include "latrec.h"
#include "wire.h"

/* What a daemon counts after the warm-up. */
struct counts {
	uint64_t loops, loop_ns, responses, writes, messages;
	uint64_t bucket[SIM_BUCKETS];
};

/* A daemon and its context. */
struct daemon {
	struct rank *rank;
	uint64_t now; /* the beginning of its next step, then the running time of that step */
	struct nic nic;
	struct calendar requests;
	struct endpoint *eps; /* by rank */
	uint32_t *dirty; /* ranks with gathered messages */
	uint32_t n_dirty;
	uint32_t *held; /* slots whose replies wait */
	uint32_t n_held;
	uint64_t held_since;
	struct control_load *loads;
	struct control control;
	/* The loop. */
	enum { AT_LOOP, AT_POLL, AT_DRAIN } at; /* what the next step begins with */
	uint64_t loop_began;
	struct control_polls polls;
	uint32_t cqes;
	uint64_t rtt_sum;
	struct counts counts;
};

struct rank {
	struct sim *sim;
	uint32_t index;
	uint32_t inflight; /* calls without a response */
	uint64_t inflight_at, inflight_sum; /* integral over time, after the warm-up */
	struct daemon *daemons;
	/* By slot: client * depth + i. */
	uint32_t *dest;
	uint64_t *start; /* when the client made the request */
	uint64_t *called; /* when the daemon took it, if it is for another rank */
	uint32_t *next;
	uint64_t *client_free; /* by client */
};

struct sim {
	const struct sim_config *c;
	struct machine m;
	struct rank *ranks;
	struct daemon *daemons; /* of all ranks */
	struct daemon **order; /* heap by daemon.now */
	uint32_t n_daemons;
	uint64_t random, end, traced;
	uint64_t ahead; /* nothing that is done now reaches another rank's CQ earlier */
	uint64_t ops;
	struct latrec_hist latency;
	int error;
};

/* xorshift64* (S. Vigna 2014); the state is never 0. */
static uint64_t draw(struct sim *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dull;
}

/* 0 <= x < n, by the upper bits. */
static uint32_t draw_below(struct sim *s, uint32_t n)
{
	return (uint32_t)((draw(s) >> 32) * n >> 32);
}

static double draw_unit(struct sim *s)
{
	return (double)(draw(s) >> 11) * 0x1p-53;
}

static bool counting(const struct sim *s, uint64_t ns)
{
	return ns >= s->c->warmup_ns;
}

/* ---- clients ---- */

static struct daemon *owner(struct rank *r, uint32_t peer, uint32_t slot)
{
	uint32_t d = r->sim->c->daemons;

	return &r->daemons[peer == r->index ? slot % d : (r->index + peer) % d];
}

/* The client of a slot makes its next request as soon as it can, seen at ns or later. */
static void request_next(struct rank *r, uint32_t slot, uint64_t ns)
{
	struct sim *s = r->sim;
	uint64_t *free_at = &r->client_free[slot / s->c->depth];
	uint32_t dest = draw_below(s, s->c->ranks);

	*free_at = (*free_at > ns ? *free_at : ns) + (uint64_t)s->m.client_ns;
	r->dest[slot] = dest;
	r->start[slot] = *free_at;
	calendar_put(&owner(r, dest, slot)->requests, slot,
		*free_at + (uint64_t)(s->m.reply_ns / 2));
}

/* The daemon gives a reply to the client of the slot at ns. */
static void reply_client(struct rank *r, uint32_t slot, uint64_t ns)
{
	struct sim *s = r->sim;
	uint64_t seen = ns + (uint64_t)(s->m.reply_ns + draw_unit(s) * s->m.reply_jitter_ns);

	if (counting(s, seen) && seen < s->end) {
		s->ops++;
		latrec_hist_record(&s->latency, seen - r->start[slot]);
	}
	request_next(r, slot, seen);
}

/* A reply to a local client, or a place among those that are held. */
static void reply(struct daemon *d, uint32_t slot)
{
	if (!control_holds(&d->control)) {
		reply_client(d->rank, slot, d->now);
		return;
	}
	if (!d->n_held)
		d->held_since = d->now;
	d->held[d->n_held++] = slot;
}

static void release_held(struct daemon *d)
{
	struct rank *r = d->rank;

	if (!control_holds(&d->control))
		return;
	if (d->polls.responses)
		hold_arrived(&d->control.hold, d->polls.responses, d->now);
	if (!d->n_held ||
		!hold_release(&d->control.hold, d->n_held, d->held_since, d->now, r->inflight))
		return;
	for (uint32_t i = 0; i < d->n_held; i++)
		reply_client(r, d->held[i], d->now);
	d->n_held = 0;
}

static void count_inflight(struct rank *r, uint64_t ns, int change)
{
	uint64_t from = r->inflight_at;

	if (from < r->sim->c->warmup_ns)
		from = r->sim->c->warmup_ns;
	if (ns > from)
		r->inflight_sum += (ns - from) * r->inflight;
	if (ns > r->inflight_at)
		r->inflight_at = ns;
	r->inflight += (uint32_t)change;
}

/* ---- a daemon's loop ---- */

static void gather(struct daemon *d, uint32_t peer, uint32_t message)
{
	struct endpoint *e = &d->eps[peer];

	if (endpoint_append(e, message))
		d->rank->sim->error = -ENOMEM;
	if (!e->dirty) {
		e->dirty = true;
		d->dirty[d->n_dirty++] = peer;
	}
}

static void take_message(struct daemon *d, uint32_t from, uint32_t message)
{
	struct sim *s = d->rank->sim;
	uint32_t slot = message & ~WIRE_RESPONSE;

	if (message & WIRE_RESPONSE) {
		d->now += (uint64_t)s->m.response_ns;
		d->polls.responses++;
		d->eps[from].pending--;
		d->rtt_sum += d->now - d->rank->called[slot];
		count_inflight(d->rank, d->now, -1);
		reply(d, slot);
	} else {
		d->now += (uint64_t)s->m.incoming_ns;
		gather(d, from, slot | WIRE_RESPONSE);
	}
}

static void take_write(struct daemon *d, const struct arrival *a)
{
	struct sim *s = d->rank->sim;
	struct daemon *peer = owner(&s->ranks[a->from], d->rank->index, 0);
	struct endpoint *theirs = &peer->eps[d->rank->index];

	d->now += (uint64_t)s->m.cqe_ns;
	d->cqes++;
	d->eps[a->from].received++;
	d->eps[a->from].consumed = a->consumed;
	for (uint32_t i = 0; i < a->messages; i++)
		take_message(d, a->from, endpoint_take(theirs));
	d->polls.last += a->messages;
}

/*
 * A poll, until the CQ is empty: also what arrives while it is under way, as the real one.
 * What has not been simulated yet arrives `ahead` after the beginning of this step or later,
 * so a poll that takes longer goes on in a step of its own. True when it is through.
 */
static bool poll_once(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	uint64_t until = d->now + s->ahead;
	struct arrival a;

	while (d->now < until) {
		if (!wire_receive(&s->m, &d->nic, d->now, &a)) {
			d->polls.messages += d->polls.last;
			d->polls.polls++;
			return true;
		}
		take_write(d, &a);
	}
	return false;
}

/* The clients' requests that are visible. Their number. */
static uint32_t take_requests(struct daemon *d)
{
	struct rank *r = d->rank;
	struct sim *s = r->sim;
	uint32_t slot, n = 0;

	for (; (slot = calendar_take(&d->requests, d->loop_began)) != CALENDAR_NONE; n++) {
		uint32_t dest = r->dest[slot];

		if (dest == r->index) {
			d->now += (uint64_t)s->m.local_ns;
			reply_client(r, slot, d->now);
		} else {
			d->now += (uint64_t)s->m.request_ns;
			count_inflight(r, d->now, 1);
			r->called[slot] = d->now;
			gather(d, dest, slot);
		}
	}
	return n;
}

static void post(struct daemon *d, uint32_t peer, uint32_t most)
{
	struct sim *s = d->rank->sim;
	struct endpoint *e = &d->eps[peer];
	struct daemon *to = owner(&s->ranks[peer], d->rank->index, 0);
	uint32_t before = e->tail - e->posted;

	d->now += (uint64_t)s->m.write_ns;
	if (wire_post(&s->m, &d->nic, d->rank->index, e, &to->nic, most, d->now))
		s->error = -ENOMEM;
	if (counting(s, d->now)) {
		d->counts.writes++;
		d->counts.messages += before - (e->tail - e->posted);
	}
}

/* Everything gathered for a peer: in one WRITE, or, to bring about the collapse, in many. */
static void flush_endpoint(struct daemon *d, uint32_t peer)
{
	const struct sim_config *c = d->rank->sim->c;
	struct endpoint *e = &d->eps[peer];
	bool alone = c->collapsed && d->now < c->collapsed_ns;

	do
		post(d, peer, alone ? 1 : UINT32_MAX);
	while (e->tail != e->posted);
}

static uint64_t consumed_by(void *arg, uint32_t peer)
{
	const struct endpoint *e = &((struct daemon *)arg)->eps[peer];

	/* As benchkv's: with no call under way there is nothing to wait for. */
	return e->pending ? e->consumed : e->writes;
}

static void flush(struct daemon *d)
{
	size_t n = d->n_dirty, go;

	for (size_t i = 0; i < n; i++) {
		const struct endpoint *e = &d->eps[d->dirty[i]];

		d->loads[i] = (struct control_load){.ep = d->dirty[i],
			.calls = e->calls,
			.replies = e->replies};
	}
	go = control_select(&d->control, d->loads, n, consumed_by, d);
	for (size_t i = 0; i < go; i++) {
		struct control_load *load = &d->loads[i];

		flush_endpoint(d, load->ep);
		d->eps[load->ep].dirty = false;
		control_sent(&d->control, load, d->eps[load->ep].writes);
	}
	d->n_dirty = (uint32_t)(n - go);
	for (size_t i = go; i < n; i++)
		d->dirty[i - go] = d->loads[i].ep;
}

static uint32_t bucket_of(uint32_t n)
{
	return n < 2 ? n : n <= 10 ? 2 : n <= 100 ? 3 : 4;
}

static void trace(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	uint32_t gathered = 0;

	if (!s->c->trace || d != &s->daemons[0] || d->loop_began < s->traced)
		return;
	s->traced = d->loop_began + s->c->trace_ns;
	for (uint32_t i = 0; i < d->n_dirty; i++)
		gathered += d->eps[d->dirty[i]].calls + d->eps[d->dirty[i]].replies;
	fprintf(s->c->trace, "%.3f,%u,%u,%u,%u,%u,%.3f,%u\n", (double)d->loop_began / 1e3,
		d->rank->inflight, gathered, d->cqes, d->polls.messages, d->polls.responses,
		(double)(d->now - d->loop_began) / 1e3, d->control.unconsumed);
}

static void end_loop(struct daemon *d)
{
	struct sim *s = d->rank->sim;
	double jitter = (2 * draw_unit(s) - 1) * s->m.loop_jitter;

	d->now += (uint64_t)(s->m.loop_ns * (1 + jitter));
	if (control_observes(&d->control)) {
		struct adaptive_loop seen = {.cqes = d->cqes,
			.loop_us = (double)(d->now - d->loop_began) / 1e3};

		if (d->polls.responses)
			seen.rtt_us = (double)d->rtt_sum / 1e3 / d->polls.responses;
		control_loop_end(&d->control, &seen);
	}
	if (counting(s, d->loop_began)) {
		d->counts.loops++;
		d->counts.loop_ns += d->now - d->loop_began;
		d->counts.responses += d->polls.responses;
		d->counts.bucket[bucket_of(d->polls.responses)]++;
	}
	trace(d);
}

/*
 * A loop that found nothing is repeated until there can be something. Whatever another
 * rank does from now on arrives later than that.
 */
static void skip_idle_loops(struct daemon *d, bool found)
{
	struct sim *s = d->rank->sim;
	uint64_t until = d->loop_began + s->ahead;
	uint64_t next, n;

	if (found || d->n_dirty || d->n_held || s->c->daemons > 1 || control_observes(&d->control))
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
}

static void begin_loop(struct daemon *d)
{
	d->loop_began = d->now;
	d->polls = (struct control_polls){.polls = 0};
	d->cqes = 0;
	d->rtt_sum = 0;
}

/* A poll or a part of it; after the last one of a loop, the rest of the loop. */
static void step(struct daemon *d)
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
		d->now += (uint64_t)(control_observes(&d->control) ? s->m.repoll_ns : s->m.poll_ns);
		return;
	}
	d->at = AT_LOOP;
	release_held(d);
	found = take_requests(d) || d->polls.messages;
	if (d->n_dirty)
		flush(d);
	end_loop(d);
	skip_idle_loops(d, found);
}

/* ---- the whole ---- */

static void sift_down(struct daemon **heap, uint32_t n)
{
	struct daemon *d = heap[0];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1]->now < heap[child]->now)
			child++;
		if (heap[child]->now >= d->now)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = d;
}

/* The time that a request can lie in a calendar, or a daemon be away from it. */
static uint64_t calendar_span(const struct sim_config *c)
{
	const struct machine *m = &c->machine;
	double inflight = (double)c->clients * c->depth;
	double work = inflight * 2 * c->ranks * (m->cqe_ns + m->write_ns) / c->daemons;

	if (work > inflight * 4 * (m->cqe_ns + m->write_ns))
		work = inflight * 4 * (m->cqe_ns + m->write_ns);
	work += inflight * 4 *
		(m->request_ns + m->incoming_ns + m->response_ns + m->local_ns + m->client_ns);
	return (uint64_t)(work + 2 * m->reply_ns + m->reply_jitter_ns + 4 * m->loop_ns +
			  2 * m->poll_ns) +
	       c->stagger_ns * c->ranks;
}

static int daemon_init(struct daemon *d, struct rank *r)
{
	const struct sim_config *c = r->sim->c;

	d->rank = r;
	d->eps = calloc(c->ranks, sizeof(*d->eps));
	d->dirty = calloc(c->ranks, sizeof(*d->dirty));
	d->loads = calloc(c->ranks, sizeof(*d->loads));
	d->held = calloc((size_t)c->clients * c->depth, sizeof(*d->held));
	if (!d->eps || !d->dirty || !d->loads || !d->held ||
		calendar_init(&d->requests, calendar_span(c), r->next))
		return -ENOMEM;
	return control_init(&d->control, &c->control, c->ranks);
}

static int rank_init(struct sim *s, uint32_t index)
{
	struct rank *r = &s->ranks[index];
	size_t slots = (size_t)s->c->clients * s->c->depth;

	*r = (struct rank){.sim = s, .index = index};
	r->daemons = &s->daemons[index * s->c->daemons];
	r->dest = calloc(slots, sizeof(*r->dest));
	r->start = calloc(slots, sizeof(*r->start));
	r->called = calloc(slots, sizeof(*r->called));
	r->next = calloc(slots, sizeof(*r->next));
	r->client_free = calloc(s->c->clients, sizeof(*r->client_free));
	if (!r->dest || !r->start || !r->called || !r->next || !r->client_free)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->c->daemons; i++)
		if (daemon_init(&r->daemons[i], r))
			return -ENOMEM;
	return 0;
}

/* All clients begin at once, but for what --stagger says. */
static void first_requests(struct rank *r)
{
	struct sim *s = r->sim;

	for (uint32_t slot = 0; slot < s->c->clients * s->c->depth; slot++) {
		uint32_t dest = draw_below(s, s->c->ranks);

		r->dest[slot] = dest;
		r->start[slot] = dest * s->c->stagger_ns;
		calendar_put(&owner(r, dest, slot)->requests, slot, r->start[slot]);
	}
}

static int sim_init(struct sim *s, const struct sim_config *c)
{
	*s = (struct sim){.c = c, .m = c->machine, .n_daemons = c->ranks * c->daemons};
	s->random = c->seed * 0x9e3779b97f4a7c15ull | 1;
	s->ahead = (uint64_t)(s->m.send_ns + s->m.wire_ns + s->m.recv_ns);
	s->end = c->warmup_ns + c->duration_ns;
	s->ranks = calloc(c->ranks, sizeof(*s->ranks));
	s->daemons = calloc(s->n_daemons, sizeof(*s->daemons));
	s->order = calloc(s->n_daemons, sizeof(struct daemon *));
	if (!s->ranks || !s->daemons || !s->order)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		if (rank_init(s, i))
			return -ENOMEM;
	for (uint32_t i = 0; i < s->n_daemons; i++)
		s->order[i] = &s->daemons[i];
	for (uint32_t i = 0; i < c->ranks; i++)
		first_requests(&s->ranks[i]);
	return 0;
}

static void sim_fini(struct sim *s)
{
	for (uint32_t i = 0; s->daemons && i < s->n_daemons; i++) {
		struct daemon *d = &s->daemons[i];

		for (uint32_t p = 0; d->eps && p < s->c->ranks; p++)
			free(d->eps[p].msgs);
		free(d->eps);
		free(d->dirty);
		free(d->loads);
		free(d->held);
		free(d->nic.heap);
		calendar_fini(&d->requests);
		control_fini(&d->control);
	}
	for (uint32_t i = 0; s->ranks && i < s->c->ranks; i++) {
		free(s->ranks[i].dest);
		free(s->ranks[i].start);
		free(s->ranks[i].called);
		free(s->ranks[i].next);
		free(s->ranks[i].client_free);
	}
	free((void *)s->order);
	free(s->daemons);
	free(s->ranks);
}

static void add_counts(struct counts *sum, const struct counts *c)
{
	sum->loops += c->loops;
	sum->loop_ns += c->loop_ns;
	sum->responses += c->responses;
	sum->writes += c->writes;
	sum->messages += c->messages;
	for (int i = 0; i < SIM_BUCKETS; i++)
		sum->bucket[i] += c->bucket[i];
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static struct sim_result result_of(struct sim *s)
{
	double seconds = (double)s->c->duration_ns / 1e9, inflight = 0;
	struct counts sum = {0};
	struct sim_result r;

	for (uint32_t i = 0; i < s->n_daemons; i++)
		add_counts(&sum, &s->daemons[i].counts);
	for (uint32_t i = 0; i < s->c->ranks; i++) {
		count_inflight(&s->ranks[i], s->end, 0);
		inflight += (double)s->ranks[i].inflight_sum;
	}
	r = (struct sim_result){
		.ops_per_s = (double)s->ops / seconds,
		.outstanding = inflight / (double)s->c->duration_ns / s->c->ranks,
		.cqe_batch = ratio((double)sum.responses, (double)sum.loops),
		.loops_per_s = (double)sum.loops / seconds / s->n_daemons,
		.loop_us = ratio((double)sum.loop_ns, (double)sum.loops) / 1e3,
		.messages_per_write = ratio((double)sum.messages, (double)sum.writes),
		.writes_per_s = (double)sum.writes / seconds / s->c->ranks,
		.p50_us = (double)latrec_hist_quantile(&s->latency, 0.5) / 1e3,
		.p99_us = (double)latrec_hist_quantile(&s->latency, 0.99) / 1e3,
	};
	for (int i = 0; i < SIM_BUCKETS; i++)
		r.bucket[i] = ratio((double)sum.bucket[i], (double)sum.loops);
	return r;
}

int sim_run(const struct sim_config *config, struct sim_result *result_p)
{
	struct sim s;
	int err;

	if (!config->ranks || !config->daemons || !config->clients || !config->depth ||
		!config->duration_ns)
		return -EINVAL;
	err = sim_init(&s, config);
	if (!err && config->trace)
		fprintf(config->trace,
			"time_us,outstanding,gathered,cqes,messages,responses,loop_us,unconsumed\n");
	while (!err && s.order[0]->now < s.end) {
		step(s.order[0]);
		sift_down(s.order, s.n_daemons);
		err = s.error;
	}
	if (!err)
		*result_p = result_of(&s);
	sim_fini(&s);
	return err;
}
