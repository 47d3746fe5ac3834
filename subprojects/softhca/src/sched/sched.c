/* SPDX-License-Identifier: MIT */
#include "sched/sched.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>

#include "cm/ids.h"
#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "hca/timer.h"
#include "sched/engine.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "xport/chaos.h"
#include "xport/late.h"
#include "xport/qp.h"
#include "xport/xport.h"

static bool running;

static uint32_t bell_count(void)
{
	/* Pairs with the release in timer_ring(). */
	return __atomic_load_n(timer_bell(fabric_self.slot), __ATOMIC_ACQUIRE);
}

/* The earlier of two times; 0 means never. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

/* Serves all timers. Returns the time of the next one, or 0. */
static uint64_t serve_all(void)
{
	uint64_t now = timer_now(), next;
	struct qp *qp;

	qp_serve_failed();
	while ((qp = timer_take(now)))
		xport_send(qp);
	next = sooner(timer_next(), late_serve(now));
	next = sooner(next, cq_serve(now));
	return sooner(next, cm_serve(now));
}

#define CHAOS_STEPS_LOG 8
#define CHAOS_WAIT_NS 30000

/*
 * Chaos mode: makes a random number of steps. @next: time of the next timer, or 0. Returns the
 * time of the next work, or 0.
 */
static uint64_t pump(uint64_t next)
{
	uint32_t *pumping = &arena()->procs[fabric_self.slot].pumping;
	uint64_t t;

	if (!arena()->chaos || !*pumping)
		return next;
	if (!chaos_pump(chaos_some(1u << chaos_some(CHAOS_STEPS_LOG)))) {
		*pumping = 0;
		return next;
	}
	t = timer_now() + chaos_some(CHAOS_WAIT_NS);
	return next && next < t ? next : t;
}

static void wait_for_bell(uint32_t seen, uint64_t until)
{
	uint64_t now = timer_now(), left = until > now ? until - now : 0;
	struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};

	if (bell_count() != seen || (until && !left))
		return;
	SYS(SYS_futex, timer_bell(fabric_self.slot), FUTEX_WAIT, seen, until ? &ts : NULL, NULL, 0);
}

void sched_serve(void)
{
	if (fabric_lock())
		return;
	serve_all();
	fabric_unlock();
}

/* Serves what is due. Returns the time of the next work, or 0. */
static uint64_t work(void)
{
	uint64_t next;

	if (fabric_lock())
		return timer_now();
	next = pump(serve_all());
	fabric_unlock();
	return next;
}

/* Idle: spins first, then yields, then sleeps. */
static void relax(uint32_t idle)
{
	static const struct timespec nap = {.tv_nsec = 50000};

	if (idle < 64)
		__builtin_ia32_pause();
	else if (idle < 4096 || idle < engine_round())
		SYS(SYS_sched_yield);
	else
		nanosleep(&nap, NULL);
}

static void *poller(void *arg)
{
	uint32_t idle = 0, seen = 0, rung;
	uint64_t next = 0;

	for (;;) {
		rung = bell_count();
		if (rung != seen || (next && next <= timer_now())) {
			seen = rung;
			next = work();
		}
		idle = engine_pass() ? 0 : idle + 1;
		relax(idle);
	}
	return NULL;
}

static void *helper(void *arg)
{
	uint32_t seen;
	uint64_t next;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	for (;;) {
		seen = bell_count();
		next = work();
		wait_for_bell(seen, next);
	}
	return NULL;
}

int sched_start(void)
{
	int r;

	if (running || config_get()->mode == ENGINE_STEP)
		return 0;
	r = thread_start(config_get()->mode == ENGINE_POLL ? poller : helper, NULL);
	running = !r;
	arena()->procs[fabric_self.slot].has_thread = running;
	return r;
}

void sched_forget(void)
{
	running = false;
	chaos_forget();
	late_forget();
	timer_forget();
	engine_forget();
}
