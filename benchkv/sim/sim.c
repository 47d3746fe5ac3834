/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "job.h"

#define ADAPTIVE_MOST 65 /* polls of adaptive-budget in a loop */

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
	work += (c->control.n + 2) * m->poll_ns + ADAPTIVE_MOST * m->repoll_ns;
	return (uint64_t)(work + 2 * m->reply_ns + m->reply_jitter_ns + 4 * m->loop_ns) +
	       c->stagger_ns * c->ranks;
}

#define ORDER_NS 65536 /* by which daemons are apart: seldom more than a loop */

/* From a WRITE's arrival to the last one's, when all that is in flight has one of its own. */
static uint64_t arrivals_span(const struct sim_config *c)
{
	return (uint64_t)(2.0 * c->clients * c->depth * (c->machine.send_ns + c->machine.recv_ns)) /
	       c->daemons;
}

static int daemon_init(struct daemon *d, struct rank *r)
{
	const struct sim_config *c = r->sim->c;

	d->rank = r;
	timeline_init(&d->nic.arrivals, arrivals_span(c));
	d->eps = aligned_alloc(64, c->ranks * sizeof(*d->eps));
	for (uint32_t i = 0; d->eps && i < c->ranks; i++)
		endpoint_init(&d->eps[i]);
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
	r->slots = calloc(slots, sizeof(*r->slots));
	r->next = calloc(slots, sizeof(*r->next));
	r->client_free = calloc(s->c->clients, sizeof(*r->client_free));
	if (!r->slots || !r->next || !r->client_free)
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
		uint32_t dest = sim_draw_below(s, s->c->ranks);

		r->slots[slot] = (struct slot){.start = dest * s->c->stagger_ns,
			.dest = dest,
			.client = slot / s->c->depth};
		calendar_put(&rank_owner(r, dest, slot)->requests, slot, r->slots[slot].start);
	}
}

static int sim_init(struct sim *s, const struct sim_config *c)
{
	*s = (struct sim){.c = c, .m = c->machine, .n_daemons = c->ranks * c->daemons};
	s->costs = machine_costs(&s->m);
	s->random = c->seed * 0x9e3779b97f4a7c15ull | 1;
	s->ahead = (uint64_t)(s->m.send_ns + s->m.wire_ns + s->m.recv_ns);
	s->end = c->warmup_ns + c->duration_ns;
	s->ranks = calloc(c->ranks, sizeof(*s->ranks));
	s->daemons = calloc(s->n_daemons, sizeof(*s->daemons));
	timeline_init(&s->order, ORDER_NS);
	if (!s->ranks || !s->daemons)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		if (rank_init(s, i))
			return -ENOMEM;
	for (uint32_t i = 0; i < s->n_daemons; i++)
		if (timeline_put(&s->order, &(struct event){.from = i}))
			return -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		first_requests(&s->ranks[i]);
	return 0;
}

static void sim_fini(struct sim *s)
{
	for (uint32_t i = 0; s->daemons && i < s->n_daemons; i++) {
		struct daemon *d = &s->daemons[i];

		for (uint32_t p = 0; d->eps && p < s->c->ranks; p++)
			endpoint_fini(&d->eps[p]);
		free(d->eps);
		free(d->dirty);
		free(d->loads);
		free(d->held);
		timeline_fini(&d->nic.arrivals);
		calendar_fini(&d->requests);
		control_fini(&d->control);
	}
	for (uint32_t i = 0; s->ranks && i < s->c->ranks; i++) {
		free(s->ranks[i].slots);
		free(s->ranks[i].next);
		free(s->ranks[i].client_free);
	}
	timeline_fini(&s->order);
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
	for (int i = 0; i < BUCKETS; i++)
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
		rank_count_inflight(&s->ranks[i], s->end, 0);
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
	for (int i = 0; i < BUCKETS; i++)
		r.bucket[i] = ratio((double)sum.bucket[i], (double)sum.loops);
	return r;
}

/* Of the daemon that is furthest behind. 0, -ENOMEM, or -ETIME at the end. */
static int next_step(struct sim *s)
{
	struct event turn;

	if (timeline_first(&s->order)->ns >= s->end)
		return -ETIME;
	turn = timeline_take(&s->order);
	daemon_step(&s->daemons[turn.from]);
	turn.ns = s->daemons[turn.from].now;
	return timeline_put(&s->order, &turn) ? -ENOMEM : s->error;
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
	while (!err)
		err = next_step(&s);
	if (err == -ETIME)
		err = 0;
	if (!err && config->hgrm)
		err = latrec_hist_print_hgrm(&s.latency, (double)NSEC_PER_USEC, config->hgrm);
	if (!err)
		*result_p = result_of(&s);
	sim_fini(&s);
	return err;
}
