/* SPDX-License-Identifier: MIT */
/*
 * A job's threads. Each simulates a window of its ranks' time, then waits for the others.
 *
 * The mail of a window is written by one thread, and read by another one in the next window, after
 * meet(). So there are two sets of mail, for odd and for even windows, and for the same reason two
 * words for the failure of a thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/futex.h"
#include "base/wait.h"
#include "job.h"

struct crew {
	struct sim *sim;
	_Atomic uint32_t arrived; /* in this round */
	_Atomic uint32_t round, sleepers;
	_Atomic int failed[2];
	pthread_mutex_t start; /* held until all threads exist */
	bool abandoned;
};

struct member {
	struct crew *crew;
	struct part *part;
	pthread_t thread;
};

static void sleep_through(struct crew *c, uint32_t round)
{
	/*
	 * seq_cst, as the last thread's store to round and its load of sleepers: one of the two
	 * threads sees the other's store.
	 */
	atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&c->round, memory_order_seq_cst) == round)
		futex_wait((const uint32_t *)&c->round, round, NSEC_PER_SEC);
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_relaxed);
}

/* A barrier. Writes of a thread before it are visible to all threads after it. */
static void meet(struct crew *c)
{
	/* No thread begins the next round before this thread has arrived in this one. */
	uint32_t round = atomic_load_explicit(&c->round, memory_order_relaxed);
	struct wait w = WAIT_INIT;

	/* acq_rel: with the same of the others; the last one has seen what all have done. */
	if (atomic_fetch_add_explicit(&c->arrived, 1, memory_order_acq_rel) + 1 ==
		c->sim->n_parts) {
		atomic_store_explicit(&c->arrived, 0, memory_order_relaxed);
		/* Pairs with the load below (release), and see sleep_through(). */
		atomic_store_explicit(&c->round, round + 1, memory_order_seq_cst);
		if (atomic_load_explicit(&c->sleepers, memory_order_seq_cst))
			futex_wake((const uint32_t *)&c->round, INT_MAX);
		return;
	}
	while (atomic_load_explicit(&c->round, memory_order_acquire) == round) {
		if (wait_step(&w))
			sleep_through(c, round);
	}
}

/* Delivers the WRITEs that were posted in the previous window for this part's ranks. */
static void take_mail(struct part *p)
{
	struct sim *s = p->sim;

	for (uint32_t from = 0; from < s->n_parts; from++) {
		struct mail *mail = sim_mail(s, p->window + 1, from, p->index);

		for (size_t i = 0; i < mail->n; i++) {
			const struct parcel *parcel = &mail->parcels[i];

			if (timeline_put(&s->daemons[parcel->to].nic.arrivals, &parcel->event))
				p->error = -ENOMEM;
		}
		mail->n = 0;
	}
}

/* Runs the daemons' steps that begin before the end of the window, ordered by their beginning. */
static void run_rank(struct rank *r)
{
	for (;;) {
		struct daemon *d = r->daemons;

		for (uint32_t i = 1; i < r->sim->c->daemons; i++)
			d = r->daemons[i].now < d->now ? &r->daemons[i] : d;
		if (d->now >= r->part->until)
			return;
		daemon_step(d);
	}
}

static void run_window(struct part *p)
{
	struct sim *s = p->sim;

	p->until = (p->window + 1) * s->ahead;
	if (p->until > s->end)
		p->until = s->end;
	take_mail(p);
	for (uint32_t i = p->first; i < p->end; i++)
		run_rank(&s->ranks[i]);
}

/* 0, or a failure of any thread. */
static int run_part(struct crew *c, struct part *p)
{
	int err = 0;

	for (; !err && p->until < c->sim->end; p->window++) {
		run_window(p);
		/* relaxed: meet() is between this and the load. */
		if (p->error)
			atomic_store_explicit(&c->failed[p->window % 2], p->error,
				memory_order_relaxed);
		meet(c);
		err = atomic_load_explicit(&c->failed[p->window % 2], memory_order_relaxed);
	}
	return err;
}

static void *member_main(void *arg)
{
	struct member *m = arg;

	pthread_mutex_lock(&m->crew->start);
	pthread_mutex_unlock(&m->crew->start);
	if (!m->crew->abandoned)
		run_part(m->crew, m->part);
	return NULL;
}

/*
 * Starts a thread for each part but the first, which is the caller's. At most n threads are
 * started.
 */
static uint32_t call_up(struct crew *c, struct member *members, uint32_t n)
{
	uint32_t i;

	for (i = 1; i < n; i++) {
		members[i] = (struct member){.crew = c, .part = &c->sim->parts[i]};
		if (pthread_create(&members[i].thread, NULL, member_main, &members[i]))
			break;
	}
	return i;
}

int crew_run(struct sim *s)
{
	struct crew c = {.sim = s, .start = PTHREAD_MUTEX_INITIALIZER};
	struct member *members = calloc(s->n_parts, sizeof(*members));
	uint32_t n;
	int err = -EAGAIN;

	if (!members)
		return -ENOMEM;
	pthread_mutex_lock(&c.start);
	n = call_up(&c, members, s->n_parts);
	c.abandoned = n < s->n_parts;
	pthread_mutex_unlock(&c.start);
	if (!c.abandoned)
		err = run_part(&c, &s->parts[0]);
	for (uint32_t i = 1; i < n; i++)
		pthread_join(members[i].thread, NULL);
	free(members);
	return err;
}
