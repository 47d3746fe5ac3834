/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "job.h"

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
	d->eps = malloc(c->ranks * sizeof(*d->eps));
	for (uint32_t i = 0; d->eps && i < c->ranks; i++)
		endpoint_init(&d->eps[i]);
	d->dirty = calloc(c->ranks, sizeof(*d->dirty));
	d->loads = calloc(c->ranks, sizeof(*d->loads));
	d->held = calloc((size_t)c->clients * c->depth, sizeof(*d->held));
	if (!d->eps || !d->dirty || !d->loads || !d->held || calendar_init(&d->requests, r->next))
		return -ENOMEM;
	return control_init(&d->control, &c->control, c->ranks);
}

/* Each rank draws on its own (the finalizer of splitmix64; S. Vigna 2015). */
static uint64_t seed_of(uint64_t seed, uint32_t rank)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + rank + 1;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (x ^ x >> 31) | 1;
}

static int rank_init(struct sim *s, uint32_t index)
{
	struct rank *r = &s->ranks[index];
	size_t slots = (size_t)s->c->clients * s->c->depth;

	*r = (struct rank){.sim = s, .index = index, .random = seed_of(s->c->seed, index)};
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
static int first_requests(struct rank *r)
{
	struct sim *s = r->sim;

	for (uint32_t slot = 0; slot < s->c->clients * s->c->depth; slot++) {
		uint32_t dest = rank_draw_below(r, s->c->ranks);

		r->slots[slot] = (struct slot){.start = dest * s->c->stagger_ns,
			.dest = dest,
			.client = slot / s->c->depth};
		if (calendar_put(&rank_owner(r, dest, slot)->requests, slot, r->slots[slot].start))
			return -ENOMEM;
	}
	return 0;
}

/* Ranks in shares of about the same size. */
static int share_out(struct sim *s)
{
	uint32_t n = s->c->threads;

	n = n < s->c->ranks ? n : s->c->ranks;
	s->n_parts = n;
	s->parts = calloc(n, sizeof(*s->parts));
	s->part_of = calloc(s->c->ranks, sizeof(*s->part_of));
	for (int i = 0; i < 2; i++)
		s->mail[i] = aligned_alloc(64, (size_t)n * n * sizeof(*s->mail[i]));
	if (!s->parts || !s->part_of || !s->mail[0] || !s->mail[1])
		return -ENOMEM;
	for (uint32_t i = 0; i < n * n; i++)
		s->mail[0][i] = s->mail[1][i] = (struct mail){.n = 0};
	for (uint32_t i = 0; i < n; i++) {
		struct part *p = &s->parts[i];

		*p = (struct part){.sim = s,
			.index = i,
			.first = (uint32_t)((uint64_t)i * s->c->ranks / n),
			.end = (uint32_t)((i + 1ull) * s->c->ranks / n)};
		for (uint32_t r = p->first; r < p->end; r++) {
			s->ranks[r].part = p;
			s->part_of[r] = i;
		}
	}
	return 0;
}

static int sim_init(struct sim *s, const struct sim_config *c)
{
	*s = (struct sim){.c = c, .m = c->machine, .n_daemons = c->ranks * c->daemons};
	s->costs = machine_costs(&s->m);
	s->ahead = (uint64_t)(s->m.send_ns + s->m.wire_ns + s->m.recv_ns);
	s->end = c->warmup_ns + c->duration_ns;
	s->ranks = calloc(c->ranks, sizeof(*s->ranks));
	s->daemons = calloc(s->n_daemons, sizeof(*s->daemons));
	if (!s->ranks || !s->daemons)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		if (rank_init(s, i))
			return -ENOMEM;
	for (uint32_t i = 0; i < c->ranks; i++)
		if (first_requests(&s->ranks[i]))
			return -ENOMEM;
	return share_out(s);
}

static void mail_fini(struct sim *s)
{
	for (int i = 0; i < 2; i++) {
		for (uint32_t j = 0; s->mail[i] && j < s->n_parts * s->n_parts; j++)
			free(s->mail[i][j].words);
		free(s->mail[i]);
	}
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
	mail_fini(s);
	free(s->parts);
	free(s->part_of);
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

/* Latencies of all parts go to the first one. Operations. */
static uint64_t gather_parts(struct sim *s)
{
	uint64_t ops = s->parts[0].ops;

	for (uint32_t i = 1; i < s->n_parts; i++) {
		latrec_hist_merge(&s->parts[0].latency, &s->parts[i].latency);
		ops += s->parts[i].ops;
	}
	return ops;
}

static struct sim_result result_of(struct sim *s)
{
	double seconds = (double)s->c->duration_ns / 1e9, inflight = 0;
	const struct latrec_hist *latency = &s->parts[0].latency;
	uint64_t ops = gather_parts(s);
	struct counts sum = {0};
	struct sim_result r;

	for (uint32_t i = 0; i < s->n_daemons; i++)
		add_counts(&sum, &s->daemons[i].counts);
	for (uint32_t i = 0; i < s->c->ranks; i++) {
		rank_count_inflight(&s->ranks[i], s->end, 0);
		inflight += (double)s->ranks[i].inflight_sum;
	}
	r = (struct sim_result){
		.ops_per_s = (double)ops / seconds,
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
	err = sim_init(&s, config);
	if (!err && config->trace)
		fprintf(config->trace,
			"time_us,outstanding,gathered,cqes,messages,responses,loop_us,unconsumed\n");
	if (!err)
		err = crew_run(&s);
	if (!err)
		*result_p = result_of(&s);
	if (!err && config->hgrm)
		err = latrec_hist_print_hgrm(&s.parts[0].latency, (double)NSEC_PER_USEC,
			config->hgrm);
	sim_fini(&s);
	return err;
}
