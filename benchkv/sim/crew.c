/* SPDX-License-Identifier: MIT */
/*
 * The threads of a job. Each thread simulates a window of time of its ranks, then waits for the
 * other threads.
 *
 * A WRITE that a thread posts in a window (struct mail) is read by the receiver's thread in the
 * next window, after meet(). In that window other threads may already post WRITEs or set `failed`.
 * Therefore odd and even windows have separate mail, and separate entries of `failed`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/futex.h"
#include "base/wait.h"
#include "job.h"

struct crew {
	struct sim *sim;
	_Atomic uint32_t arrived; /* threads that have reached meet() in this round */
	_Atomic uint32_t round, sleepers;
	_Atomic int failed[2];
	pthread_mutex_t start; /* held until all threads exist */
	bool abandoned;
};

static void sleep_through(struct crew *c, uint32_t round)
{
	/*
	 * seq_cst, like the store to round and the load of sleepers in meet(): either this thread
	 * sees the new round, or the last thread sees this sleeper.
	 */
	atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&c->round, memory_order_seq_cst) == round)
		futex_wait((const uint32_t *)&c->round, round, NSEC_PER_SEC);
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_relaxed);
}

/* A barrier. Writes of a thread before the barrier are visible to all threads after it. */
static void meet(struct crew *c)
{
	/* A relaxed load suffices: the round does not change before this thread has arrived. */
	uint32_t round = atomic_load_explicit(&c->round, memory_order_relaxed);
	struct wait w = WAIT_INIT;

	/* acq_rel: the last thread that arrives sees the writes of all threads before it. */
	if (atomic_fetch_add_explicit(&c->arrived, 1, memory_order_acq_rel) + 1 ==
		c->sim->n_parts) {
		atomic_store_explicit(&c->arrived, 0, memory_order_relaxed);
		/* Pairs with the acquire load below; seq_cst because of sleep_through(). */
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

			if (!timeline_put(&s->daemons[parcel->to].nic.arrivals, &parcel->event))
				continue;
			event_fini(&parcel->event);
			p->error = -ENOMEM;
		}
		mail->n = 0;
	}
}

/* Runs the daemons' steps that begin before the end of the window, in the order of their starts. */
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

/* Simulates a part to the end of the job. 0, or the error of any thread. */
static int run_part(struct part *p)
{
	struct crew *c = p->crew;
	int err = 0;

	for (; !err && p->until < c->sim->end; p->window++) {
		run_window(p);
		/* Relaxed: meet() orders this store before the load. */
		if (p->error)
			atomic_store_explicit(&c->failed[p->window % 2], p->error,
				memory_order_relaxed);
		meet(c);
		err = atomic_load_explicit(&c->failed[p->window % 2], memory_order_relaxed);
	}
	return err;
}

static void *part_main(void *arg)
{
	struct part *p = arg;

	pthread_mutex_lock(&p->crew->start);
	pthread_mutex_unlock(&p->crew->start);
	if (!p->crew->abandoned)
		run_part(p);
	return NULL;
}

/*
 * Starts a thread for each part except the first, which the caller simulates. Returns the number of
 * parts before the first one whose thread could not be started.
 */
static uint32_t call_up(struct crew *c)
{
	struct part *parts = c->sim->parts;
	uint32_t i = 1;

	for (uint32_t j = 0; j < c->sim->n_parts; j++)
		parts[j].crew = c;
	while (i < c->sim->n_parts && !pthread_create(&parts[i].thread, NULL, part_main, &parts[i]))
		i++;
	return i;
}

int crew_run(struct sim *s)
{
	struct crew c = {.sim = s, .start = PTHREAD_MUTEX_INITIALIZER};
	uint32_t n;
	int err = -EAGAIN;

	pthread_mutex_lock(&c.start);
	n = call_up(&c);
	c.abandoned = n < s->n_parts;
	pthread_mutex_unlock(&c.start);
	if (!c.abandoned)
		err = run_part(&s->parts[0]);
	for (uint32_t i = 1; i < n; i++)
		pthread_join(s->parts[i].thread, NULL);
	return err;
}
