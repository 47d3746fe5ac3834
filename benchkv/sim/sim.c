/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lines.h"
#include "base/rand.h"
#include "job.h"

static_assert(SIM_MAX_SLOTS <= 1u << CALENDAR_SLOT_BITS, "a slot fits into struct request");
static_assert(SIM_MAX_RANKS <= 1u << CALENDAR_DEST_BITS, "a rank fits into struct request");

/*
 * Returns the usual time between the first and the last arrival of the WRITEs that are on their way
 * to a context. This is half of the time that a context needs for one WRITE per request in flight.
 * If the time is longer, the timeline still works, but is a little slower.
 */
static uint64_t arrivals_span(const struct sim_config *c)
{
	return (uint64_t)(0.5 * c->clients * c->depth * (c->machine.send_ns + c->machine.recv_ns)) /
	       c->daemons;
}

/* Returns an array of zeros. Without memory returns NULL, and sets the error of the job. */
static void *zeros(struct sim *s, size_t n, size_t size)
{
	void *array = calloc(n, size);

	if (!array)
		s->error = -ENOMEM;
	return array;
}

static void daemon_init(struct daemon *d, struct rank *r)
{
	struct sim *s = r->sim;
	const struct sim_config *c = s->c;
	uint32_t own = 0;

	d->rank = r;
	timeline_init(&d->nic.arrivals, arrivals_span(c));
	d->eps = zeros(s, c->ranks, sizeof(*d->eps));
	d->loads = zeros(s, c->ranks, sizeof(*d->loads));
	d->held = zeros(s, (size_t)c->clients * c->depth, sizeof(*d->held));
	if (calendar_init(&d->requests, r->requests) ||
		control_init(&d->control, &c->control, c->ranks))
		s->error = -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		own += i != r->index && sim_owner(s, r->index, i) == d - s->daemons;
	control_limit(&d->control, (double)c->clients * c->depth, c->daemons, own, c->ranks - 1);
}

/* Returns the seed of a rank's own random numbers. */
static uint64_t seed_of(uint64_t seed, uint32_t rank)
{
	return mix64(seed * 0x9e3779b97f4a7c15ull + rank + 1) | 1;
}

static void rank_init(struct sim *s, uint32_t index)
{
	struct rank *r = &s->ranks[index];
	size_t slots = (size_t)s->c->clients * s->c->depth;

	*r = (struct rank){.sim = s,
		.index = index,
		.random = seed_of(s->c->seed, index),
		.inflight.at = s->c->warmup_ns};
	r->daemons = &s->daemons[index * s->c->daemons];
	r->requests = zeros(s, slots, sizeof(*r->requests));
	r->start = zeros(s, slots, sizeof(*r->start));
	r->client_free = zeros(s, s->c->clients, sizeof(*r->client_free));
	for (uint32_t i = 0; i < s->c->daemons; i++)
		daemon_init(&r->daemons[i], r);
	if (s->c->meta)
		r->answered = zeros(s, slots, sizeof(*r->answered));
	if (s->c->client_waits > 1) {
		r->seen = zeros(s, slots, sizeof(*r->seen));
		r->n_seen = zeros(s, s->c->clients, sizeof(*r->n_seen));
	}
	if (control_observes(&r->daemons[0].control) || (s->c->trace && !index))
		r->called = zeros(s, slots, sizeof(*r->called));
}

/* Returns the time of a slot's first request. With --qd-step some slots of a client begin later. */
static uint64_t first_time(const struct sim_config *c, uint32_t slot)
{
	return c->depth_before && slot % c->depth >= c->depth_before ? c->step_ns : 0;
}

/* Makes the first requests. All clients begin at time 0, except for the delay of --stagger. */
static void first_requests(struct rank *r)
{
	struct sim *s = r->sim;

	for (uint32_t slot = 0; slot < s->c->clients * s->c->depth; slot++) {
		uint32_t dest = draw_below(&r->random, s->c->ranks);

		r->start[slot] = first_time(s->c, slot) + dest * s->c->stagger_ns;
		if (calendar_put(&rank_taker(r, dest, slot)->requests, slot, dest, r->start[slot]))
			s->error = -ENOMEM;
	}
}

/* Divides the ranks into parts of about the same size, one for each thread. */
static void share_out(struct sim *s)
{
	uint32_t n = s->c->threads;

	n = n < s->c->ranks ? n : s->c->ranks;
	s->n_parts = n;
	s->parts = zeros(s, n, sizeof(*s->parts));
	s->part_of = zeros(s, s->c->ranks, sizeof(*s->part_of));
	for (int i = 0; i < 2; i++)
		s->mail[i] = calloc_lines((size_t)n * n, sizeof(*s->mail[i]));
	if (!s->mail[0] || !s->mail[1])
		s->error = -ENOMEM;
	if (s->error)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct part *p = &s->parts[i];

		*p = (struct part){.sim = s,
			.index = i,
			.first = (uint32_t)((uint64_t)i * s->c->ranks / n),
			.end = (uint32_t)((i + 1ull) * s->c->ranks / n),
			.pool.words = control_counts(&s->daemons[0].control)};
		if (latrec_hist_create(NULL, &p->latency))
			s->error = -ENOMEM;
		for (uint32_t r = p->first; r < p->end; r++) {
			s->ranks[r].part = p;
			s->part_of[r] = i;
		}
	}
}

static int sim_init(struct sim *s, const struct sim_config *c)
{
	*s = (struct sim){.c = c, .m = c->machine, .n_daemons = c->ranks * c->daemons};
	s->costs = machine_costs(&s->m);
	s->per_depth = ((1ull << SIM_DEPTH_SHIFT) + c->depth - 1) / c->depth;
	s->ahead = (uint64_t)(s->m.send_ns + s->m.wire_ns + s->m.recv_ns);
	s->end = c->warmup_ns + c->duration_ns;
	adaptive_init(&s->filtered);
	s->ranks = zeros(s, c->ranks, sizeof(*s->ranks));
	s->daemons = zeros(s, s->n_daemons, sizeof(*s->daemons));
	for (uint32_t i = 0; !s->error && i < c->ranks; i++)
		rank_init(s, i);
	for (uint32_t i = 0; !s->error && i < c->ranks; i++)
		first_requests(&s->ranks[i]);
	if (!s->error)
		share_out(s);
	return s->error;
}

static void mail_fini(struct sim *s)
{
	for (int i = 0; i < 2; i++) {
		for (uint32_t j = 0; s->mail[i] && j < s->n_parts * s->n_parts; j++) {
			struct mail *mail = &s->mail[i][j];

			for (size_t k = 0; k < mail->n; k++)
				event_fini(&mail->parcels[k].event);
			free(mail->parcels);
		}
		free(s->mail[i]);
	}
}

static void daemon_fini(struct daemon *d, uint32_t ranks)
{
	for (uint32_t i = 0; d->eps && i < ranks; i++)
		free(d->eps[i].gathered);
	while (timeline_first(&d->nic.arrivals)) {
		struct event e = timeline_take(&d->nic.arrivals);

		event_fini(&e);
	}
	free(d->eps);
	free(d->loads);
	free(d->backlog.calls);
	free(d->held);
	timeline_fini(&d->nic.arrivals);
	calendar_fini(&d->requests);
	control_fini(&d->control);
}

static void sim_fini(struct sim *s)
{
	for (uint32_t i = 0; s->daemons && i < s->n_daemons; i++)
		daemon_fini(&s->daemons[i], s->c->ranks);
	for (uint32_t i = 0; s->ranks && i < s->c->ranks; i++) {
		free(s->ranks[i].requests);
		free(s->ranks[i].start);
		free(s->ranks[i].called);
		free(s->ranks[i].client_free);
		free(s->ranks[i].answered);
		free(s->ranks[i].seen);
		free(s->ranks[i].n_seen);
	}
	mail_fini(s);
	for (uint32_t i = 0; s->parts && i < s->n_parts; i++) {
		pool_fini(&s->parts[i].pool);
		latrec_hist_destroy(s->parts[i].latency);
	}
	free(s->parts);
	free(s->part_of);
	free(s->daemons);
	free(s->ranks);
}

/* Adds the structs as arrays, because all their fields are numbers of 64 bits. */
static void add_counts(struct counts *sum, const struct counts *c)
{
	for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)c)[i];
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Adds the latencies of all parts to the histogram of the first part, and returns it. */
static const struct latrec_hist *gather_latencies(struct sim *s)
{
	for (uint32_t i = 1; i < s->n_parts; i++)
		latrec_hist_merge(s->parts[0].latency, s->parts[i].latency);
	return s->parts[0].latency;
}

/* Returns the integral up to the end, or up to the last change if that is later. */
static uint64_t inflight_integral(const struct rank *r)
{
	const struct inflight *f = &r->inflight;

	return f->sum + f->n * (f->at > r->sim->end ? f->at : r->sim->end);
}

static struct sim_result result_of(struct sim *s)
{
	double seconds = (double)s->c->duration_ns / 1e9, inflight = 0;
	const struct latrec_hist *latency = gather_latencies(s);
	struct counts sum = {0};
	struct sim_result r;

	for (uint32_t i = 0; i < s->n_daemons; i++)
		add_counts(&sum, &s->daemons[i].counts);
	for (uint32_t i = 0; i < s->c->ranks; i++)
		inflight += (double)inflight_integral(&s->ranks[i]);
	r = (struct sim_result){
		.ops_per_s = (double)latrec_hist_count(latency) / seconds,
		.outstanding = inflight / (double)s->c->duration_ns / s->c->ranks,
		.cqe_batch = ratio((double)sum.responses, (double)sum.loops),
		.loops_per_s = (double)sum.loops / seconds / s->n_daemons,
		.loop_us = ratio((double)sum.loop_ns, (double)sum.loops) / 1e3,
		.messages_per_write = ratio((double)sum.messages, (double)sum.writes),
		.writes_per_s = (double)sum.writes / seconds / s->c->ranks,
		.p50_us = (double)latrec_hist_quantile(latency, 0.5) / 1e3,
		.p99_us = (double)latrec_hist_quantile(latency, 0.99) / 1e3,
	};
	for (int i = 0; i < BUCKETS; i++)
		r.bucket[i] = ratio((double)sum.bucket[i], (double)sum.loops);
	return r;
}

int sim_run(const struct sim_config *config, struct sim_result *result_p)
{
	struct sim s;
	int err;

	if (!config->ranks || !config->daemons || !config->clients || !config->depth ||
		!config->threads || !config->duration_ns)
		return -EINVAL;
	if (config->client_waits > (config->depth_before ? config->depth_before : config->depth))
		return -EINVAL;
	if (config->ranks > SIM_MAX_RANKS ||
		(uint64_t)config->clients * config->depth > SIM_MAX_SLOTS)
		return -EINVAL;
	err = sim_init(&s, config);
	if (!err && config->trace)
		fprintf(config->trace,
			"time_us,outstanding,gathered,cqes,messages,responses,loop_us,unconsumed,"
			"u,e,rtt_us,rho\n");
	if (!err)
		err = crew_run(&s);
	if (!err)
		*result_p = result_of(&s);
	if (!err && config->hgrm)
		err = latrec_hist_print_hgrm(s.parts[0].latency, (double)NSEC_PER_USEC,
			config->hgrm);
	sim_fini(&s);
	return err;
}
