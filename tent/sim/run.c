/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "event.h"
#include "plan.h"
#include "sched.h"

#define CONTROL_NS 20000.0 /* duration of a message to the peer and its reply */
#define PORT_EVENT_NS 10000.0
#define REQUESTS 64 /* maximum number of open requests of each class */
#define URGENT_NS 200000.0
#define GAP_NS 20000.0 /* time between isolated requests */
#define LAST_NS 20e9 /* a run that takes longer has failed */

#define TRACE_NS 2e5
#define BIN_NS 5e4
#define WINDOW_BINS 10 /* throughput is computed for windows of 0.5 ms */
#define ADAPTED .95

struct sim {
	const struct sim_case *c;
	const struct sim_assume *a;
	struct tent_config config;
	struct scene scene;
	struct net net;
	struct sched *sched;
	struct run_result *r;
	struct samples *slice_ns, *request_ns;
	uint64_t random;
	struct events events;
	uint64_t to_submit, submitted, requests, open; /* to_submit, submitted: bytes */
	double *bins; /* bytes sent in each interval of BIN_NS */
	size_t n_bins;
	uint64_t sent[NET_RAILS], traced; /* traced: number of times for which rows were written */
	double submitted_at[2 * REQUESTS]; /* the second half is for urgent requests */
	uint64_t length[2 * REQUESTS];
	uint64_t urgent; /* number of urgent requests */
	double repost_due, outage_from; /* repost_due: not 0: the next post ends the recovery */
	uint64_t lost; /* bytes on the rail when it failed */
	double wake;
	int err;
};

int samples_add(struct samples *s, double v)
{
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 1024;
		double *more = realloc(s->v, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->v = more;
		s->capacity = capacity;
	}
	s->v[s->n++] = v;
	return 0;
}

void samples_fini(struct samples *s)
{
	free(s->v);
	*s = (struct samples){0};
}

static uint64_t now_ns(const struct sim *m)
{
	return (uint64_t)m->net.now;
}

/* Adds an event that is due in @ns. */
static void after(struct sim *m, double ns, enum event_kind kind, uint32_t rail, uint32_t number)
{
	if (!events_add(&m->events, (struct event){m->net.now + ns, kind, rail, number}))
		m->err = -ENOMEM;
}

/* ---- the scheduler's callbacks ---- */

static int op_post(void *arg, uint32_t rail, const struct sched_slice *slice)
{
	struct sim *m = arg;

	if (m->repost_due) {
		m->r->recovery = fmax(m->net.now - m->outage_from,
			isnan(m->r->recovery) ? 0 : m->r->recovery);
		m->repost_due = 0;
	}
	return net_post(&m->net, rail, slice->token, slice->length);
}

static void op_fence(void *arg, uint32_t rail, uint32_t epoch)
{
	after(arg, CONTROL_NS, EV_FENCED, rail, epoch);
}

/* The probe arrives after two latencies. The control message before it takes no time here. */
static int op_open(void *arg, uint32_t rail, uint32_t epoch)
{
	struct sim *m = arg;

	after(m, 2 * m->scene.bound.rails[rail].latency, EV_PROBED, rail, epoch);
	return 0;
}

static void op_close(void *arg, uint32_t rail)
{
}

static void submit_one(struct sim *m, uint64_t length, uint32_t slot, uint32_t priority)
{
	const struct sched_request req = {.length = length,
		.user = slot,
		.priority = priority,
		.write = true};
	int err = sched_submit(m->sched, now_ns(m), &req);

	if (err) {
		m->err = err;
		return;
	}
	m->submitted_at[slot] = m->net.now;
	m->length[slot] = length;
	m->open++;
	m->submitted += length;
}

static void submit(struct sim *m)
{
	uint32_t slot = (uint32_t)(m->requests++ % REQUESTS);

	submit_one(m, case_length(m->c, &m->random), slot, m->config.priorities - 1);
}

static bool more(const struct sim *m)
{
	if (m->c->isolated)
		return m->requests < m->c->isolated;
	return m->submitted < m->to_submit;
}

static void submit_urgent(struct sim *m)
{
	uint32_t slot = (uint32_t)(m->urgent++ % REQUESTS);

	submit_one(m, m->c->urgent, REQUESTS + slot, 0);
	after(m, URGENT_NS, EV_URGENT, 0, 0);
}

/* T* + (n - 1) s / C, see "Bounds" in tentbench(1). */
static double single_bound(const struct sim *m, uint64_t length, double best)
{
	uint64_t block = m->config.mode == TENT_PULL ?
				 plan_pull_block(length, m->scene.bound.n_rails) :
				 plan_block(length, PLAN_WRITE_SLICES);
	uint32_t n = 0;

	for (uint32_t r = 0; r < m->scene.bound.n_rails; r++)
		n += m->scene.bound.rails[r].latency < best;
	return best + (double)(n - 1) * (double)block / bound_rate(&m->scene.bound, 0, best);
}

static void judge_single(struct sim *m, uint64_t user, double took)
{
	double best = bound_time(&m->scene.bound, 0, (double)m->length[user]);

	m->r->single = fmax(m->r->single, took / single_bound(m, m->length[user], best));
	if (!m->c->isolated)
		return;
	m->r->makespan += took;
	m->r->bound += best;
}

static void op_done(void *arg, uint64_t user, int status)
{
	struct sim *m = arg;
	double took = m->net.now - m->submitted_at[user];

	m->open--;
	m->r->failed += status != 0;
	if (samples_add(m->request_ns, took))
		m->err = -ENOMEM;
	if (m->c->isolated || user >= REQUESTS)
		judge_single(m, user, took);
	if (!m->c->isolated)
		m->r->makespan = m->net.now;
	if (!more(m) || m->err || user >= REQUESTS)
		return;
	if (m->c->isolated)
		after(m, GAP_NS, EV_SUBMIT, 0, 0);
	else
		submit(m);
}

static const struct rail_ops ops = {
	.post = op_post,
	.fence = op_fence,
	.open = op_open,
	.close = op_close,
	.done = op_done,
};

/* ---- reports of the rails ---- */

/* Writes a row for each rail, for each multiple of TRACE_NS that has passed. */
static void trace(struct sim *m)
{
	for (; m->a->trace && (double)m->traced * TRACE_NS <= m->net.now; m->traced++) {
		for (uint32_t r = 0; r < m->scene.bound.n_rails; r++)
			fprintf(m->a->trace, "%.0f,%s%u,%llu\n", (double)m->traced * TRACE_NS / 1e3,
				m->scene.bound.rails[r].remote ? "remote" : "local", r,
				(unsigned long long)m->sent[r]);
	}
}

static void on_sent(void *arg, uint32_t rail, const struct net_item *item)
{
	struct sim *m = arg;
	size_t bin = (size_t)(m->net.now / BIN_NS);

	if (bin >= m->n_bins) {
		size_t n = 2 * bin + 1024;
		double *bins = realloc(m->bins, n * sizeof(*bins));

		if (!bins) {
			m->err = -ENOMEM;
			return;
		}
		memset(bins + m->n_bins, 0, (n - m->n_bins) * sizeof(*bins));
		m->bins = bins;
		m->n_bins = n;
	}
	m->bins[bin] += (double)item->length;
	trace(m);
	m->sent[rail] += item->length;
}

/* Counts the bytes of a failed slice that have reached the peer. */
static void count_duplicates(struct sim *m, const struct net_item *item)
{
	double left = fmax(item->left, 0);

	if (left < (double)item->length)
		m->r->duplicate_bytes += item->length - (uint64_t)left;
}

static void on_done(void *arg, uint32_t rail, const struct net_item *item, int status)
{
	struct sim *m = arg;
	int err = sched_completed(m->sched, now_ns(m), item->token, status);

	m->r->slices++;
	if (status)
		count_duplicates(m, item);
	else if (err)
		m->r->late++;
	if (!status && samples_add(m->slice_ns, m->net.now - item->posted_at))
		m->err = -ENOMEM;
}

/* ---- events of the rails ---- */

static void fault(struct sim *m, const struct event *e)
{
	m->outage_from = m->net.now;
	m->lost = net_outstanding(&m->net, e->rail);
	net_set_fault(&m->net, e->rail, m->c->fault == FAULT_FLUSH ? NET_FLUSH : NET_SILENT);
	if (m->c->fault == FAULT_PORT || m->c->fault == FAULT_FLAP)
		after(m, PORT_EVENT_NS, EV_PORT_DOWN, e->rail, 0);
}

static void come_back(struct sim *m, const struct event *e)
{
	net_set_fault(&m->net, e->rail, NET_WELL);
	if (m->c->fault == FAULT_FLAP)
		after(m, PORT_EVENT_NS, EV_PORT_UP, e->rail, 0);
}

/*
 * Computes the bound after a fault: the bytes that were on the rail can be sent again from now on.
 */
static void bound_after(struct sim *m)
{
	double at = m->net.now;

	m->r->bound = fmax(m->r->bound, at + bound_time(&m->scene.bound, at, (double)m->lost));
}

static void fenced(struct sim *m, const struct event *e)
{
	m->r->duplicate_bytes += net_fence(&m->net, e->rail);
	m->repost_due = m->lost ? 1 : 0;
	if (m->lost)
		bound_after(m);
	m->lost = 0;
	sched_fenced(m->sched, now_ns(m), e->rail, e->number, 0);
}

static void probed(struct sim *m, const struct event *e)
{
	enum net_fault state = m->net.rails[e->rail].fault;

	sched_connected(m->sched, now_ns(m), e->rail, e->number, 0);
	if (state != NET_SILENT)
		sched_probed(m->sched, now_ns(m), e->rail, e->number, state == NET_WELL ? 0 : -EIO);
}

static void handle(struct sim *m, const struct event *e)
{
	switch (e->kind) {
	case EV_RATE:
		net_set_rate(&m->net, e->rail, m->scene.steps[e->rail][e->number].rate);
		break;
	case EV_FAULT:
		fault(m, e);
		break;
	case EV_RETURN:
		come_back(m, e);
		break;
	case EV_PORT_DOWN:
		sched_rail_down(m->sched, now_ns(m), e->rail);
		break;
	case EV_PORT_UP:
		sched_rail_up(m->sched, now_ns(m), e->rail);
		break;
	case EV_FENCED:
		fenced(m, e);
		break;
	case EV_PROBED:
		probed(m, e);
		break;
	case EV_SUBMIT:
		submit(m);
		break;
	case EV_URGENT:
		if (more(m))
			submit_urgent(m);
		break;
	}
}

/* ---- set-up ---- */

static void plan_events(struct sim *m)
{
	const struct scene *sc = &m->scene;

	for (uint32_t r = 0; r < sc->bound.n_rails && !sc->n_outages; r++) {
		for (uint32_t i = 1; i < sc->bound.rails[r].n_steps; i++)
			after(m, sc->steps[r][i].at, EV_RATE, r, i);
	}
	for (uint32_t i = 0; i < sc->n_outages; i++) {
		after(m, sc->outages[i].from, EV_FAULT, sc->victim, i);
		if (isfinite(sc->outages[i].to))
			after(m, sc->outages[i].to, EV_RETURN, sc->victim, i);
	}
}

static void init_net(struct sim *m)
{
	const struct bound *b = &m->scene.bound;

	m->net.n_rails = b->n_rails;
	m->net.group_rates[0] = CASE_LINK_RATE;
	m->net.sharing = m->a->sharing;
	m->net.random = rand_next(&m->random);
	m->net.on_sent = on_sent;
	m->net.on_done = on_done;
	m->net.arg = m;
	for (uint32_t r = 0; r < b->n_rails; r++)
		m->net.rails[r] = (struct net_rail){
			.rate = b->rails[r].steps[0].rate,
			.line_rate = CASE_RATE,
			.latency = b->rails[r].latency,
			.jitter = m->a->jitter,
			.cost_ns = m->a->cost_ns,
			.group = b->rails[r].group,
		};
}

static int init_sched(struct sim *m)
{
	const struct bound *b = &m->scene.bound;
	struct sched_rail_attr rails[NET_RAILS];
	uint8_t tiers[NET_RAILS];
	double group_rate = m->a->told_links ? CASE_LINK_RATE : 0;
	struct sched_attr attr = {
		.config = &m->config,
		.rails = rails,
		.n_rails = b->n_rails,
		.tiers = tiers,
		.n_locations = 1,
		.group_rates = &group_rate,
		.n_groups = 1,
		.seed = rand_next(&m->random),
		.ops = &ops,
		.arg = m,
	};

	static_assert(SCHED_NO_GROUP == BOUND_NO_GROUP, "rails are in the same groups");
	for (uint32_t r = 0; r < b->n_rails; r++) {
		rails[r] = (struct sched_rail_attr){
			.rate = CASE_RATE,
			.latency_ns = (uint64_t)m->scene.told_latency[r],
			.group = b->rails[r].group,
		};
		tiers[r] = b->rails[r].remote ? 2 : 0;
	}
	return sched_create(&attr, &m->sched);
}

/* ---- results ---- */

static double sent_from(const struct sim *m, size_t bin)
{
	double sum = 0;

	for (size_t i = bin; i < bin + WINDOW_BINS && i < m->n_bins; i++)
		sum += m->bins[i];
	return sum;
}

/* The time after @from until the throughput is at 95 % of the ideal and stays there to @until. */
static double adaptation(const struct sim *m, double from, double until)
{
	double want =
		ADAPTED * bound_rate(&m->scene.bound, from + 1, INFINITY) * BIN_NS * WINDOW_BINS;
	size_t first = (size_t)(from / BIN_NS) + 1;
	size_t end = (size_t)(until / BIN_NS), adapted = first;

	for (size_t i = first; i + WINDOW_BINS <= end; i++) {
		if (sent_from(m, i) < want)
			adapted = i + 1;
	}
	return (double)adapted * BIN_NS - from;
}

static void judge_adaptation(struct sim *m)
{
	const double *at = m->scene.changes;

	m->r->adapt = NAN;
	if (!at[0])
		return;
	m->r->adapt = adaptation(m, at[0], fmin(at[1], m->r->makespan - BIN_NS * WINDOW_BINS));
	if (m->r->makespan > at[1])
		m->r->adapt = fmax(m->r->adapt,
			adaptation(m, at[1], m->r->makespan - BIN_NS * WINDOW_BINS));
}

static void judge(struct sim *m)
{
	double all = (double)m->submitted;
	struct sched_rail_stats rail;
	struct sched_stats stats;

	sched_stats(m->sched, &stats);
	for (uint32_t i = 0; i < m->scene.bound.n_rails; i++) {
		sched_rail_stats(m->sched, i, &rail);
		m->r->exclusions += rail.exclusions;
	}
	m->r->remote_share = m->c->local ? (double)stats.remote_bytes / all : 1;
	if (m->c->isolated) {
		m->r->least_remote_share =
			bound_remote_share(&m->scene.bound, 0, all / (double)m->requests);
	} else {
		m->r->bound = fmax(m->r->bound, bound_time(&m->scene.bound, 0, all));
		m->r->least_remote_share = bound_remote_share(&m->scene.bound, 0, all);
	}
	judge_adaptation(m);
}

static bool ended(const struct sim *m)
{
	return (!more(m) && !m->open) || m->err;
}

static void loop(struct sim *m)
{
	while (!ended(m)) {
		double at = fmin(net_next(&m->net), m->wake);
		uint64_t wake;

		at = fmin(at, events_next(&m->events));
		if (!(at < LAST_NS)) {
			m->err = -ETIME;
			return;
		}
		net_advance(&m->net, fmax(at, m->net.now));
		while (events_next(&m->events) <= m->net.now) {
			struct event e = events_take(&m->events);

			handle(m, &e);
		}
		wake = sched_run(m->sched, now_ns(m));
		m->wake = wake == SCHED_NEVER ? INFINITY : (double)wake;
	}
}

static int run(struct sim *m)
{
	int err;

	if (m->a->trace)
		fputs("time_us,rail,bytes\n", m->a->trace);
	scene_init(&m->scene, m->c, m->a, &m->random);
	init_net(m);
	plan_events(m);
	err = init_sched(m);
	if (err)
		return err;
	m->to_submit = m->a->bytes;
	m->r->recovery = NAN;
	for (uint32_t i = 0; i < m->c->outstanding && more(m); i++)
		submit(m);
	if (m->c->urgent)
		after(m, URGENT_NS, EV_URGENT, 0, 0);
	m->wake = 0;
	loop(m);
	if (!m->err && !sched_idle(m->sched))
		m->err = -EBUSY;
	if (!m->err)
		judge(m);
	return m->err;
}

int run_case(const struct sim_case *c, const struct sim_assume *a, const struct tent_config *config,
	uint64_t seed, struct samples *slice_ns, struct samples *request_ns, struct run_result *r)
{
	struct sim *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	*r = (struct run_result){0};
	m->slice_ns = slice_ns;
	m->request_ns = request_ns;
	m->c = c;
	m->a = a;
	m->config = *config;
	if (c->urgent)
		m->config.priorities = SCHED_PRIORITIES;
	m->r = r;
	m->random = seed;
	err = run(m);
	sched_destroy(m->sched);
	free(m->bins);
	free(m);
	return err;
}
