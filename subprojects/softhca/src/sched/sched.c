/* SPDX-License-Identifier: MIT */
#include "sched/sched.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>

#include "cm/cm.h"
#include "fabric/fabric.h"
#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "hca/timer.h"
#include "sched/choose.h"
#include "sched/doors.h"
#include "sched/engine.h"
#include "sys/sys.h"
#include "sys/thread.h"
#include "xport/chaos.h"
#include "xport/late.h"
#include "xport/qp.h"
#include "xport/wired.h"
#include "xport/xport.h"

#define REFUSALS 8 /* RNR NAKs before a pause; they take about 100 us */
#define REFUSED_PAUSE_NS 100000

static struct thread_once thread = THREAD_ONCE;

static uint32_t bell_count(void)
{
	/* Pairs with the release in timer_ring(). */
	return __atomic_load_n(timer_bell(fabric_self.slot), __ATOMIC_ACQUIRE);
}

/* Returns the earlier of two times; 0 means never. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

/*
 * Repeats the messages that are due. Stops after @refusals RNR NAKs and then returns true: there
 * may be more messages.
 */
static bool serve_messages(uint64_t now, uint64_t refusals)
{
	const uint64_t *refused = &counters_of(fabric_self.slot)->rnr_naks, before = *refused;
	struct qp *qp;

	while (*refused - before < refusals) {
		qp = timer_take(now);
		if (!qp)
			return false;
		xport_send(qp);
	}
	return true;
}

/* Serves the timers. Returns the time of the next timer, or 0. *left_p: see serve_messages(). */
static uint64_t serve_all(uint64_t refusals, bool *left_p)
{
	uint64_t now = timer_now(), next;

	qp_serve_failed();
	*left_p = serve_messages(now, refusals);
	next = *left_p ? now : timer_next();
	next = sooner(next, late_serve(now));
	next = sooner(next, wired_serve_late(now));
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
	bool left;

	if (fabric_lock())
		return;
	serve_all(UINT64_MAX, &left);
	fabric_unlock();
}

/*
 * Serves everything that is due. Returns the time of the next work, or 0. After many RNR NAKs it
 * pauses for longer than a waiter for the mutex sleeps (REST_NAP_NS). So the receiver gets the
 * mutex, which it may need to arm its CQ before it posts receives.
 */
static uint64_t work(void)
{
	static const struct timespec pause = {.tv_nsec = REFUSED_PAUSE_NS};
	uint64_t next;
	bool left;

	if (fabric_lock())
		return timer_now();
	next = pump(serve_all(REFUSALS, &left));
	fabric_unlock();
	if (left)
		nanosleep(&pause, NULL);
	return next;
}

#define SPINS 64u /* after so many passes without work the thread yields after each pass */
#define NAP_AFTER 4096u /* after so many passes without work it sleeps briefly after each pass */
#define LOOK_EVERY 1024u /* passes between two looks at the clock */
#define DENSE_NS 50000u /* doorbells at shorter intervals may be worth a spinning thread */
#define DENSE 16u

/*
 * Returns true if doorbells come so often that it is worth waking the thread. It costs less to
 * execute rare doorbells where they trap.
 */
static bool is_dense(uint64_t now)
{
	static uint64_t last; /* relaxed, like `row`: a wrong count does no harm */
	static uint32_t row;
	uint64_t gap = now - __atomic_exchange_n(&last, now, __ATOMIC_RELAXED);
	uint32_t n = gap < DENSE_NS ? __atomic_load_n(&row, __ATOMIC_RELAXED) + 1 : 0;

	__atomic_store_n(&row, n, __ATOMIC_RELAXED);
	return n >= DENSE;
}

void sched_rung(uint32_t door)
{
	uint64_t now;

	if (config_get()->mode == ENGINE_POLL) {
		doors_knock(door);
		return;
	}
	now = timer_now();
	if (is_dense(now) && (choose_last() || choose_is_old(now)))
		doors_knock(door);
}

/* Waits after pass number @idle without work: spins at first, then yields, then sleeps. */
static void relax(uint32_t idle)
{
	static const struct timespec nap = {.tv_nsec = 50000};

	if (idle < SPINS)
		__builtin_ia32_pause();
	else if (idle < NAP_AFTER || idle < engine_round())
		SYS(SYS_sched_yield);
	else
		nanosleep(&nap, NULL);
}

static bool may_spin(void)
{
	return config_get()->mode == ENGINE_POLL || choose_again();
}

static void tell(bool awake)
{
	struct proc *p = &arena()->procs[fabric_self.slot];

	/* Relaxed: count_members() and softhcactl read it as a hint. */
	__atomic_store_n(&p->awake, awake, __ATOMIC_RELAXED);
}

/* Returns true if nothing was rung for long enough, or if another mode is better now. */
static bool is_over(uint32_t idle, uint64_t *quiet)
{
	uint64_t now = timer_now();

	if (config_get()->idle_ns == IDLE_NEVER || doors_stay_open())
		return false;
	if (idle <= SPINS)
		*quiet = now;
	return now - *quiet > config_get()->idle_ns || !may_spin();
}

/* Serves doorbells and everything that is due, until nothing was rung for a while. */
static void spin(uint32_t seen, uint64_t next)
{
	uint32_t idle = 0, rung, passes = 0;
	uint64_t quiet = timer_now();

	do {
		rung = bell_count();
		if (rung != seen || (next && next <= timer_now())) {
			seen = rung;
			next = work();
			if (doors_knocked())
				doors_take_knocks(true);
		}
		idle = engine_pass() ? 0 : idle + 1;
		relax(idle);
		if (idle && idle % SPINS == 0)
			passes = LOOK_EVERY - 1;
	} while (++passes % LOOK_EVERY || !is_over(idle, &quiet));
}

/*
 * No doorbell is lost when the thread goes to sleep. A doorbell's record is stored before its
 * register. doors_shut() returns when no processor can store to a register any more without a
 * signal; so a doorbell whose store did not trap is in its record by then, and engine_sweep()
 * serves it. Any later store traps and is executed by the signal handler. If the handler calls
 * doors_knock(), the bell differs from `seen`, and wait_for_bell() does not sleep.
 * test/model/doors.pml models this.
 */
static void *beside(void *arg)
{
	bool shut = true;
	uint64_t next;
	uint32_t seen;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	may_spin(); /* makes the first choice */
	for (;;) {
		seen = bell_count();
		next = work();
		if ((doors_knocked() || !shut) && doors_take_knocks(may_spin())) {
			tell(true);
			spin(seen, next);
			shut = doors_shut();
			tell(false);
			engine_sweep();
		} else {
			wait_for_bell(seen, next);
		}
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

static int start(void)
{
	struct proc *p = &arena()->procs[fabric_self.slot];
	const struct config *c = config_get();
	int r;

	p->mode = c->mode;
	p->why = c->why;
	if (c->mode == ENGINE_STEP)
		return 0;
	r = thread_start(c->mode == ENGINE_TRAP ? helper : beside, NULL);
	__atomic_store_n(&p->has_thread, !r, __ATOMIC_RELAXED); /* see choose.c */
	return r;
}

int sched_start(void)
{
	return thread_start_once(&thread, start);
}

void sched_forget(void)
{
	thread_forget(&thread);
	chaos_forget();
	late_forget();
	timer_forget();
	engine_forget();
	doors_forget();
	choose_forget();
}
